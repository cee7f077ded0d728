"""Speak Gemini's Interactions API.

Is: its tools, its steps, its results, as JSON. Is not: a client, or generateContent (`gemini.py`).
Above: `conversation.py`, agent services. Below: `decoding.py`, `toolbox.py`, `rendering.py`,
`gemini_interactions_stream.py`. Source: providers.md 1.4 and 1.6, and the types of google-genai
3.6.1, 2026-12-01; no live call was made.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.names import alias_of
from toolrail.providers.answering import answered, own_arguments, revealed, spelled
from toolrail.providers.decoding import (
    CallFormat,
    DecodeContext,
    FoundCall,
    FoundTurn,
    MendedCall,
    make_turn,
)
from toolrail.providers.gemini_interactions_stream import InteractionsStream
from toolrail.providers.port import Capabilities, Stream
from toolrail.providers.rendering import Media, Part, Room, TextPart, parts_of, text_of
from toolrail.providers.schema import GEMINI
from toolrail.providers.toolbox import (
    SEARCH,
    Declaration,
    ToolBox,
    ToolFormat,
    ToolOptions,
    encode_tools,
)
from toolrail.providers.turn import Call, Stop, Turn
from toolrail.providers.wire import family_of, objects, text
from toolrail_schemas import JsonObject, ToolResult, ToolSpec

NAME = "gemini_interactions"
_ID = re.compile(r"[\x21-\x7e]{1,64}\Z")
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")
_FUNCTION, _SEARCH = "function_call", "tool_search_call"
_STOPS = {"incomplete": Stop.LENGTH, "failed": Stop.ERROR, "cancelled": Stop.ERROR}
ROOM = Room(
    image_types=frozenset({"image/png", "image/jpeg", "image/webp"}),
    image_bytes=10 * 1024 * 1024,
    text_chars=2_000_000,
)
_CAPABILITIES = Capabilities(
    native_deferral=True,
    native_examples=False,
    strict_schema=False,
    parallel_calls=True,
    name_regex=_TOOL_NAME.pattern,
    max_tools=512,
    max_calls=None,
    media_in_results=frozenset(ROOM.image_types),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiInteractions:
    """The Interactions API, with `store: false`.

    Attributes:
        model: What the next request goes to; thoughts of another family are not sent there.
        realm: `vertex` or API key; signatures do not hold across them.
    """

    model: str = ""
    realm: str = ""

    @property
    def name(self) -> str:
        """See `Provider`."""
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        """See `Provider`."""
        return _CAPABILITIES

    def encode_tools(self, specs: Sequence[ToolSpec], options: ToolOptions) -> ToolBox:
        """See `Provider`."""
        return encode_tools(specs, options, _TOOLS)

    def decode_calls(self, response: Mapping[str, JsonValue], context: DecodeContext) -> Turn:
        """See `Provider`."""
        return self._read(response, context)

    def stream(self) -> Stream:
        """See `Provider`."""
        return InteractionsStream(self._read)

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """See `Provider`."""
        if turn.native.fits(NAME, family_of(self.model), self.realm):
            return objects(turn.native.value())
        steps = [_said(turn.text)] if turn.text else []
        return steps + [_rebuilt(turn, call, tools) for call in turn.calls]

    def encode_results(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """See `Provider`."""
        own = turn.native.provider == NAME
        steps = [
            _result(call, result, call.wire_id if own else call.request.id, media, tools)
            for call, result in answered(turn, results)
        ]
        if turn.problem:
            steps.append({**_said(turn.problem), "type": "user_input"})
        return steps

    def encode_exchange(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """See `Provider`."""
        return [
            *self.encode_turn(turn, tools),
            *self.encode_results(turn, results, media=media, tools=tools),
        ]

    def _read(
        self,
        response: Mapping[str, JsonValue],
        context: DecodeContext,
        *,
        unfinished: frozenset[int] = frozenset(),
        is_cut: bool = False,
    ) -> Turn:
        steps = objects(response.get("steps"))
        status = text(response.get("status"))
        stop = _STOPS.get(status, Stop.END)
        searched = [text(s.get("call_id")) for s in steps if s.get("type") == "tool_search_result"]
        calls = [
            _found(
                step,
                at,
                is_complete=at not in unfinished
                and not (stop is Stop.LENGTH and at == len(steps) - 1),
            )
            for at, step in enumerate(steps)
            if step.get("type") == _FUNCTION
            or (step.get("type") == _SEARCH and text(step.get("id")) not in searched)
        ]
        broken = not calls and (is_cut or stop is Stop.ERROR)
        found = FoundTurn(
            calls=calls,
            text="\n".join(
                text(part.get("text"))
                for step in steps
                if step.get("type") == "model_output"
                for part in objects(step.get("content"))
            ),
            stop=Stop.ERROR if broken else stop,
            reason=status,
            problem=f"The last answer broke off ({status or 'no end'}). Answer again."
            if broken
            else "",
            content=list[JsonValue](steps),
            family=family_of(text(response.get("model")) or self.model),
        )
        wire = CallFormat(provider=NAME, realm=self.realm, id=_ID, name=_TOOL_NAME, mend=_mend)
        return make_turn(found, context, wire)


def _found(step: JsonObject, at: int, *, is_complete: bool) -> FoundCall:
    kind = text(step.get("type"))
    return FoundCall(
        at=at,
        id=step.get("id"),
        name=SEARCH if kind == _SEARCH else step.get("name"),
        arguments=step.get("arguments"),
        kind=kind,
        is_complete=is_complete,
    )


def _mend(content: JsonValue, calls: Sequence[MendedCall]) -> JsonValue:
    steps = objects(content)
    for one in calls:
        if one.is_broken:
            step = {**steps[one.call.at], "id": one.call.wire_id}
            if one.call.kind != _SEARCH:
                step["name"] = one.call.wire_name
            if one.arguments:
                step["arguments"] = one.call.wire_arguments
            steps[one.call.at] = step
    return list[JsonValue](steps)


def _said(words: str) -> JsonObject:
    return {"type": "model_output", "content": [{"type": "text", "text": words}]}


def _rebuilt(turn: Turn, call: Call, tools: ToolBox | None) -> JsonObject:
    own = turn.native.provider == NAME
    step: JsonObject = {"id": call.wire_id if own else call.request.id}
    if own and call.kind == _SEARCH:
        return {"type": _SEARCH, **step, "arguments": own_arguments(call, tools)}
    name = call.wire_name if own else alias_of(call.request.name)
    return {"type": _FUNCTION, **step, "name": name, "arguments": own_arguments(call, tools)}


def _result(
    call: Call, result: ToolResult, call_id: str, media: Media, tools: ToolBox | None
) -> JsonObject:
    if call.kind == _SEARCH:
        found = [tools.declarations[name] for name in revealed(result, tools)] if tools else []
        return {
            "type": "tool_search_result",
            "call_id": call_id,
            "result": list[JsonValue](found),
        }
    parts = parts_of(result, media, ROOM)
    if result.is_error and tools:
        images = [part for part in parts if not isinstance(part, TextPart)]
        parts = [TextPart(spelled(result, text_of(parts), tools)), *images]
    step: JsonObject = {
        "type": "function_result",
        "call_id": call_id,
        "name": call.wire_name,
        "result": [_block(part) for part in parts],
    }
    if result.is_error:
        step["is_error"] = True
    return step


def _block(part: Part) -> JsonValue:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "data": part.data, "mime_type": part.mime}


def _declare(tool: Declaration) -> JsonObject:
    declared: JsonObject = {
        "type": "function",
        "name": tool.wire_name,
        "description": tool.description,
        "parameters": tool.adapted.schema,
    }
    if tool.spec.name == SEARCH:
        return {**declared, "type": "tool_search", "execution": "client"}
    if tool.is_deferred:
        declared["defer_loading"] = True
    return declared


_TOOLS = ToolFormat(
    provider=NAME,
    declare=_declare,
    dialect=GEMINI,
    tools_max=_CAPABILITIES.max_tools,
    defers=True,
    search_tool={"type": "tool_search", "execution": "server"},
)
