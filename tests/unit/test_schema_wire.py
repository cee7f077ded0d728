"""Doorbells, runs and bridge messages are small, closed and checked.

Is: `doorbell.py`, `run.py`, `extension.py`, `policy.py` and what every wire model shares. Is not:
transport. Above: nothing. Below: `toolrail_schemas`.
"""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from toolrail_schemas import (
    Annotations,
    Budget,
    BudgetDecision,
    CallReply,
    Doorbell,
    ExecuteCall,
    ExtensionMessage,
    ExtensionTool,
    HintedAnnotations,
    JsonObject,
    Permission,
    PolicyDecision,
    Reason,
    ReasonCode,
    RegisterTools,
    RunLimits,
    RunSpec,
    Source,
    ToolSpec,
    call_key,
    canonical_json,
    doorbell_mac,
    format_run_id,
    sha256_hex,
    verify_doorbell,
)

SECRET = b"s" * 32
RUN = "run_01JDXAMP0E0000000000000000"
KEY = "0123456789abcdef"
MESSAGES: TypeAdapter[ExtensionMessage] = TypeAdapter(ExtensionMessage)
TOOL: JsonObject = {"name": "roll", "description": "Roll dice."}


def test_canonical_json_has_one_spelling() -> None:
    """Sorted keys, compact, UTF-8."""
    assert canonical_json({"b": [1, None], "a": "ü"}) == '{"a":"ü","b":[1,null]}'.encode()
    assert sha256_hex(b"") == hashlib.sha256(b"").hexdigest()


def test_what_is_hashed_or_signed_never_changes() -> None:
    """Another release, or another language, must come to the same digits."""
    spec = ToolSpec(
        name="notes.add",
        description="Add a note.",
        input_schema={"type": "object"},
        source=Source.BUILTIN,
        annotations=Annotations.for_builtin(read_only=True),
    )

    assert spec.spec_hash == "1b1e4d1abb6adc52478e0a0bbca20b56df05037bf3ccc475f70f4487bc23d3ea"
    assert call_key(RUN, 3, "c1") == "ce4d9902e0242106"
    assert (
        doorbell_mac(SECRET, RUN, KEY, 2)
        == "ce26c1a46e0be71c2f474d3bca7e00ded2fce9eaaf5eca5e51fd9e00b656aa46"
    )


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), {"a": "\ud800"}])
def test_canonical_json_refuses_what_is_not_json(value: object) -> None:
    """A digest of it would mean nothing."""
    with pytest.raises(ValueError, match=r"JSON|surrogate"):
        canonical_json(value)


def test_a_doorbell_is_signed_over_all_its_fields() -> None:
    """HMAC-SHA256; the task id is the call key and the attempt."""
    bell = Doorbell.ring(SECRET, run_id=RUN, call_key=KEY, attempt=2)
    message = f"{RUN}\x00{KEY}\x002".encode()

    assert bell.mac == hmac.new(SECRET, message, hashlib.sha256).hexdigest()
    assert bell.task_id == f"{KEY}.2"
    assert verify_doorbell(bell, SECRET)
    assert set(Doorbell.model_fields) == {"run_id", "call_key", "attempt", "mac"}


@pytest.mark.parametrize(
    "forged",
    [
        {"attempt": 3},
        {"call_key": KEY[::-1]},
        {"run_id": RUN[:-1] + "1"},
        {"mac": "0" * 64},
    ],
)
def test_a_changed_doorbell_does_not_verify(forged: JsonObject) -> None:
    """Nor does one that was signed with another secret."""
    bell = Doorbell.ring(SECRET, run_id=RUN, call_key=KEY, attempt=2)

    assert not verify_doorbell(bell.model_copy(update=forged), SECRET)
    assert not verify_doorbell(bell, b"other")


