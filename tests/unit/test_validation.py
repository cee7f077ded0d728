"""What a model wrote becomes a JSON object that fits the schema, or an answer that says why not."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.policies import READING, native
from toolrail.errors import InvalidArguments
from toolrail.validation import ARGUMENTS_MAX_BYTES, ArgumentValidators, parse_arguments

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "size": {"type": "integer", "minimum": 1}},
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("text", ["", "  \n", "null", b"", None, {}])
def test_nothing_is_no_arguments(text: str | bytes | None) -> None:
    """As a provider sends it."""
    assert parse_arguments(text) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1]", "array, not an object"),
        ("7", "number, not an object"),
        ("true", "boolean, not an object"),
        ('"x"', "string, not an object"),
        ("{", "line 1, column 2"),
        ('{"a":1,"a":2}', "twice"),
        ('{"b":{"a":1,"a":2}}', "twice"),
        ('{"a":NaN}', "NaN"),
        ('{"a":-Infinity}', "-Infinity"),
        ({"a": [float("nan")]}, "NaN"),
        ('{"a":"\\ud800"}', "surrogate"),
        ({"a": "\ud800"}, "surrogate"),
        ('{"a":' * 100_000, "deep"),
        ('{"a":"' + "x" * ARGUMENTS_MAX_BYTES + '"}', "the limit is"),
        (b'{"a":"\xff"}', "UTF-8"),
        ({"a": object()}, "not JSON"),
        ('{"a":' + "1" * 5000 + "}", "too many digits.*as a string"),
        ({"a": 10**5000}, "not JSON"),
    ],
)
def test_what_is_no_json_object_is_refused_with_the_reason(text: str | bytes, why: str) -> None:
    """The reason is one the model can act on."""
    with pytest.raises(InvalidArguments, match=why):
        parse_arguments(text)


@given(st.dictionaries(st.text(max_size=5), st.integers(-(2**53), 2**53) | st.text() | st.none()))
def test_arguments_are_read_as_they_were_written(arguments: dict[str, JsonValue]) -> None:
    """From text, bytes and an object alike."""
    text = json.dumps(arguments)

    assert parse_arguments(text) == parse_arguments(text.encode()) == arguments
    assert parse_arguments(arguments) == arguments


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "required"),
        ({"path": 1}, "path: "),
        ({"path": "a", "size": 0}, "size: "),
        ({"path": "a", "colour": "b"}, "Known keys: path, size"),
        ({"path": 1, "size": "x"}, "path: .*size: "),
    ],
)
def test_arguments_that_do_not_fit_are_told_where(
    arguments: dict[str, JsonValue], why: str
) -> None:
    """Each problem with its place, and the keys there are."""
    spec = native("demo.read", annotations=READING).model_copy(update={"input_schema": SCHEMA})
    with pytest.raises(InvalidArguments, match=why):
        ArgumentValidators().check(spec, arguments)


def test_a_pattern_with_look_around_still_validates() -> None:
    """The linear engine does not know it; the bounded one does."""
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"name": {"type": "string", "pattern": "^(?!bad).*$"}},
    }
    spec = native("demo.read", annotations=READING).model_copy(update={"input_schema": schema})
    validators = ArgumentValidators()
    validators.check(spec, {"name": "good"})

    with pytest.raises(InvalidArguments, match="name"):
        validators.check(spec, {"name": "bad"})
