"""Speak Anthropic's Messages API.

Is: its tools, its assistant content, its results, its stream, as JSON. Is not: a client. Above:
`conversation.py`, agent services. Below: `decoding.py`, `toolbox.py`, `rendering.py`. Source:
providers.md 1.3.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from toolrail.names import alias_of
from toolrail.providers.answering import answered, own_arguments, revealed, spelled
from toolrail.providers.anthropic_stream import AnthropicStream
from toolrail.providers.decoding import (
    CallFormat,
    DecodeContext,
    FoundCall,
    FoundTurn,
    MendedCall,
    make_turn,
)
from toolrail.providers.port import Capabilities, Stream
from toolrail.providers.rendering import (
    ImagePart,
    Media,
    Part,
    Room,
    TextPart,
    parts_of,
    text_of,
)
from toolrail.providers.schema import ANTHROPIC, ANTHROPIC_STRICT
from toolrail.providers.toolbox import (
    Declaration,
    ToolBox,
    ToolFormat,
    ToolOptions,
    encode_tools,
)
from toolrail.providers.turn import Stop, Turn
from toolrail.providers.wire import family_of, mapping, objects, text
from toolrail_schemas import Caller, JsonObject, ToolResult, ToolSpec

NAME = "anthropic"
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_STOPS = {
    "tool_use": Stop.CALLS,
    "end_turn": Stop.END,
    "stop_sequence": Stop.END,
    "max_tokens": Stop.LENGTH,
    "model_context_window_exceeded": Stop.LENGTH,
    "pause_turn": Stop.PAUSED,
    "refusal": Stop.REFUSED,
}
ROOM = Room(
    image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    # The limit of 5 MiB is on the base64. Source: the API's own error text, 2026-11-30.
    image_bytes=5 * 1024 * 1024 * 3 // 4,
    text_chars=2_000_000,
)
_CAPABILITIES = Capabilities(
    native_deferral=True,
    native_examples=True,
    strict_schema=True,
    parallel_calls=True,
    name_regex=_TOOL_NAME.pattern,
    max_tools=512,
    max_calls=None,
    media_in_results=frozenset(ROOM.image_types),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anthropic:
    """The Messages API.

    Attributes:
        model: What the next request goes to; thinking of another family is not sent there.
        realm: Organisation or transport, where signatures do not hold across them.
        searches: Whether the model knows deferred tools.
    """

    model: str = ""
    realm: str = ""
    searches: bool = True

    @property
    def name(self) -> str:
        """See `Provider`."""
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        """See `Provider`."""
        return replace(_CAPABILITIES, native_deferral=self.searches)

    def encode_tools(self, specs: Sequence[ToolSpec], options: ToolOptions) -> ToolBox:
        """See `Provider`."""
        return encode_tools(specs, options, _TOOLS if self.searches else _PLAIN_TOOLS)

    def decode_calls(self, response: Mapping[str, JsonValue], context: DecodeContext) -> Turn:
        """See `Provider`."""
        return self._read(response, context)

    def stream(self) -> Stream:
        """See `Provider`."""
        return AnthropicStream(self._read)

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """See `Provider`."""
        if turn.native.fits(NAME, family_of(self.model), self.realm):
            content = [block for block in objects(turn.native.value()) if not _is_blank(block)]
        else:
            content = _rebuilt(turn, tools)
        return [{"role": "assistant", "content": list[JsonValue](content)}] if content else []

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
        blocks: list[JsonValue] = []
        beside: list[JsonValue] = []
        for call, result in answered(turn, results):
            parts = parts_of(result, media, ROOM)
            call_id = call.wire_id if own else call.request.id
            blocks.append(_result(call_id, result, parts, tools))
            if result.is_error:
                # An error is all text; what it shows follows after the results.
                images = [_block(part) for part in parts if isinstance(part, ImagePart)]
                if images:
                    label = TextPart(f"Images of the failed call {call_id}:")
                    beside += [_block(label), *images]
        if turn.problem:
            beside.append({"type": "text", "text": turn.problem})
        if own and blocks and _awaits_server(turn):
            beside = []
        content = [*blocks, *beside]
        return [{"role": "user", "content": content}] if content else []

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
        content = objects(response.get("content"))
        reason = text(response.get("stop_reason"))
        stop = _STOPS.get(reason, Stop.END)
        calls = [
            _found(block, at, is_last=at == len(content) - 1, stop=stop, is_open=at in unfinished)
            for at, block in enumerate(content)
            if block.get("type") == "tool_use"
        ]
        broken = not calls and (is_cut or response.get("type") == "error")
        kind = text(mapping(response.get("error")).get("type")) or "no end"
        found = FoundTurn(
            calls=calls,
            text="\n".join(text(b.get("text")) for b in content if b.get("type") == "text"),
            stop=Stop.ERROR if broken else stop,
            reason=reason,
            problem=f"The last answer broke off ({kind}). Answer again." if broken else "",
            content=list[JsonValue](content),
            family=family_of(text(response.get("model")) or self.model),
        )
        wire = CallFormat(provider=NAME, realm=self.realm, id=_ID, name=_TOOL_NAME, mend=_mend)
        return make_turn(found, context, wire)


def _found(block: JsonObject, at: int, *, is_last: bool, stop: Stop, is_open: bool) -> FoundCall:
    arguments = block.get("input")
    caller = text(mapping(block.get("caller")).get("type"))
    cut = is_last and stop is Stop.LENGTH
    return FoundCall(
        at=at,
        id=block.get("id"),
        name=block.get("name"),
        arguments=arguments,
        caller=Caller.CODE_EXECUTION if caller.startswith("code_execution") else None,
        # An object that was cut short cannot be told from a whole one; text can.
        is_complete=not is_open and not (cut and not isinstance(arguments, str)),
        may_be_cut=cut,
    )


def _mend(content: JsonValue, calls: Sequence[MendedCall]) -> JsonValue:
    blocks: list[JsonValue] = [*objects(content)]
    for one in calls:
        if one.is_broken:
            blocks[one.call.at] = {
                **mapping(blocks[one.call.at]),
                "id": one.call.wire_id,
                "name": one.call.wire_name,
                "input": one.call.wire_arguments,
            }
    return blocks


def _is_blank(block: JsonObject) -> bool:
    """Whether the API would refuse the block: text it sent itself, but empty."""
    return block.get("type") == "text" and not text(block.get("text")).strip()


def _awaits_server(turn: Turn) -> bool:
    """Whether a tool of the provider is still running: then only results may be sent."""
    blocks = objects(turn.native.value())
    started = {text(b.get("id")) for b in blocks if b.get("type") == "server_tool_use"}
    ended = {text(block.get("tool_use_id")) for block in blocks}
    by_program = any(call.request.caller is Caller.CODE_EXECUTION for call in turn.calls)
    return by_program or bool(started - ended)


def _rebuilt(turn: Turn, tools: ToolBox | None) -> list[JsonObject]:
    content: list[JsonObject] = []
    if turn.text.strip():
        content.append({"type": "text", "text": turn.text})
    own = turn.native.provider == NAME
    for call in turn.calls:
        block: JsonObject = {"type": "tool_use", "id": call.wire_id if own else call.request.id}
        block["name"] = alias_of(call.request.name)
        block["input"] = own_arguments(call, tools)
        content.append(block)
    return content


def _result(
    call_id: str, result: ToolResult, parts: Sequence[Part], tools: ToolBox | None
) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": call_id}
    found = revealed(result, tools)
    declared = [name for name in found if tools and name in tools.deferred]
    if tools and declared:
        names = (tools.declarations[name]["name"] for name in declared)
        block["content"] = [{"type": "tool_reference", "tool_name": name} for name in names]
    elif result.is_error:
        said = spelled(result, text_of(parts), tools)
        block["content"] = [{"type": "text", "text": said}]
        block["is_error"] = True
    else:
        block["content"] = [_block(part) for part in parts]
    return block


def _block(part: Part) -> JsonValue:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    source: JsonValue = {"type": "base64", "media_type": part.mime, "data": part.data}
    return {"type": "image", "source": source}


def _declare(tool: Declaration) -> JsonObject:
    declared: JsonObject = {
        "name": tool.wire_name,
        "description": tool.description,
        "input_schema": tool.adapted.schema,
    }
    if tool.is_strict:
        declared["strict"] = True
    examples = tool.spec.surface_meta.input_examples
    if examples and not tool.has_search:
        declared["input_examples"] = [tool.adapted.to_wire(example) for example in examples]
    if tool.is_deferred:
        declared["defer_loading"] = True
    return declared


_TOOLS = ToolFormat(
    provider=NAME,
    declare=_declare,
    dialect=ANTHROPIC,
    strict=ANTHROPIC_STRICT,
    tools_max=_CAPABILITIES.max_tools,
    strict_tools_max=20,
    strict_optional_max=24,
    defers=True,
    search_tool={"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
)
_PLAIN_TOOLS = replace(_TOOLS, provider=f"{NAME} without search", defers=False, search_tool=None)
