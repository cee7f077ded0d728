"""The exception tree: messages, codes, pickling, and that the drawing is the tree.

Is: facts that hold for every class. Is not: who raises what.
Above: nothing. Below: `toolrail.errors`.
"""

import pickle
import re

import pytest

from toolrail import errors
from toolrail.errors import ConfigError, RedisUnavailable, SystemFailure, ToolError, ToolrailError


def all_errors(root: type[ToolrailError] = ToolrailError) -> list[type[ToolrailError]]:
    """Return the root and everything below it, each once."""
    found = [root]
    for child in root.__subclasses__():
        found += all_errors(child)
    return [cls for cls in found if cls.__module__ == errors.__name__]


def drawn_parents() -> dict[str, str | None]:
    """Read class name -> parent's name off the tree in the module header."""
    parents: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^ {4}((?:│   |    )*)(?:├── |└── )?(\w+)(?:  .*)?$", line)
        if match is None:
            continue
        depth = len(match[1]) // 4 + ("──" in line)
        parents[match[2]] = path[depth - 1] if depth else None
        path[depth:] = [match[2]]
    return parents


def test_the_drawn_tree_is_the_real_tree() -> None:
    """The header shows every class under its real parent and no other."""
    real = {
        cls.__name__: None if cls is ToolrailError else cls.__bases__[0].__name__
        for cls in all_errors()
    }

    assert drawn_parents() == real


@pytest.mark.parametrize("cls", all_errors(), ids=lambda cls: cls.__name__)
def test_every_error_has_a_code_and_a_message_that_ends_as_a_sentence(
    cls: type[ToolrailError],
) -> None:
    """The default message is one line: what happened, then the remedy."""
    message = cls.default_message()

    assert re.fullmatch(r"[a-z]+\.[a-z_]+", cls.code)
    assert message.endswith(".")
    assert "\n" not in message
    assert re.search(r"[.;] ", message), "says what to do"


def test_codes_are_unique() -> None:
    """A code on the wire names one class."""
    codes = [cls.code for cls in all_errors()]

    assert len(codes) == len(set(codes))


def test_the_docstring_is_the_default_message() -> None:
    """An error raised without words still tells the remedy."""
    assert str(RedisUnavailable()).startswith("Redis did not answer in time.")
    assert RedisUnavailable().retryable


def test_a_config_error_names_file_line_key_and_fix() -> None:
    """A reader can go straight to the place."""
    error = ConfigError("is not a number.", fix="Write 5.", file="a.toml", line=3, key="slots")

    assert str(error) == "a.toml:3: slots: is not a number. Write 5."
    assert (error.file, error.line, error.key) == ("a.toml", 3, "slots")


@pytest.mark.parametrize(
    "error",
    [
        ToolError("patch.ambiguous", "Two places fit.", next_action="Add context.", structured=[1]),
        SystemFailure("workspace.io_failed", "The disk is full."),
        ConfigError("bad", fix="good", file="x", line=1, key="k"),
        RedisUnavailable("gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_survives_pickling_with_all_its_facts(error: ToolrailError) -> None:
    """Isolated tools raise in another process."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # bytes of our own

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
