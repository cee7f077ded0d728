"""Hold one answer of a model: its calls in our words, and itself as the provider sent it.

Is: what `decode_calls` gives and `encode_results` takes, the same for every provider. Is not: any
provider's format. Above: providers, `conversation.py`. Below: `toolrail.request`.
"""

import json
from dataclasses import dataclass
from enum import StrEnum

import orjson
from pydantic import JsonValue

from toolrail.request import CallRequest
from toolrail_schemas import JsonObject, ToolResult


class Stop(StrEnum):
    """Why the model stopped."""

    CALLS = "calls"
    END = "end"
    LENGTH = "length"
    """Out of tokens; the last call may be cut."""
    PAUSED = "paused"
    """The provider wants the turn back unchanged, to go on with it."""
    REFUSED = "refused"
    ERROR = "error"
    """The answer is broken: see `Turn.problem`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call of a turn."""

    request: CallRequest
    """For `Run.call_many`; its id is ours and stable for run, turn and position."""
    at: int
    """Where it stands in the provider's content."""
    kind: str = "function"
    """The provider's own word where it has several kinds of calls."""
    wire_id: str
    """By what its result is known to the same provider; empty where that goes by order."""
    wire_name: str
    """As it can be sent back."""
    wire_arguments: JsonObject
    """As they can be sent back; what was no object stands under `INVALID_JSON`."""
    namespace: str = ""
    repairs: tuple[str, ...] = ()
    """What had to be mended, each in a word or two."""
    problem: ToolResult | None = None
    """The answer, when the call must not be dispatched."""


@dataclass(frozen=True, slots=True)
class Native:
    """The assistant's turn as the provider sent it, kept whole: signatures and all."""

    provider: str
    family: str
    """The model without its date; signatures hold within it."""
    realm: str
    """Organisation or transport; signatures hold within it."""
    content: bytes
    """JSON of what the next request repeats."""

    def value(self) -> JsonValue:
        """Return the content, a copy of one's own."""
        try:
            parsed: JsonValue = orjson.loads(self.content)
        except orjson.JSONDecodeError:
            parsed = json.loads(self.content)
        return parsed

    def fits(self, provider: str, family: str, realm: str) -> bool:
        """Whether it may be repeated there; an unnamed family or realm is taken for the same."""
        return (
            self.provider == provider
            and (not family or not self.family or self.family == family)
            and self.realm == realm
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of a model."""

    index: int
    """Which answer of the run, from 0."""
    calls: tuple[Call, ...]
    text: str
    """What the model said beside its calls."""
    stop: Stop
    reason: str
    """The provider's own word for why it stopped."""
    native: Native
    problem: str = ""
    """What to tell the model when the answer is broken and no call's result can tell it."""

    @property
    def requests(self) -> tuple[CallRequest, ...]:
        """The calls to dispatch, in order: `await run.call_many(turn.requests)`."""
        return tuple(call.request for call in self.calls if call.problem is None)

    @property
    def goes_on(self) -> bool:
        """Whether another request has to follow: with results, a paused turn, or a complaint."""
        return bool(self.calls or self.problem) or self.stop is Stop.PAUSED


def frozen_json(value: JsonValue) -> bytes:
    """Return a value as JSON that every client can send: no NaN, no half of a surrogate pair."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(_sendable(value), ensure_ascii=False).encode()


def _sendable(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_sendable(inner) for inner in value]
        case dict():
            return {str(_sendable(key)): _sendable(inner) for key, inner in value.items()}
        case float():
            return value if value - value == 0 else None
        case _:
            return value
