"""One redactor, three layers: marks and names, known values, patterns.

Is: `toolrail.redaction` on made-up texts. Is not: where it is applied (`test_planted_secrets.py`).
Above: nothing. Below: `toolrail.redaction`, `toolrail.schema_marks`.
"""

import pytest
from pydantic import JsonValue

from tests.functions import make_spec
from toolrail.redaction import counts, redact_arguments, secrets_of_url, summarize
from toolrail.redactor import Redactor
from toolrail_schemas import JsonObject, ToolSpec

NEEDLE = "plain words of nobody"
REDACTED = "«redacted»"
PLAIN = Redactor()


def taking(schema: JsonObject) -> ToolSpec:
    """Return a tool with this input schema."""
    return make_spec("demo.any").model_copy(update={"input_schema": {"type": "object", **schema}})


@pytest.mark.parametrize("mark", [{"x-secret": True}, {"format": "password"}, {"writeOnly": True}])
def test_a_marked_argument_is_hidden_whatever_it_is_called(mark: JsonObject) -> None:
    """In the summary and in the whole view; other arguments stay."""
    spec = taking({"properties": {"pin": {"type": "string", **mark}}})
    arguments: JsonObject = {"pin": NEEDLE, "path": "a/b"}

    assert PLAIN.summarize(spec, arguments) == f'pin: {REDACTED}\npath: "a/b"'
    assert PLAIN.arguments(spec, arguments) == {"pin": REDACTED, "path": "a/b"}


