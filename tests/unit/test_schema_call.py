"""A ToolCall carries what a model asked for, within limits, and gives it a safe key.

Is: ids, arguments, metadata and `call_key` (semantics 1.4). Is not: decoding of a provider's
response. Above: nothing. Below: `toolrail_schemas.call`.
"""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from toolrail_schemas import Caller, JsonObject, ToolCall, call_key

RUN = "run_01JDXAMP0E0000000000000000"
MIB = 1024 * 1024


def call(**changes: object) -> ToolCall:
    """Return a plain call, with changes."""
    return ToolCall.model_validate({"id": "c1", "name": "notes.add", **changes})


def sized(size: int) -> JsonObject:
    """Return an object of so many bytes of JSON."""
    return {"a": "x" * (size - len('{"a":""}'))}


def test_a_call_has_defaults() -> None:
    """No arguments, no metadata, the assistant, the first turn."""
    assert call() == ToolCall(
        id="c1", name="notes.add", arguments={}, provider_metadata={}, caller=Caller.ASSISTANT
    )


@pytest.mark.parametrize("identifier", ["x", "x" * 256, "ü" * 128, "a/../b", "{}", " "])
def test_a_call_id_is_opaque(identifier: str) -> None:
    """1 to 256 bytes of anything."""
    assert call(id=identifier).id == identifier


@pytest.mark.parametrize("identifier", ["", "x" * 257, "ü" * 129, "a\x00b", "\ud800", None, 7])
def test_a_call_id_that_cannot_be_stored_is_refused(identifier: object) -> None:
    """Bytes count, not characters; a missing id fails the run and is never invented."""
    with pytest.raises(ValidationError):
        call(id=identifier)


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_no_arguments_is_an_empty_object(nothing: object) -> None:
    """Providers spell it three ways."""
    assert call(arguments=nothing).arguments == {}


@pytest.mark.parametrize(
    "arguments",
    [[], [1], 7, "x", {"a": float("nan")}, {"a": float("inf")}, {"a": "\ud800"}, {"\ud800": 1}],
)
def test_arguments_are_a_json_object(arguments: object) -> None:
    """Arrays, scalars, NaN and lone surrogates are not."""
    with pytest.raises(ValidationError):
        call(arguments=arguments)


@pytest.mark.parametrize(("field", "limit"), [("arguments", MIB), ("provider_metadata", 64 * 1024)])
def test_what_a_call_carries_is_bounded(field: str, limit: int) -> None:
    """Exactly the limit is in, one byte more is out."""
    assert getattr(call(**{field: sized(limit)}), field) == sized(limit)
    with pytest.raises(ValidationError):
        call(**{field: sized(limit + 1)})


@pytest.mark.parametrize("fields", [{"turn": -1}, {"turn": "1"}, {"caller": "root"}, {"x": 1}])
def test_a_call_is_closed(fields: JsonObject) -> None:
    """Unknown fields and callers are refused; numbers are not read from text."""
    with pytest.raises(ValidationError):
        call(**fields)


def test_a_call_does_not_change() -> None:
    """Immutable, like every wire model."""
    with pytest.raises(ValidationError):
        setattr(call(), "name", "other")  # noqa: B010  # a type checker refuses the plain form


def test_a_call_key_is_the_digest_of_run_turn_and_id() -> None:
    """16 hex digits, separated by NUL, which no id holds."""
    digest = hashlib.sha256(f"{RUN}\x003\x00c1".encode()).hexdigest()

    assert call_key(RUN, 3, "c1") == digest[:16]


@given(
    st.tuples(st.integers(0, 99), st.text(min_size=1, max_size=8)),
    st.tuples(st.integers(0, 99), st.text(min_size=1, max_size=8)),
)
def test_different_calls_have_different_keys(one: tuple[int, str], other: tuple[int, str]) -> None:
    """Turn 1 with id "1x" is not turn 11 with id "x"."""
    same_key = call_key(RUN, *one) == call_key(RUN, *other)

    assert same_key == (one == other)
