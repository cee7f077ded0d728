"""Carry one fact of a run, small and free of content.

Is: the envelope of semantics 2.1 and the payload rules of 2.8. Is not: the store that gives out
`seq`, or the order of events (`lifecycle.py`).
Above: ledger, readers, archiver. Below: `events.py`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationError,
    model_validator,
)

from toolrail_schemas._base import (
    KIB,
    CallId,
    Count,
    JsonObject,
    Label,
    Positive,
    RunId,
    WireModel,
    json_size,
)
from toolrail_schemas.events import CALL_PAYLOADS, CallPayload, EventType

PAYLOAD_MAX_BYTES = 8 * KIB
STRING_MAX_CHARS = 1000
LIST_MAX_ITEMS = 64
SCHEMA_VERSION: Literal[1] = 1

FORBIDDEN_KEYS = frozenset(
    {
        "args",
        "arguments",
        "base64",
        "content",
        "data",
        "diff",
        "env",
        "environ",
        "environment",
        "headers",
        "messages",
        "patch",
        "prompt",
        "providermetadata",
        "stack",
        "stacktrace",
        "structured",
        "text",
        "token",
        "traceback",
    }
)
"""Keys that carry content, in lower case without `_` and `-`; a ref or a digest stands instead."""

_SECRET_KEY = re.compile(r"secret|passw|apikey|authorization|cookie|credential|token$")


def is_forbidden_key(key: str) -> bool:
    """Return whether a payload key stands for content or a secret, however it is spelled."""
    bare = key.replace("_", "").replace("-", "").lower()
    return bare in FORBIDDEN_KEYS or _SECRET_KEY.search(bare) is not None


class Level(StrEnum):
    """How much attention an event asks for."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Actor(WireModel):
    """Who wrote the event."""

    kind: Literal["runtime", "worker", "user", "system"]
    id: Label


class Causality(WireModel):
    """What the event belongs to."""

    call_id: CallId | None = None
    parent_event_id: Label | None = None
    turn: Count | None = None


Timestamp = Annotated[
    str,
    StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$", max_length=24),
]
"""RFC 3339, UTC, milliseconds."""


class PayloadError(ValueError):
    """A payload breaks the rules of the journal; it is a defect of whoever wrote the event."""


class JournalEvent(WireModel):
    """One entry of a run's journal; never edited."""

    schema_version: Literal[1] = SCHEMA_VERSION
    seq: Positive
    """1 for the first event of a run, then without gaps."""
    event_id: Label
    """Given by the writer; appending it twice is the same as once."""
    run_id: RunId
    ts: Timestamp
    level: Level = Level.INFO
    type: EventType
    payload: JsonObject = Field(default_factory=dict)
    causality: Causality = Causality()
    actor: Actor

    @property
    def at(self) -> datetime:
        """The instant of the event, aware, UTC."""
        return datetime.fromisoformat(self.ts)

    @model_validator(mode="after")
    def _lawful_payload(self) -> Self:
        check_payload(self.type, self.payload)
        return self


class UnknownEvent(BaseModel):
    """An event of a kind this version does not know; readers keep its place and skip it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    seq: Positive
    event_id: str
    run_id: str
    ts: str
    type: str
    payload: JsonObject = Field(default_factory=dict)


_KNOWN_TYPES = frozenset(EventType)


def parse_event(data: Mapping[str, object]) -> JournalEvent | UnknownEvent:
    """Return an event that was read; one of a newer version comes back as `UnknownEvent`.

    Raises:
        ValueError: Not an event at all.
    """
    newer = data.get("schema_version", SCHEMA_VERSION) != SCHEMA_VERSION
    if newer or data.get("type") not in _KNOWN_TYPES:
        return UnknownEvent.model_validate(data)
    return JournalEvent.model_validate(data)


def check_payload(event_type: EventType, payload: Mapping[str, JsonValue]) -> None:
    """Refuse a payload that may not enter the journal.

    A tool event has exactly the fields of its model. Every other event is open, but has no key
    that stands for content or secrets, no string over 1000 characters, no list over 64 items.

    Raises:
        PayloadError: Names the first rule that is broken and where.
    """
    try:
        size = json_size(payload)
    except ValueError as error:
        raise PayloadError(f"payload of {event_type}: {error}") from None
    if size > PAYLOAD_MAX_BYTES:
        raise PayloadError(f"payload of {event_type} has {size} bytes, limit {PAYLOAD_MAX_BYTES}")
    model = CALL_PAYLOADS.get(event_type)
    if model is not None:
        _check_closed(model, payload, event_type)
        return
    _check_open(payload, event_type)


def _check_closed(
    model: type[CallPayload], payload: Mapping[str, JsonValue], event_type: EventType
) -> None:
    try:
        model.model_validate(payload)
    except ValidationError as error:
        # The values stay out of the message: they may be what must not be written down.
        broken = [
            f"{'.'.join(map(str, item['loc'])) or 'payload'}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise PayloadError(f"payload of {event_type}: {'; '.join(broken)[:500]}") from None


def _check_open(payload: Mapping[str, JsonValue], where: str) -> None:
    stack: list[tuple[str, JsonValue | Mapping[str, JsonValue]]] = [(where, payload)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, str):
            if len(node) > STRING_MAX_CHARS:
                raise PayloadError(f"{path} has {len(node)} characters, limit {STRING_MAX_CHARS}")
        elif isinstance(node, list):
            if len(node) > LIST_MAX_ITEMS:
                raise PayloadError(f"{path} has {len(node)} items, limit {LIST_MAX_ITEMS}")
            stack.extend((f"{path}[]", item) for item in node)
        elif isinstance(node, Mapping):
            for key, value in node.items():
                if is_forbidden_key(key):
                    raise PayloadError(f"{path}.{key} may not enter the journal; store it by ref")
                stack.append((f"{path}.{key}", value))


def format_timestamp(now_ms: int) -> str:
    """Return an instant in milliseconds as the journal spells it."""
    seconds, ms = divmod(now_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ms:03d}Z"