MARK: JsonObject = {"x-secret": True}
NESTED: dict[str, tuple[JsonObject, JsonObject]] = {
    "an object": ({"properties": {"a": {"properties": {"b": MARK}}}}, {"a": {"b": NEEDLE}}),
    "an array": ({"properties": {"a": {"items": MARK}}}, {"a": [NEEDLE]}),
    "a tuple": ({"properties": {"a": {"prefixItems": [{}, MARK]}}}, {"a": [1, NEEDLE]}),
    "a reference": (
        {"properties": {"a": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": MARK}},
        {"a": NEEDLE},
    ),
    "an anchor": (
        {"properties": {"a": {"$ref": "#x"}}, "$defs": {"y": {"$anchor": "x", **MARK}}},
        {"a": NEEDLE},
    ),
    "the schema itself": (
        {"properties": {"a": {"$ref": "#"}, "b": MARK}},
        {"a": {"a": {"b": NEEDLE}}},
    ),
    "a choice": ({"oneOf": [{"properties": {"a": MARK}}, {}]}, {"a": NEEDLE}),
    "a condition": ({"if": {}, "then": {"properties": {"a": MARK}}}, {"a": NEEDLE}),
    "any other key": ({"additionalProperties": MARK}, {"a": NEEDLE}),
    "keys by pattern": ({"patternProperties": {"(a+)+$": MARK}}, {"a": NEEDLE}),
    "a secret name": ({}, {"a": [{"db_password": NEEDLE}]}),
}


@pytest.mark.parametrize("how", NESTED)
def test_a_mark_is_found_wherever_the_schema_puts_it(how: str) -> None:
    """A value that one reading of the schema calls secret is secret."""
    schema, arguments = NESTED[how]
    spec = taking(schema)

    assert NEEDLE not in str(PLAIN.arguments(spec, arguments))
    assert NEEDLE not in PLAIN.summarize(spec, arguments)


def test_a_schema_that_never_ends_hides_everything_and_returns() -> None:
    """Too many sub-schemas speak of one value to read them all."""
    many: list[JsonValue] = [{"properties": {f"k{n}": {}}} for n in range(400)]
    spec = taking({"allOf": many, "$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})

    assert PLAIN.arguments(taking({"$ref": "#"}), {"a": 1}) == {"a": 1}
    assert PLAIN.summarize(spec, {"a": NEEDLE}) == f"a: {REDACTED}"


def test_known_values_are_hidden_however_they_are_spelled() -> None:
    """As they are, in JSON, in a `repr`, in a URL; the longest first."""
    value = 'pä"ss\\wörd /1'
    known = Redactor([value, value + "23", "short"])
    spelled = [
        value,
        f"{value!r}",
        "p%C3%A4%22ss%5Cw%C3%B6rd%20%2F1",
        'p\\u00e4\\"ss\\\\w\\u00f6rd /1',
    ]

    assert [known.clean(f"<{text}>").strip("<>'") for text in spelled] == [REDACTED] * 4
    assert known.clean(value + "23") == REDACTED
    assert known.clean("a short word") == "a short word"


def test_the_mark_itself_cannot_be_a_secret() -> None:
    """Else every cleaning would find it again."""
    assert Redactor(["redacted"]).clean(f"redacted {REDACTED}") == f"redacted {REDACTED}"


def test_the_password_of_a_url_is_known_in_both_spellings() -> None:
    """And no URL is refused here."""
    assert secrets_of_url("redis://:p%40ss@h/0") == ["p%40ss", "p@ss"]
    assert secrets_of_url("http://[") == secrets_of_url(None) == secrets_of_url("redis://h") == []


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("password=hunter2", "password=«redacted»"),
        ("my password: hunter2!", "my password: «redacted»"),
        ('{"password": "cor rect\\"horse", "x": 1}', '{"password": "«redacted»", "x": 1}'),
        ('{\\"password\\": \\"a b\\"}', '{\\"password\\": \\"«redacted»\\"}'),
        ("{'Authorization': 'Bearer abc'}", "{'Authorization': '«redacted»'}"),
        ("(b'cookie', b'ab'), (b'a', b'b')", "(b'cookie', b'«redacted»'), (b'a', b'b')"),
        ("Authorization: Digest a=b, c=d\nnext", "Authorization: «redacted»\nnext"),
        ("token=Bearer abc123def456", "token=«redacted» «redacted»"),
        ("https://u:p%40ss@host/x?sig=abc&z=1", "https://u:«redacted»@host/x?sig=«redacted»&z=1"),
        ("redis://:pw@h:6379/0", "redis://:«redacted»@h:6379/0"),
        ("-----BEGIN PRIVATE KEY-----\\nabc\\n-----END PRIVATE KEY-----.", "«redacted»."),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "«redacted»"),
        ("a-AKIAABCD1234ABCD1234.", "a-«redacted»."),
        ("Cookie: a=b; c=d", "Cookie: «redacted»"),
        ("\x1b[31mAKIAABCD1234ABCD1234\x1b[0m is red", "\x1b[31m«redacted»\x1b[0m is red"),
        ("\x1b[1mpass\x1b[0mword=hunter2 \x1b[1mrm", "\x1b[1mpassword=«redacted» \x1b[1mrm"),
        ("\\u001b[31mAKIAABCD1234ABCD1234", "\\u001b[31m«redacted»"),
        ("\x1b]0;rm -rf /\x07 pwd=x1", "\x1b]0;rm -rf /\x07 pwd=«redacted»"),
    ],
)
def test_a_credential_is_cut_out_of_any_text(text: str, clean: str) -> None:
    """What is around it stays: which name, which user, which host."""
    assert PLAIN.clean(text) == clean


@pytest.mark.parametrize(
    "text",
    [
        "TOOLRAIL_SECRET: must have at least 16 characters. Correct or unset it.",
        "There is no secret to sign doorbells with. Set TOOLRAIL_SECRET or TOOLRAIL_SECRET_FILE.",
        "max_output_tokens: 4000, output_tokens=12, token=null, password=None",
        "call_key=0123456789abcdef public_key: ssh-rsa",
        "Bearer authentication required. WWW-Authenticate: Bearer realm",
        '{"url":"http://h:8080","mail":"me@example.org"}',
        "sk-ip, task-force-of-the-night, the bearer of news",
        "«redacted»",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    """Our own sentences, counters and keys among them."""
    assert PLAIN.clean(text) == text


WORST = [
    *("password=", "pwd", 'token="', "token='", "password: ", "secret: Aaaaaa", "pwd: " + "a" * 64),
    *("-eyJ", "eyJ", "eyJaaaaaaaa.", "sk-", "xox", "ghp_aaaaaaaaaaaaaaaaa", "AKIAABCD", "hf_pypi-"),
    *("://", "://a:", "://a:b", "bearer ", "Bearer   ", "basic aaaaaaaa ", "?sig=", "cookie: "),
    *(
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN ",
        'cookie"',
        'pwd="\\',
        "api_key  ",
        "«redacted»",
    ),
    *("authorization", "secret" + "a" * 40, 'pwd\\\\"', "authorization',  b'", "a", " ", "\ud800"),
]


@pytest.mark.parametrize("unit", WORST)
def test_no_text_takes_long(unit: str) -> None:
    """A pattern that reads again what it read would take minutes, and the test would time out."""
    text = unit * (500_000 // len(unit))

    assert Redactor(["some value"]).clean(text)


def test_a_summary_and_a_whole_view_that_hide_something_are_counted() -> None:
    """Operators see that secrets come in arguments, wherever they are shown."""
    spec = taking({})
    before = counts()["arguments"]
    summarize(spec, {"path": "a/b"})
    redact_arguments(spec, {"path": "a/b"})
    harmless = counts()["arguments"]
    summarize(spec, {"password": NEEDLE})
    redact_arguments(spec, {"password": NEEDLE})

    assert harmless == before
    assert counts()["arguments"] == before + 2
