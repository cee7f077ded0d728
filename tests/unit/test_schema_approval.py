"""A person is shown enough to decide, and nothing that could deceive.

Is: `summarize_arguments` and the approval record (semantics 6). Is not: the decision itself.
Above: nothing. Below: `toolrail_schemas.approval`.
"""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from toolrail_schemas import Annotations, ApprovalRecord, JsonObject, summarize_arguments

RUN = "run_01JDXAMP0E0000000000000000"
KEY = "0123456789abcdef"
SHA = "ab" * 32
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
REDACTED = "«redacted»"


def record(**changes: object) -> ApprovalRecord:
    """Return a pending question, with changes."""
    fields: dict[str, object] = {
        "approval_id": "a1",
        "run_id": RUN,
        "call_id": "c1",
        "call_key": KEY,
        "name": "mcp.gh.create",
        "title": "Create",
        "source": "mcp",
        "source_ref": {"server": "gh"},
        "spec_hash": SHA,
        "args_sha256": SHA,
        "policy_hash": SHA,
        "args_summary": "a: 1",
        "args_ref": f"args:{KEY}",
        "annotations": Annotations(),
        "rollback": "none",
        "policy_reason": "spec: approval_required",
        "requested_at": 1000,
        "expires_at": 601_000,
    }
    return ApprovalRecord.model_validate({**fields, **changes})


@pytest.mark.parametrize(
    ("arguments", "summary"),
    [
        ({}, ""),
        ({"a": 1, "b": "x", "c": None, "d": True}, 'a: 1\nb: "x"\nc: null\nd: true'),
        ({"z": 1.5, "a": [1, 2], "m": {"x": 1}}, "z: 1.5\na: [2 items]\nm: {1 keys}"),
        ({"a": "x" * 120}, f'a: "{"x" * 120}"'),
        ({"a": "x" * 121}, f'a: "{"x" * 120}"… (121 chars)'),
        ({"a": "ü"}, 'a: "ü"'),
        ({"a": "one\ntwo\ttab"}, r'a: "one\u000atwo\u0009tab"'),
        ({"a": "safe\u202egnp.exe"}, r'a: "safe\u202egnp.exe"'),
        ({"a": "\u200bhidden\ufeff"}, r'a: "\u200bhidden\ufeff"'),
        ({"a": "\U000e0041tag"}, r'a: "\U000e0041tag"'),
        ({'x": "no", "y': "yes"}, r'"x\": \"no\", \"y": "yes"'),
        ({"key\n": 1}, r'"key\u000a": 1'),
        ({"": 1}, '"": 1'),
        ({"n": 10**5000}, "n: (number of 16610 bits)"),
    ],
)
def test_arguments_are_shown_key_by_key(arguments: JsonObject, summary: str) -> None:
    """Strings are cut, structures become shapes, nothing can hide, reorder or fake a line."""
    assert summarize_arguments(arguments) == summary


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "PASSWORD",
        "passphrase",
        "client_secret",
        "accessToken",
        "apiKey",
        "api-key",
        "API_KEY",
        "Authorization",
        "set-cookie",
        "x_token_y",
    ],
)
@pytest.mark.parametrize("value", ["hunter2", 1234, ["hunter2"], {"a": "hunter2"}, True])
def test_a_secret_key_hides_its_value(key: str, value: JsonValue) -> None:
    """Whatever the value is."""
    assert summarize_arguments({key: value}) == f"{key}: {REDACTED}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("Bearer abcdefghijkl", f'"Bearer {REDACTED}"'),
        ("basic dXNlcjpwYXNz", f'"basic {REDACTED}"'),
        ("sk-proj-abcdefghijklmnop", f'"{REDACTED}"'),
        ("ghp_" + "a1" * 18, f'"{REDACTED}"'),
        ("github_pat_" + "a1" * 15, f'"{REDACTED}"'),
        ("xoxb-1234567890-abc", f'"{REDACTED}"'),
        ("AKIA" + "ABCD1234" * 2, f'"{REDACTED}"'),
        ("AIza" + "a" * 35, f'"{REDACTED}"'),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", f'"{REDACTED}"'),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc", f'"{REDACTED}"'),
        ("postgres://user:pass@db/x", f'"postgres://user:{REDACTED}@db/x"'),
        ("x" * 110 + " token=abcdefghijkl", f'"{"x" * 110} token={REDACTED[:3]}"… (129 chars)'),
        ("rm -rf / # password=a1b2", f'"rm -rf / # password={REDACTED}"'),
        ("x" * 5000, f'"{"x" * 120}"… (5000 chars)'),
        ("password=" + "x" * 5000 + "y", f'"{REDACTED}"… (5010 chars)'),
    ],
)
def test_what_looks_like_a_credential_is_hidden(value: str, shown: str) -> None:
    """Under any key, and nothing else is: nobody can hide a command behind a made-up password."""
    assert summarize_arguments({"note": value}) == f"note: {shown}"


