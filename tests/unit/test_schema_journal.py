"""The journal takes facts, never content.

Is: the envelope of semantics 2.1, the closed payloads of 2.3, the limits of 2.8. Is not: order or
storage. Above: nothing. Below: `toolrail_schemas.journal`, `toolrail_schemas.events`.
"""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from toolrail_schemas import (
    CALL_PAYLOADS,
    EventType,
    JournalEvent,
    JsonObject,
    PayloadError,
    UnknownEvent,
    canonical_json,
    check_payload,
    format_timestamp,
    parse_event,
)

RUN = "run_01JDXAMP0E0000000000000000"
KEY = "0123456789abcdef"
SHA = "ab" * 32
CALL: JsonObject = {"call_id": "c1", "call_key": KEY, "name": "notes.add", "turn": 0}
PAYLOADS: dict[EventType, JsonObject] = {
    EventType.TOOL_CALL_REQUESTED: {
        "caller": "assistant",
        "source": "builtin",
        "spec_hash": SHA,
        "args_ref": f"args:{KEY}",
        "args_bytes": 2,
        "args_sha256": SHA,
    },
    EventType.TOOL_CALL_AWAITING_APPROVAL: {
        "approval_id": "a1",
        "args_summary": "a: 1",
        "args_ref": f"args:{KEY}",
        "side_effect": "external",
        "destructive": True,
        "source": "mcp",
        "rollback": "none",
        "policy_reason": "spec",
        "expires_at": 1_700_000_000_000,
    },
    EventType.TOOL_CALL_APPROVED: {
        "approval_id": "a1",
        "decided_by": "ann",
        "decided_at": 1_700_000_000_000,
        "scope": "once",
    },
    EventType.TOOL_CALL_DENIED: {
        "denied_by": "policy",
        "layer": "user",
        "rule": "deny notes.*",
        "policy_reason": "deny",
        "on_denied": "fail_fast",
    },
    EventType.TOOL_CALL_STARTED: {
        "attempt": 1,
        "worker": "w1",
        "queue": "builtin",
        "timeout_ms": 15_000,
        "queue_ms": 3,
        "policy_hash": SHA,
    },
    EventType.TOOL_RESULT_STORED: {
        "result_ref": f"result:{KEY}",
        "sha256": SHA,
        "bytes": 20,
        "truncated": False,
    },
    EventType.TOOL_CALL_COMPLETED: {
        "result_ref": f"result:{KEY}",
        "is_error": False,
        "duration_ms": 4,
        "output_tokens": 5,
        "resource_refs": [f"result:{KEY}"],
    },
    EventType.TOOL_CALL_FAILED: {
        "error_class": "recoverable",
        "error_code": "tool.timeout",
        "message": "Too slow.",
        "duration_ms": 4,
    },
}
EVENT: dict[str, object] = {
    "schema_version": 1,
    "seq": 1,
    "event_id": "e1",
    "run_id": RUN,
    "ts": "2026-11-30T12:00:00.123Z",
    "level": "info",
    "type": "run_created",
    "payload": {},
    "causality": {},
    "actor": {"kind": "runtime", "id": "dispatcher"},
}
FORBIDDEN = [
    "arguments",
    "args",
    "content",
    "text",
    "patch",
    "diff",
    "prompt",
    "provider_metadata",
    "providerMetadata",
    "env",
    "secret",
    "client_secret",
    "approval_token",
    "accessToken",
    "api-key",
    "API_KEY",
    "Authorization",
    "Set-Cookie",
    "password",
    "stack_trace",
    "traceback",
    "base64",
]


FITTING: list[JsonObject] = [
    {"a": "x" * 1000, "b": list(range(64)), "c": {"d": [None, True, 1.5]}},
    {"components": [{"kind": "plan", "tokens": 3, "output_tokens": 4, "refs": []}]},
    {"a": ["x" * 1000 for _ in range(8)]},
    {},
]


def event(**changes: object) -> JournalEvent:
    """Return a small event, with changes."""
    return JournalEvent.model_validate({**EVENT, **changes})


def test_there_is_one_closed_payload_per_tool_event() -> None:
    """Eight of them, and this file has an example of each."""
    assert set(PAYLOADS) == set(CALL_PAYLOADS)
    assert len(CALL_PAYLOADS) == 8


