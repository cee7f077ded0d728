"""Carry one tool call of a model, and derive the key it is known by everywhere else.

Is: `ToolCall`, `Caller`, `call_key`. Is not: the call's state (`lifecycle.py`).
Above: dispatcher, client, gateway. Below: `_base.py`.
"""

import hashlib
from enum import StrEnum

from pydantic import Field, field_validator

from toolrail_schemas._base import (
    KIB,
    MIB,
    CalledName,
    CallId,
    Count,
    JsonObject,
    WireModel,
    check_json,
    utf8_size,
)

ARGUMENTS_MAX_BYTES = MIB
PROVIDER_METADATA_MAX_BYTES = 64 * KIB
CALL_ID_MAX_BYTES = 256


class Caller(StrEnum):
    """Who is invoking; set by the runtime, never read from arguments."""

    ASSISTANT = "assistant"
    CODE_EXECUTION = "code_execution"
    TOOL_SEARCH = "tool_search"
    USER = "user"
    SUBAGENT = "subagent"
    EXTENSION = "extension"
    RUNTIME = "runtime"


class ToolCall(WireModel):
    """One call as the model made it, after the wire name was mapped back."""

    id: CallId
    """The provider's id, opaque, 1 to 256 bytes, no NUL. Never part of a key or path."""
    name: CalledName
    """Canonical name; a name nobody knows is answered with `tool.not_found`."""
    arguments: JsonObject = Field(default_factory=dict)
    """A JSON object of at most 1 MiB; null counts as no arguments."""
    provider_metadata: JsonObject = Field(default_factory=dict)
    """Opaque, at most 64 KiB, given back unchanged; never seen by a tool."""
    caller: Caller = Caller.ASSISTANT
    turn: Count = 0

    @field_validator("id")
    @classmethod
    def _opaque_but_storable(cls, value: str) -> str:
        if "\x00" in value:
            raise ValueError("a call id has no NUL")
        if utf8_size(value) > CALL_ID_MAX_BYTES:
            raise ValueError(f"a call id has at most {CALL_ID_MAX_BYTES} bytes")
        return value

    @field_validator("arguments", "provider_metadata", mode="before")
    @classmethod
    def _nothing_is_empty(cls, value: object) -> object:
        return {} if value is None or value == "" else value

    @field_validator("arguments")
    @classmethod
    def _bounded_arguments(cls, value: JsonObject) -> JsonObject:
        check_json(value, limit_bytes=ARGUMENTS_MAX_BYTES, what="arguments")
        return value

    @field_validator("provider_metadata")
    @classmethod
    def _bounded_metadata(cls, value: JsonObject) -> JsonObject:
        if value:
            check_json(value, limit_bytes=PROVIDER_METADATA_MAX_BYTES, what="provider_metadata")
        return value


def call_key(run_id: str, turn: int, call_id: str) -> str:
    """Return the 16 hex digits that name a call in keys, paths, queues and events."""
    text = f"{run_id}\x00{turn}\x00{call_id}"
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]
