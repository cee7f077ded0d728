"""The messages of the extension bridge: what they refuse, and the spec a registration becomes."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from toolrail_schemas import (
    Annotations,
    CallReply,
    CancelCall,
    Cost,
    ExecuteCall,
    ExtensionHello,
    ExtensionMessage,
    ExtensionTool,
    JsonBlock,
    Permission,
    RegisterTools,
    Source,
    TextBlock,
    Visibility,
)

KEY = "0" * 16
MESSAGE: TypeAdapter[ExtensionMessage] = TypeAdapter(ExtensionMessage)


def tool(name: str = "roll", **fields: object) -> ExtensionTool:
    """Return a tool as an extension declares it."""
    return ExtensionTool.model_validate({"name": name, "description": "Roll.", **fields})


@pytest.mark.parametrize(
    "message",
    [
        ExtensionHello(extension_id="dice", version="1.0", nonce="n" * 16),
        RegisterTools(tools=(tool(timeout_ms=100, output_schema={"type": "object"}),)),
        ExecuteCall(call_key=KEY, tool="roll", arguments={"n": 1}, deadline=5, attempt=1),
        CallReply(call_key=KEY, content=(TextBlock(text="a"), JsonBlock(value=None))),
        CancelCall(call_key=KEY, attempt=2),
    ],
    ids=lambda message: message.type,
)
def test_every_message_comes_back_from_json_as_it_was(message: ExtensionMessage) -> None:
    """By its type, which is a field of it."""
    assert MESSAGE.validate_json(message.model_dump_json()) == message


def test_an_extension_gets_no_right_from_what_it_says() -> None:
    """Hints that loosen are not believed; those that tighten are."""
    spec = tool(
        annotations={"read_only": True, "idempotent": True, "destructive": False, "cost": "high"}
    ).to_spec(extension="dice", version="1.0")

    assert spec.name == "ext.dice.roll"
    assert spec.source is Source.EXTENSION
    assert spec.permission is Permission.APPROVAL_REQUIRED
    assert spec.visibility is Visibility.MODEL
    assert spec.annotations == Annotations.worst_case().model_copy(update={"cost": Cost.HIGH})
    assert not spec.annotations.retry_safe


@pytest.mark.parametrize(
    "field", ["visibility", "permission", "budget", "trusted", "source", "spec_hash"]
)
def test_a_registration_cannot_even_spell_a_right(field: str) -> None:
    """Unknown fields are refused, so a later version's right is no right either."""
    with pytest.raises(ValidationError, match="Extra inputs"):
        tool(**{field: "internal"})


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", ".a", "-a", "ä", "a" * 64, "a\n", "../a", "a/b"]
)
def test_a_tool_name_is_one_plain_word(name: str) -> None:
    """It becomes the end of a canonical name and can be nobody else's."""
    with pytest.raises(ValidationError):
        tool(name)


@pytest.mark.parametrize("name", ["mcp.server.tool", "workspace.read_file", "ext.other.tool"])
def test_a_tool_cannot_shadow_anothers_name(name: str) -> None:
    """Whatever it calls itself, it stays under its own extension."""
    assert tool(name).to_spec(extension="dice", version="1").name == f"ext.dice.{name}"


@pytest.mark.parametrize("timeout_ms", [99, 120_001, 1000.5, "1000"])
def test_a_timeout_stays_within_two_minutes(timeout_ms: object) -> None:
    """And is a whole number."""
    with pytest.raises(ValidationError):
        tool(timeout_ms=timeout_ms)


def test_tools_are_registered_all_or_none() -> None:
    """Thirty-two, each name once."""
    many = tuple(tool(f"t{number}") for number in range(33))

    assert len(RegisterTools(tools=many[:32]).tools) == 32
    with pytest.raises(ValidationError, match="at most 32"):
        RegisterTools(tools=many)
    with pytest.raises(ValidationError, match="twice"):
        RegisterTools(tools=(tool(), tool()))


def test_one_bad_schema_refuses_the_whole_registration() -> None:
    """Too deep, of another root, or referring elsewhere."""
    good = {"name": "good", "description": "Good."}
    for schema in ({"type": "string"}, {"type": "object", "$ref": "http://example.org/a"}):
        wire = {"tools": [good, {"name": "bad", "description": "Bad.", "input_schema": schema}]}
        with pytest.raises(ValidationError):
            RegisterTools.model_validate_json(json.dumps(wire))


@pytest.mark.parametrize(
    "reply",
    [
        {"content": "a bare string"},
        {"content": ["a bare string"]},
        {"content": [{"kind": "image", "data": "iVBORw0KGgo="}]},
        {"content": [{"kind": "text", "text": "a" * 65_537}]},
        {"content": [{"kind": "text", "text": "a"}] * 33},
        {"structured": "a" * 262_144},
        {"is_error": "true"},
        {"attempt": 0},
        {"call_key": "short"},
        {"result": {}},
    ],
    ids=lambda reply: next(iter(reply)),
)
def test_a_reply_is_blocks_within_their_limits(reply: dict[str, object]) -> None:
    """Nothing else is taken for an answer."""
    with pytest.raises(ValidationError):
        CallReply.model_validate({"call_key": KEY, **reply})


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a:b", "-a", "a" * 65])
def test_an_extension_has_a_plain_name(name: str) -> None:
    """It is part of Redis keys and of canonical names."""
    with pytest.raises(ValidationError):
        ExtensionHello(extension_id=name, version="1", nonce="n" * 16)