@pytest.mark.parametrize("kind", PAYLOADS)
def test_the_payload_of_a_tool_event_has_its_fields(kind: EventType) -> None:
    """The table of semantics 2.3, alone and inside the envelope."""
    payload = {**CALL, **PAYLOADS[kind]}

    check_payload(kind, payload)
    assert event(type=kind.value, payload=payload).payload == payload


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("key", [*FORBIDDEN, "anything_else"])
def test_nothing_else_enters_a_tool_event(kind: EventType, key: str) -> None:
    """Closed by construction, whatever the key; the message does not repeat the value."""
    with pytest.raises(PayloadError) as caught:
        check_payload(kind, {**CALL, **PAYLOADS[kind], key: "hunter2"})

    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_tool_event_names_its_call(kind: EventType) -> None:
    """call_id, call_key, name and turn."""
    for key in CALL:
        payload = {**CALL, **PAYLOADS[kind]}
        del payload[key]

        with pytest.raises(PayloadError, match=key):
            check_payload(kind, payload)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (EventType.TOOL_CALL_FAILED, {"message": "x" * 1001}),
        (EventType.TOOL_CALL_FAILED, {"error_code": "timeout"}),
        (EventType.TOOL_CALL_AWAITING_APPROVAL, {"args_summary": "x" * 1001}),
        (EventType.TOOL_CALL_COMPLETED, {"resource_refs": ["worldinfo:a"] * 17}),
        (EventType.TOOL_CALL_COMPLETED, {"is_error": True}),
        (EventType.TOOL_CALL_STARTED, {"attempt": 0}),
        (EventType.TOOL_CALL_STARTED, {"queue": "celery"}),
        (EventType.TOOL_CALL_DENIED, {"denied_by": "nobody"}),
        (EventType.TOOL_CALL_REQUESTED, {"args_ref": "file:args.json"}),
        (EventType.TOOL_CALL_REQUESTED, {"caller": "root"}),
        (EventType.TOOL_CALL_APPROVED, {"scope": "forever"}),
        (EventType.TOOL_RESULT_STORED, {"truncated": "no"}),
        (EventType.TOOL_RESULT_STORED, {"sha256": "ab"}),
        (EventType.TOOL_CALL_STARTED, {"call_id": "\ud800"}),
    ],
)
def test_a_tool_event_is_checked_field_by_field(kind: EventType, changes: JsonObject) -> None:
    """One past each edge."""
    with pytest.raises(PayloadError):
        check_payload(kind, {**CALL, **PAYLOADS[kind], **changes})


@pytest.mark.parametrize("payload", FITTING)
def test_an_open_payload_within_the_limits_is_taken(payload: JsonObject) -> None:
    """1000 characters, 64 items, 8 KiB."""
    check_payload(EventType.CONTEXT_ASSEMBLED, payload)


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"a": "x" * 1001}, r"\.a"),
        ({"a": [{"b": "x" * 1001}]}, r"\.a\[\]\.b"),
        ({"a": list(range(65))}, "items"),
        ({"a": ["x" * 1000 for _ in range(9)]}, "bytes"),
        ({"a": "\ud800"}, "surrogate"),
        ({"\ud800": 1}, "surrogate"),
        *(({"deep": [{key: 1}]}, "ref") for key in FORBIDDEN),
    ],
)
def test_an_open_payload_beyond_the_limits_is_refused(payload: JsonObject, where: str) -> None:
    """Nothing that is content, nothing that is secret, however the key is spelled."""
    with pytest.raises(ValueError, match=where):
        check_payload(EventType.MCP_SERVER_ERROR, payload)


def test_a_payload_may_have_8_kib_and_no_more() -> None:
    """Counted as compact JSON."""
    base: JsonObject = {"a": ["x" * 1000 for _ in range(8)], "b": ""}
    room = 8192 - len(canonical_json(base))

    check_payload(EventType.RUN_CREATED, {**base, "b": "x" * room})
    with pytest.raises(PayloadError, match="8193 bytes"):
        check_payload(EventType.RUN_CREATED, {**base, "b": "x" * (room + 1)})


@pytest.mark.parametrize(
    "changes",
    [
        {"seq": 0},
        {"seq": "1"},
        {"schema_version": 2},
        {"event_id": ""},
        {"event_id": "a\nb"},
        {"run_id": "run_x"},
        {"run_id": f"{RUN}\n"},
        {"ts": "2026-11-30T12:00:00Z"},
        {"ts": "2026-11-30T12:00:00.123+00:00"},
        {"ts": "2026-11-30 12:00:00.123Z"},
        {"level": "fatal"},
        {"type": "run_exploded"},
        {"actor": {"kind": "model", "id": "x"}},
        {"actor": None},
        {"causality": {"call": "x"}},
        {"payload": None},
        {"payload": {"text": "x"}},
        {"extra": 1},
    ],
)
def test_an_envelope_is_closed(changes: dict[str, object]) -> None:
    """Every field of semantics 2.1, nothing else."""
    with pytest.raises(ValidationError):
        event(**changes)


def test_an_event_survives_the_wire() -> None:
    """And knows its instant."""
    whole = event(causality={"call_id": "c1", "parent_event_id": "e0", "turn": 2})

    assert JournalEvent.model_validate_json(whole.model_dump_json()) == whole
    assert whole.at == datetime(2026, 11, 30, 12, 0, 0, 123_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1_796_040_000_007, "2026-11-30T12:00:00.007Z")],
)
def test_an_instant_is_spelled_one_way(now_ms: int, text: str) -> None:
    """RFC 3339, UTC, milliseconds."""
    assert format_timestamp(now_ms) == text
    assert event(ts=text).at.timestamp() * 1000 == now_ms


def test_a_reader_keeps_the_place_of_an_event_it_does_not_know() -> None:
    """A newer writer adds kinds, fields and versions; the sequence has no hole."""
    newer = parse_event({**EVENT, "type": "run_exploded", "shrapnel": 3, "seq": 7})
    version = parse_event({**EVENT, "schema_version": 2})

    assert isinstance(newer, UnknownEvent)
    assert (newer.seq, newer.type) == (7, "run_exploded")
    assert isinstance(version, UnknownEvent)
    assert isinstance(parse_event(EVENT), JournalEvent)


def test_what_is_no_event_is_refused() -> None:
    """Neither known nor unknown."""
    with pytest.raises(ValidationError):
        parse_event({"type": "run_exploded"})