@pytest.mark.parametrize(
    "changes",
    [
        {"attempt": 0},
        {"attempt": True},
        {"attempt": "1"},
        {"call_key": "x"},
        {"call_key": f"{KEY}\n"},
        {"call_key": f"{KEY}:x"},
        {"run_id": "run_" + "I" * 26},
        {"run_id": RUN + ":call:x"},
        {"mac": ""},
        {"arguments": {}},
    ],
)
def test_a_doorbell_carries_nothing_else(changes: JsonObject) -> None:
    """No part of it can spell another key."""
    fields: JsonObject = {
        "run_id": RUN,
        "call_key": KEY,
        "attempt": 1,
        "mac": doorbell_mac(SECRET, RUN, KEY, 1),
    }

    with pytest.raises(ValidationError):
        Doorbell.model_validate({**fields, **changes})


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_run_id_is_a_ulid_that_sorts_by_time(now_ms: int, entropy: bytes) -> None:
    """And fits every model that carries one."""
    run_id = format_run_id(now_ms, entropy)

    assert Doorbell.ring(SECRET, run_id=run_id, call_key=KEY, attempt=1)
    assert format_run_id(0, b"\0" * 10) == "run_" + "0" * 26
    assert now_ms == 0 or run_id > format_run_id(now_ms - 1, b"\xff" * 10)


@pytest.mark.parametrize(("now_ms", "entropy"), [(-1, b"x" * 10), (2**48, b"x" * 10), (0, b"x")])
def test_a_run_id_needs_time_and_randomness(now_ms: int, entropy: bytes) -> None:
    """48 and 80 bits."""
    with pytest.raises(ValueError, match="ULID"):
        format_run_id(now_ms, entropy)


def test_a_run_has_safe_defaults() -> None:
    """Nobody is asked, ten denials and five unknown tools end it."""
    run = RunSpec(profile="writer")

    assert run.approval_mode == "deny_all"
    assert run.limits == RunLimits(max_denied=10, max_unknown=5)
    assert (run.tenant, run.surface, run.caller) == ("default", "core", "assistant")


@pytest.mark.parametrize(
    "changes",
    [
        {"profile": ""},
        {"profile": "a/b"},
        {"tenant": "a:b"},
        {"tenant": "x" * 65},
        {"surface": None},
        {"caller": "root"},
        {"policy_hash": "x"},
        {"approval_mode": "maybe"},
        {"limits": {"max_denied": -1}},
        {"user": "a\nb"},
        {"name": ""},
        {"plan": {"a": "x" * 65_536}},
        {"status": "open"},
    ],
)
def test_a_run_is_closed(changes: JsonObject) -> None:
    """No part of it can spell a key."""
    with pytest.raises(ValidationError):
        RunSpec.model_validate({"profile": "writer", **changes})


def test_a_policy_decision_survives_the_wire() -> None:
    """The default denial fails the run."""
    decision = PolicyDecision(
        visible=True,
        callable=False,
        approval_required=False,
        reason=Reason(code=ReasonCode.BUDGET_EXHAUSTED),
        budget=BudgetDecision(
            calls_remaining=0, max_output_tokens=64, timeout_ms=100, exhausted=True
        ),
    )

    assert decision.on_denied == "fail_fast"
    assert PolicyDecision.model_validate_json(decision.model_dump_json()) == decision
    with pytest.raises(ValidationError):
        BudgetDecision(calls_remaining=-1, max_output_tokens=64, timeout_ms=100)