def test_a_caller_says_which_keys_and_which_texts_are_secret() -> None:
    """A schema may mark a key; a process knows values that look like nothing."""
    arguments: JsonObject = {"pin": 1234, "note": "say friend", "friend": None}
    summary = summarize_arguments(
        arguments, secret_keys={"pin"}, clean=lambda text: text.replace("friend", REDACTED)
    )

    assert summary == f'pin: {REDACTED}\nnote: "say {REDACTED}"\n"{REDACTED}": null'


@pytest.mark.parametrize("value", ["the bearer of news", "sk-ip", "http://a.b/c", "eyJ", "AKIA"])
def test_ordinary_text_is_not_hidden(value: str) -> None:
    """A person cannot decide about what they cannot see."""
    assert summarize_arguments({"note": value}) == f'note: "{value}"'


@given(st.dictionaries(st.text(max_size=80), JSON, max_size=40))
def test_a_summary_is_short_safe_and_the_same_each_time(arguments: JsonObject) -> None:
    """At most 1000 characters, one line per key, no character that could deceive."""
    summary = summarize_arguments(arguments)

    assert summary == summarize_arguments(dict(arguments))
    assert len(summary) <= 1000
    assert not [c for c in summary if unicodedata.category(c)[0] == "C" and c != "\n"]
    assert summary.count("\n") < max(len(arguments), 1)


def test_a_hostile_string_cannot_push_the_others_out() -> None:
    """An escape is longer than what it stands for."""
    summary = summarize_arguments({"a": "\U000e0041" * 120, "path": "/etc"})

    assert summary.endswith('path: "/etc"')


def test_what_does_not_fit_is_counted() -> None:
    """Nobody approves a call believing they saw all of it."""
    summary = summarize_arguments({f"key{i}": "x" * 100 for i in range(50)})

    shown = summary.count("key") - 1
    assert summary.endswith(f"… {50 - shown} more keys")


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "approved"},
        {"state": "approved", "decided_by": "ann", "decided_at": 2000},
        {"state": "denied", "decided_by": "ann"},
        {"state": "expired", "decided_by": "ann", "decided_at": 2000},
        {"decided_by": "ann", "decided_at": 2000},
        {"scope": "once"},
        {"edited_args_sha256": SHA},
        {"expires_at": 1000},
        {"comment": "x" * 501},
        {"args_summary": "x" * 1001},
        {"run_id": "x"},
        {"extra": 1},
    ],
)
def test_a_record_and_its_decision_agree(changes: JsonObject) -> None:
    """Who, when and scope stand there exactly when a person decided."""
    with pytest.raises(ValidationError):
        record(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"state": "approved", "decided_by": "ann", "decided_at": 2000, "scope": "run"},
        {"state": "denied", "decided_by": "ann", "decided_at": 2000, "comment": "x" * 500},
        {"state": "expired"},
        {"state": "cancelled"},
        {"state": "superseded"},
    ],
)
def test_every_state_of_a_record_survives_the_wire(changes: JsonObject) -> None:
    """All six."""
    whole = record(**changes)

    assert ApprovalRecord.model_validate_json(whole.model_dump_json()) == whole


def test_an_approver_may_have_edited_the_arguments() -> None:
    """Both digests are kept."""
    whole = record(
        state="approved",
        decided_by="ann",
        decided_at=2000,
        scope="once",
        edited_args_sha256="cd" * 32,
    )

    assert (whole.args_sha256, whole.edited_args_sha256) == (SHA, "cd" * 32)


@pytest.mark.parametrize("said", ["a\x1b[2Jb", "a\nb", "\x7f"])
def test_a_question_can_be_asked_about_any_tool(said: str) -> None:
    """A server's name and title may hold what they like; whoever shows them escapes them."""
    asked = record(name=f"mcp.gh.{said}", title=said)

    assert ApprovalRecord.model_validate_json(asked.model_dump_json()) == asked
