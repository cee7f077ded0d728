"""What holds for every text and every JSON that anybody could think of.

Is: Hypothesis over texts made of the pieces that patterns look for, and over arguments with a
needle under a secret key. Is not: single examples (`test_redaction.py`). Above: nothing. Below:
`toolrail.redaction`, `toolrail_schemas`.
"""

import sys
import unicodedata
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.functions import make_spec
from toolrail.redaction import Holding, clean_payload, clean_said
from toolrail.redactor import Redactor
from toolrail.schema_marks import DEPTH_MAX, secret_values
from toolrail_schemas import JsonObject, redact_credentials, summarize_arguments

NEEDLE = "needle-in-plain-words"
KNOWN = (
    "known to us",
    "known to us too",
    "aa",
    "a1b2c3d4\nsecond line of it\"'\\",
    "«redacted»",
    "red",
)
REDACTOR = Redactor(KNOWN)
PIECES = st.sampled_from(
    [
        *("password", "PassWord", "pwd", "secret", "token", "tokens", "api_key", "apikey", "key"),
        *("authorization", "cookie", "bearer", "Basic ", "credential", "sig", "code", "auth"),
        *("=", ":", ": ", "=>", " ", "\n", '"', "'", "\\", '\\"', ",", ";", "&", "?", "@", "/"),
        *("://", "user:", "-----BEGIN ", "RSA PRIVATE KEY-----", "-----END ", "«redacted»", "«"),
        *("ghp_", "sk-", "xoxb-", "AKIA", "eyJ", ".", "-", "_", "glpat-", "hf_", "b'", "»", "*"),
        *("a1" * 12, "A1B2C3D4E5F6G7H8", "aaaaaaaa", "é", "\u202e", "\ud800", "none", "null"),
        *(
            "\x1b[31m",
            "\x1b[K",
            "\x1b]8;;",
            "\x1b\\",
            "\x07",
            "\x9b1m",
            "\\x1b[0m",
            "\\u001b[m",
            "\x1b",
        ),
        *KNOWN,
    ]
)
TEXTS = st.lists(PIECES, max_size=14).map("".join) | st.text(st.characters(), max_size=80)
NUMBERS = st.integers() | st.floats() | st.builds(pow, st.just(10), st.just(5000))
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SECRET_KEYS = st.sampled_from(["password", "user_PASSWORD", "x-api-key", "cookies", "tokens"])
MARKED = "pin"
SPEC = make_spec("demo.any").model_copy(
    update={
        "input_schema": {
            "type": "object",
            "$ref": "#/$defs/any",
            "$defs": {
                "any": {
                    "properties": {MARKED: {"x-secret": True}},
                    "additionalProperties": {"$ref": "#/$defs/any"},
                    "items": {"$ref": "#/$defs/any"},
                }
            },
        }
    }
)


@st.composite
def with_needle(draw: st.DrawFn) -> JsonObject:
    """Return arguments with the needle somewhere below a secret key, at any depth."""
    needles: list[JsonValue] = [NEEDLE, [NEEDLE], {"a": [{"b": NEEDLE}]}, f"{NEEDLE} and more"]
    arguments: JsonObject = {draw(SECRET_KEYS | st.just(MARKED)): draw(st.sampled_from(needles))}
    for _ in range(draw(st.integers(0, 5))):
        siblings = cast("JsonObject", draw(st.dictionaries(TEXTS, JSON, max_size=2)))
        is_listed = draw(st.booleans())
        inner: JsonValue = [*siblings.values(), arguments] if is_listed else arguments
        arguments = {**siblings, draw(TEXTS): inner}
    return arguments


@given(TEXTS)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    """What was cleaned when it was written may be cleaned again when it is shown."""
    once = REDACTOR.clean(text)

    assert REDACTOR.clean(once) == once
    assert redact_credentials(redact_credentials(text)) == redact_credentials(text)


ESCAPES = st.sampled_from(["\x1b[31m", "\x1b[01;31m\x1b[K", "\x9b0m", "\\x1b[0m", "\\u001b[m"])


