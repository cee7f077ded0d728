"""What an edit changes, as a person sees it; and what `--set` takes."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from toolrail.cli.approvals_diff import CHANGED, diff_lines, marked_where_hidden
from toolrail.cli.approvals_edit import parse_sets
from toolrail.cli.plain import json_lines
from toolrail.errors import ConfigError
from toolrail.validation import parse_arguments
from toolrail_schemas import REDACTED

STYLE = re.compile(r"\x1b\[[0-9;]*m")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)


def diff(
    old: dict[str, JsonValue],
    new: dict[str, JsonValue],
    shown_old: dict[str, JsonValue],
    shown_new: dict[str, JsonValue],
) -> list[str]:
    """Return the lines of the diff, without colours and bar."""
    lines = diff_lines(old, new, shown_old=shown_old, shown_new=shown_new, width=100)
    return [STYLE.sub("", line).removeprefix("  │ ") for line in lines]


def test_a_diff_shows_old_and_new() -> None:
    """With the lines around, so that one knows where."""
    old: dict[str, JsonValue] = {"to": "ana", "cc": ["x", "y"]}
    new: dict[str, JsonValue] = {"to": "bob", "cc": ["x", "y"], "n": 1}

    assert diff(old, new, old, new) == [
        " {",
        '-  "to": "ana",',
        '+  "to": "bob",',
        '   "cc": [',
        '     "x",',
        '     "y"',
        "-  ]",
        "+  ],",
        '+  "n": 1',
        " }",
    ]


def test_a_changed_secret_is_marked_and_not_shown() -> None:
    """It looks the same before and after; nobody approves a change that they cannot see."""
    lines = diff(
        {"pin": "1", "to": "ana"},
        {"pin": "2", "to": "ana"},
        {"pin": REDACTED, "to": "ana"},
        {"pin": REDACTED, "to": "ana"},
    )

    assert f'+  "pin": "{REDACTED} {CHANGED}",' in lines
    assert not any("1" in line or "2" in line for line in lines)


@given(OBJECTS, OBJECTS)
def test_no_difference_hides_behind_redaction(
    old: dict[str, JsonValue], new: dict[str, JsonValue]
) -> None:
    """Whatever is redacted, even all of it: two arguments that differ look different."""

    def hidden(value: JsonValue) -> JsonValue:
        if isinstance(value, dict):
            return {key: hidden(inner) for key, inner in value.items()}
        return [hidden(inner) for inner in value] if isinstance(value, list) else REDACTED

    shown_old, shown_new = hidden(old), hidden(new)
    marked = marked_where_hidden(old, new, shown_old, shown_new)

    assert (json_lines(old) == json_lines(new)) == (json_lines(shown_old) == json_lines(marked))


@given(OBJECTS)
def test_what_the_editor_shows_reads_back_as_it_was(arguments: dict[str, JsonValue]) -> None:
    """Escapes for what cannot be seen change nothing of what is said."""
    text = "\n".join(json_lines(arguments))

    assert parse_arguments(text) == arguments
    assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("text", ["\x7f", "\x9b2J", "\u202e", "\u2028", "\U000e0041", "é日", "\\n"])
def test_invisible_characters_are_escapes_of_json(text: str) -> None:
    """Also those beyond U+FFFF, as two halves."""
    lines = json_lines({"k": text, text: 1})

    assert parse_arguments("\n".join(lines)) == {"k": text, text: 1}
    assert all(line.isprintable() for line in lines)


def test_set_takes_json() -> None:
    """With its quotes, so that a text that looks like a number stays one."""
    given = ['to="a=b"', "n=1", 'm={"x": [true, null]}', 'päth="ä"']

    assert parse_sets(given) == {"to": "a=b", "n": 1, "m": {"x": [True, None]}, "päth": "ä"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["to"], "'to' sets nothing"),
        (["=1"], "'=1' sets nothing"),
        (["a=1", "a=2"], "'a=2' sets nothing"),
        (["to=ana"], "the value of 'to' is no JSON. Text needs its quotes too"),
        (["to="], "is no JSON"),
        (["a\x1b[2J=x"], r"a\\u001b[2J"),
        (["a=" + "[" * 100_000], "is no JSON"),
    ],
)
def test_set_says_what_it_cannot_take(given: list[str], why: str) -> None:
    """Before anything is read of the question."""
    with pytest.raises(ConfigError) as caught:
        parse_sets(given)

    assert why in str(caught.value)
    assert str(caught.value).startswith("--set: ")
