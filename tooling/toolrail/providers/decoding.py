"""Make a turn of what a provider's file found in an answer.

Is: ids, names, arguments and refusals, the same for all providers. Is not: any provider's format.
Above: providers. Below: `turn.py`, `ids.py`, `arguments.py`, `wirenames.py`.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from toolrail.names import alias_of, shown_name
from toolrail.providers.arguments import Read, read_arguments
from toolrail.providers.ids import neutral_id, wire_id
from toolrail.providers.toolbox import ToolBox
from toolrail.providers.turn import Call, Native, Stop, Turn, frozen_json
from toolrail.request import CallRequest
from toolrail.validation import ArgumentValidators
from toolrail_schemas import Caller, JsonObject, ToolResult

_VALIDATORS = ArgumentValidators()
_UNNAMED = "(no name)"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeContext:
    """What decoding an answer needs to know of its conversation."""

    run_id: str
    turn: int = 0
    """Which answer of the run, from 0; ids depend on it."""
    tools: ToolBox | None = None
    """As they were declared in the request."""
    taken: Collection[str] = ()
    """Call ids of earlier turns as the provider knows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCall:
    """A call as it stands in an answer, unchecked."""

    at: int
    id: JsonValue = None
    name: JsonValue = None
    arguments: JsonValue = None
    is_text: bool = False
    """Whether arguments travel as JSON text here; else as an object."""
    namespace: str = ""
    kind: str = "function"
    caller: Caller | None = None
    is_complete: bool = True
    """The provider said that the call, or the turn, is finished."""
    may_be_cut: bool = False
    """The model ran out of tokens here: arguments that do not parse were cut, not mistaken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTurn:
    """An answer as a provider's file read it."""

    calls: Sequence[FoundCall]
    text: str = ""
    stop: Stop
    reason: str = ""
    problem: str = ""
    content: JsonValue
    """What the next request repeats, before repairs."""
    family: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """What one provider takes of calls when they are sent back."""

    provider: str
    realm: str
    id: re.Pattern[str]
    name: re.Pattern[str]
    needs_id: bool = True
    """Whether a result must name the call's id; else order and name do when there is none."""
    wire_name: Callable[[str], str] = alias_of
    mend: Callable[[JsonValue, Sequence["MendedCall"]], JsonValue]
    """Returns the content with broken calls as they can be sent back; the rest untouched."""


@dataclass(frozen=True, slots=True)
class MendedCall:
    """A call, and what about it cannot be sent back as it came."""

    call: Call
    id: bool
    name: bool
    arguments: bool

    @property
    def is_broken(self) -> bool:
        """Whether anything has to be replaced."""
        return self.id or self.name or self.arguments


class Reader(Protocol):
    """Reads an answer that a stream put together and that may have ended early."""

    def __call__(
        self,
        response: Mapping[str, JsonValue],
        context: DecodeContext,
        *,
        unfinished: frozenset[int],
        is_cut: bool,
    ) -> Turn:
        """Return the turn.

        Args:
            response: As without a stream, but arguments may still be text.
            context: Of the conversation.
            unfinished: Calls that were not ended, by position in the content.
            is_cut: Whether the answer as a whole was not ended.
        """
        ...


def make_turn(found: FoundTurn, context: DecodeContext, wire: CallFormat) -> Turn:
    """Return the turn: every call has an id, a name, and arguments or the reason against them."""
    taken = set(context.taken)
    mended: list[MendedCall] = []
    for position, call in enumerate(found.calls):
        one = _call(call, position, context, wire, taken)
        if one.call.wire_id:
            taken.add(one.call.wire_id)
        mended.append(one)
    content = found.content
    if any(one.is_broken for one in mended):
        content = wire.mend(content, mended)
    return Turn(
        index=context.turn,
        calls=tuple(one.call for one in mended),
        text=found.text,
        stop=Stop.CALLS if mended and found.stop is Stop.END else found.stop,
        reason=found.reason,
        native=Native(wire.provider, found.family, wire.realm, frozen_json(content)),
        problem=found.problem,
    )


def _call(
    found: FoundCall, position: int, context: DecodeContext, wire: CallFormat, taken: set[str]
) -> MendedCall:
    minted = neutral_id(context.run_id, context.turn, position)
    repairs: list[str] = []
    known = wire_id(found.id, minted, pattern=wire.id, taken=taken)
    if not wire.needs_id and found.id in (None, ""):
        known = ""
    has_new_id = known == minted and found.id != minted
    if has_new_id:
        repairs.append("call id")
    name, canonical = _name(found, context, repairs)
    read = _read(found, canonical, context)
    repairs += read.repairs
    problem = _problem(found, read, minted, name)
    sent_name = name if wire.name.fullmatch(name) else wire.wire_name(canonical or name)
    request = CallRequest(
        id=minted,
        name=canonical or shown_name(name),
        arguments=read.arguments,
        turn=context.turn,
        caller=found.caller,
        provider_metadata=_metadata(found, wire, name, repairs),
    )
    call = Call(
        request=request,
        at=found.at,
        kind=found.kind,
        wire_id=known,
        wire_name=sent_name,
        wire_arguments=read.wire,
        namespace=found.namespace,
        repairs=tuple(repairs),
        problem=problem,
    )
    is_foreign = not read.is_object or _is_foreign(found.arguments, is_text=found.is_text)
    return MendedCall(call, has_new_id, sent_name != found.name, is_foreign)


def _is_foreign(arguments: JsonValue, *, is_text: bool) -> bool:
    """Whether arguments that could be read cannot be sent back as they are spelled."""
    if not is_text:
        return not isinstance(arguments, dict)
    return not isinstance(arguments, str) or not arguments.lstrip().startswith("{")


def _name(found: FoundCall, context: DecodeContext, repairs: list[str]) -> tuple[str, str | None]:
    name = found.name if isinstance(found.name, str) and found.name.strip() else _UNNAMED
    if context.tools is None:
        return name, None
    canonical, how = context.tools.names.find(name, found.namespace)
    if canonical is not None and how != "exact":
        repairs.append(f"{how} name")
    return name, canonical


def _read(found: FoundCall, canonical: str | None, context: DecodeContext) -> Read:
    codec = None
    if canonical is not None and context.tools is not None:
        codec = context.tools.codecs.get(canonical)
    return read_arguments(found.arguments, codec, _VALIDATORS)


def _problem(found: FoundCall, read: Read, call_id: str, name: str) -> ToolResult | None:
    is_empty = isinstance(found.arguments, str) and not found.arguments.strip()
    is_cut = found.may_be_cut and (is_empty or not read.is_object)
    if found.is_complete and not is_cut:
        return None
    return ToolResult.failure(call_id, shown_name(name), code="model.incomplete_tool_call")


def _metadata(found: FoundCall, wire: CallFormat, name: str, repairs: list[str]) -> JsonObject:
    metadata: JsonObject = {"provider": wire.provider, "wire_name": shown_name(name)}
    if isinstance(found.id, str) and found.id:
        metadata["id"] = shown_name(found.id)
    if found.namespace:
        metadata["namespace"] = shown_name(found.namespace)
    if repairs:
        metadata["repairs"] = list[JsonValue](repairs)
    return metadata
