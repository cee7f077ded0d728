"""A function that cannot be a tool is refused where it is written, with the fix."""

from collections.abc import Callable
from typing import Annotated, cast

import pytest
from pydantic import Field

from toolrail.errors import ConfigError
from toolrail.tools import (
    ToolContext,
    ToolOptions,
    tool,
)
from toolrail_schemas import (
    Isolation,
    Rollback,
    SurfaceMeta,
)


def in_thread(**more: object) -> ToolOptions:
    options: ToolOptions = {"isolation": Isolation.THREAD, "read_only": True}
    options.update(more)  # type: ignore[typeddict-item]  # keys come from the tests below
    return options


def function_of(parameter: str) -> Callable[..., object]:
    """Return a function whose parameter a type checker would refuse."""
    scope: dict[str, Callable[..., object]] = {}
    source = f'def untyped({parameter}) -> None:\n    """Bad."""\n'
    exec(compile(source, __file__, "exec"), scope)  # noqa: S102  # text of this file
    return scope["untyped"]


def stars(*args: int) -> None:
    """Bad."""


def keywords(**kwargs: int) -> None:
    """Bad."""


def positional(x: int, /) -> None:
    """Bad."""


def undescribed(x: int) -> None:
    pass


def unspelled(x: int = object()) -> None:  # type: ignore[assignment]
    """Bad."""


def unserialisable(x: object = object()) -> None:
    """Bad."""


def unknown_type(x: Callable[[int], int]) -> None:
    """Bad."""


def aliased(x: Annotated[int, Field(alias="y")]) -> None:
    """Bad."""


def two_contexts(a: ToolContext, b: ToolContext) -> None:
    """Bad."""


def generator(x: int) -> object:
    """Bad."""
    yield x


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (function_of("x"), ["parameter 'x'", "no type", "x: str"]),
        (function_of("self"), ["parameter 'self'", "plain function"]),
        (stars, ["parameter '*args'", "any number", "named parameter"]),
        (keywords, ["parameter '**kwargs'", "any number"]),
        (positional, ["parameter 'x'", "positional only", "/"]),
        (undescribed, ["description", "docstring"]),
        (unspelled, ["parameter 'x'", "default", "widen the type"]),
        (unserialisable, ["default", "JSON"]),
        (unknown_type, ["JSON types"]),
        (aliased, ["parameter 'x'", "alias"]),
        (two_contexts, ["parameter 'b'", "ToolContext"]),
        (generator, ["generator", "Return the whole answer"]),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_at_decoration(
    function: Callable[..., object], words: list[str]
) -> None:
    """The error names the file, the tool, the parameter and the fix."""
    with pytest.raises(ConfigError) as caught:
        tool("a.b")(function)

    assert __file__ in str(caught.value)
    assert "a.b" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["add", "Notes.add", "notes.", ".add", "notes add", "mcp.x.y", ""])
def test_a_name_is_group_dot_verb(name: str) -> None:
    """A name that policy could not address is refused where it is written."""

    def fine() -> None:
        """Do."""

    if name:
        with pytest.raises(ConfigError, match="name"):
            tool(name, **in_thread())(fine)
    else:
        assert tool(name, **in_thread())(fine).spec.name.endswith(".fine")


def test_a_local_function_cannot_run_in_another_process() -> None:
    """Nobody finds that out at the first call."""

    def local() -> None:
        """Do."""

    with pytest.raises(ConfigError, match="module level"):
        tool("a.b")(local)


def test_isolation_fits_the_kind_of_function() -> None:
    """A blocking function never lands on the event loop, an async one nowhere else."""

    def blocking() -> None:
        """Do."""

    async def waiting() -> None:
        """Do."""

    with pytest.raises(ConfigError, match="event loop"):
        tool("a.b", isolation=Isolation.LOOP)(blocking)
    with pytest.raises(ConfigError, match="async"):
        tool("a.b", isolation=Isolation.THREAD)(waiting)


def test_an_unresolvable_annotation_is_named() -> None:
    """A type imported for the checker only does not surface as a NameError at import."""

    with pytest.raises(ConfigError, match="Nowhere"):
        tool("a.b")(function_of("x: 'Nowhere'"))


def test_an_input_example_that_does_not_fit_is_refused() -> None:
    """A model is never shown an example the tool would reject."""

    def take(x: int) -> None:
        """Take."""

    with pytest.raises(ConfigError, match="example"):
        tool("a.b", **in_thread(surface=SurfaceMeta(input_examples=({"x": "1"},))))(take)


def test_contradicting_effects_are_refused() -> None:
    """`rollback=not_needed` on something that writes is a mistake of its author."""

    def take(x: int) -> None:
        """Take."""

    with pytest.raises(ConfigError, match="rollback"):
        tool("a.b", isolation=Isolation.THREAD, rollback=Rollback.NOT_NEEDED)(take)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"readonly": True}, "Did you mean read_only"),
        ({"zzz": 3}, "Known are: title"),
        ({"read_only": True, "destructive": True}, "read_only and destructive at once"),
        ({"isolation": "loop"}, "Isolation.LOOP"),
        ({"isolation": "docker"}, "Isolation.LOOP"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(options: dict[str, object], words: str) -> None:
    """Swallowing it would leave the worst case in force."""

    def look(text: str) -> str:
        """Look."""
        return text

    with pytest.raises(ConfigError, match=words):
        tool("notes.look", **cast("ToolOptions", options))(look)