@given(st.data())
def test_no_escape_sequence_hides_a_credential(data: st.DataObject) -> None:
    """Before it, inside of it, anywhere and more than once, as it is or spelled."""
    secret = data.draw(st.sampled_from(["ghp_" + "a1B2" * 9, "known to us too"]))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(secret) - 1), min_size=1, max_size=4)))
    parts = [secret[a:b] for a, b in zip([0, *cuts], [*cuts, len(secret)], strict=True)]
    text = "of it: " + "".join(part + data.draw(ESCAPES) for part in parts) + " and on"
    cleaned = REDACTOR.clean(text)

    assert "«redacted»" in cleaned
    assert not [part for part in parts if len(part) > 3 and part in cleaned]
    assert cleaned.startswith("of it: ")
    assert cleaned.endswith(" and on")


@given(JSON)
def test_any_json_is_cleaned_and_keeps_its_shape(value: JsonValue) -> None:
    """Numbers beyond printing, NaN and halves of surrogate pairs included."""
    once = REDACTOR.clean_json(value)

    assert type(once) is type(value)
    assert repr_of(REDACTOR.clean_json(once)) == repr_of(once)
    assert repr_of(REDACTOR.without_known(REDACTOR.without_known(value))) == repr_of(
        REDACTOR.without_known(value)
    )


def repr_of(value: JsonValue) -> str:
    """Return a text that is equal for equal JSON, NaN included."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return repr(value)
    finally:
        sys.set_int_max_str_digits(limit)


@given(with_needle())
def test_what_is_under_a_secret_key_is_seen_nowhere(arguments: JsonObject) -> None:
    """Not in the summary, nor in the whole view, nor in what was said of the call."""
    whole = REDACTOR.arguments(SPEC, arguments)
    with Holding(SPEC, arguments):
        said = clean_said(f"it was {NEEDLE}, or {NEEDLE} and more")

    assert NEEDLE not in REDACTOR.summarize(SPEC, arguments)
    assert NEEDLE not in summarize_arguments(arguments, secret_keys={MARKED})
    assert NEEDLE not in repr_of(whole)
    assert NEEDLE not in said


@given(st.dictionaries(TEXTS, JSON, max_size=30) | with_needle())
def test_a_summary_is_short_and_safe_and_the_same_each_time(arguments: JsonObject) -> None:
    """Line ends stand between keys only, and nothing in it can hide or turn text around."""
    summary = REDACTOR.summarize(SPEC, arguments)
    lines = summary.split("\n")

    assert summary == REDACTOR.summarize(SPEC, dict(arguments))
    assert len(summary) <= 1000
    assert len(lines) <= max(1, len(arguments))
    assert not [c for line in lines for c in line if unicodedata.category(c) in UNSAFE]


UNSAFE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.dictionaries(TEXTS, JSON, max_size=5))
def test_a_payload_stays_within_its_limits(payload: JsonObject) -> None:
    """A mark may be longer than what it stands for, and the journal takes 1000 characters."""
    payload = {**payload, "message": "pwd=x " * 166}
    cleaned = clean_payload(payload)

    assert len(cast("str", cleaned["message"])) <= 1000
    assert "pwd=x" not in cast("str", cleaned["message"])


def test_arguments_of_any_depth_are_redacted() -> None:
    """Deeper than a thousand levels, and deeper than anybody looks: hidden whole."""
    value: JsonValue = NEEDLE
    for n in range(900):
        value = {"a": value} if n % 2 else [value]
    arguments: JsonObject = {"a": value, "password": value}

    assert NEEDLE not in repr_of(REDACTOR.arguments(SPEC, arguments))
    assert NEEDLE not in repr_of(REDACTOR.clean_json(arguments))
    assert NEEDLE not in REDACTOR.summarize(SPEC, arguments)
    assert secret_values(SPEC, arguments) == []
    assert DEPTH_MAX < 900