def test_an_extension_tool_becomes_a_spec_that_grants_nothing() -> None:
    """Worst case, approval required, never trusted, no budget but a shorter timeout."""
    tool = ExtensionTool(
        name="roll",
        description="Roll dice.",
        annotations=HintedAnnotations(read_only=True, idempotent=True),
        timeout_ms=500,
    )

    spec = tool.to_spec(extension="dice", version="1.0")

    assert spec.name == "ext.dice.roll"
    assert (spec.source, spec.permission) == (Source.EXTENSION, Permission.APPROVAL_REQUIRED)
    assert spec.annotations.destructive
    assert not spec.annotations.trusted
    assert spec.budget == Budget(timeout_ms=500)
    assert spec.input_schema == {"type": "object", "properties": {}}
    assert spec.title == "Roll"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "a/b"},
        {"name": ""},
        {"name": "x" * 64},
        {"description": ""},
        {"input_schema": {"type": "array"}},
        {"output_schema": {"$ref": "https://example.com"}},
        {"timeout_ms": 120_001},
        {"timeout_ms": 99},
        {"visibility": "internal"},
        {"permission": "always_allow"},
        {"budget": {"timeout_ms": 1000}},
        {"annotations": {"trusted": True}},
    ],
)
def test_an_extension_cannot_ask_for_more(changes: JsonObject) -> None:
    """No visibility, permission, budget or trust of its own making."""
    with pytest.raises(ValidationError):
        ExtensionTool.model_validate({**TOOL, **changes})


def test_a_registration_is_whole_or_nothing() -> None:
    """At most 32 tools, each once."""
    many = [{**TOOL, "name": f"t{i}"} for i in range(33)]

    assert len(RegisterTools.model_validate({"tools": many[:32]}).tools) == 32
    assert RegisterTools(tools=()).tools == ()
    for bad in (many, [TOOL, TOOL], [TOOL, {"name": "x"}]):
        with pytest.raises(ValidationError):
            RegisterTools.model_validate({"tools": bad})


@pytest.mark.parametrize(
    "message",
    [
        {
            "type": "hello",
            "extension_id": "dice",
            "version": "1.0",
            "protocol_version": 1,
            "nonce": "0123456789abcdef",
        },
        {"type": "tools.register", "tools": []},
        {
            "type": "call.execute",
            "call_key": KEY,
            "tool": "roll",
            "arguments": {},
            "deadline": 1_700_000_000_000,
            "attempt": 1,
        },
        {"type": "call.reply", "call_key": KEY, "content": [{"kind": "text", "text": "6"}]},
        {"type": "call.cancel", "call_key": KEY},
    ],
)
def test_a_bridge_message_is_told_by_its_type(message: JsonObject) -> None:
    """Five of them, either way; each closed."""
    parsed = MESSAGES.validate_python(message)

    assert parsed.type == message["type"]
    assert MESSAGES.validate_json(parsed.model_dump_json()) == parsed
    with pytest.raises(ValidationError):
        MESSAGES.validate_python({**message, "extra": 1})


@pytest.mark.parametrize(
    "message",
    [
        {"type": "workspace.write"},
        {"type": "call.reply", "call_key": KEY, "content": "a bare string"},
        {"type": "call.reply", "call_key": KEY, "structured": {"a": "x" * 262_144}},
        {"call_key": KEY},
        "call.reply",
    ],
)
def test_any_other_bridge_message_is_refused(message: object) -> None:
    """An extension has no other verbs."""
    with pytest.raises(ValidationError):
        MESSAGES.validate_python(message)


def test_a_call_to_an_extension_is_bounded_like_any_call() -> None:
    """1 MiB of arguments."""
    fields: JsonObject = {"call_key": KEY, "tool": "roll", "deadline": 1, "attempt": 1}
    room = 1024 * 1024 - len('{"a":""}')

    assert ExecuteCall.model_validate({**fields, "arguments": {"a": "x" * room}})
    with pytest.raises(ValidationError):
        ExecuteCall.model_validate({**fields, "arguments": {"a": "x" * (room + 1)}})


def test_a_reply_has_the_limits_of_a_result() -> None:
    """32 blocks."""
    blocks = [{"kind": "text", "text": "x"} for _ in range(33)]

    assert CallReply.model_validate({"call_key": KEY, "content": blocks[:32]})
    with pytest.raises(ValidationError):
        CallReply.model_validate({"call_key": KEY, "content": blocks})
