"""Speak OpenAI's Responses API.

Is: its tools, its output items, its results, as JSON. Is not: a client. Above: `conversation.py`,
agent services. Below: `decoding.py`, `toolbox.py`, `rendering.py`, `openai_responses_stream.py`.
Source: providers.md 1.2 and 1.6.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from toolrail.providers.openai_responses_stream import ResponsesStream
from toolrail.providers.port import Capabilities, Stream
from toolrail.providers.rendering import (
    ImagePart,
    Media,
    Part,
    Room,
    TextPart,
    compact,
    error_json,
    images_of,
    parts_of,
    text_of,
)
from toolrail.providers.schema import OPENAI, OPENAI_STRICT
from toolrail.providers.toolbox import (
    SEARCH,
    Declaration,
    ToolBox,
    ToolFormat,
    ToolOptions,
    encode_tools,
)
from toolrail.providers.turn import Call, Stop, Turn
from toolrail.providers.wire import family_of, mapping, objects, text
from toolrail_schemas import JsonObject, ToolResult, ToolSpec

NAME = "openai_responses"
_ID = re.compile(r"[\x21-\x7e]{1,64}\Z")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_FUNCTION, _CUSTOM, _SEARCH = "function_call", "custom_tool_call", "tool_search_call"
_INCOMPLETE = {"max_output_tokens": Stop.LENGTH, "content_filter": Stop.REFUSED}
ROOM = Room(
    image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    image_bytes=15 * 1024 * 1024,
    text_chars=10_000_000,
)
_CAPABILITIES = Capabilities(
    native_deferral=True,
    native_examples=False,
    strict_schema=True,
    parallel_calls=True,
    name_regex=_TOOL_NAME.pattern,
    max_tools=128,
    max_calls=None,
    media_in_results=frozenset(ROOM.image_types),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIResponses:
    """The Responses API; ask for `include: ["reasoning.encrypted_content"]` with `store: false`.

    Attributes:
        model: What the next request goes to; reasoning of another family is not sent there.
        realm: Organisation; encrypted reasoning does not hold across them.
        searches: Whether the model knows deferred tools and `tool_search`: GPT-5.4 and later.
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
        """See `Provider`. `strict` is always said: left out, the API rewrites the schema."""
        return encode_tools(specs, options, _TOOLS if self.searches else _PLAIN_TOOLS)

    def decode_calls(self, response: Mapping[str, JsonValue], context: DecodeContext) -> Turn:
        """See `Provider`."""
        return self._read(response, context)

    def stream(self) -> Stream:
        """See `Provider`."""
        return ResponsesStream(self._read)

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """See `Provider`."""
        if turn.native.fits(NAME, family_of(self.model), self.realm):
            return objects(turn.native.value())
        said: list[JsonObject] = [{"role": "assistant", "content": turn.text}] if turn.text else []
        return said + [self._rebuilt(turn, call, tools) for call in turn.calls]

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
        items: list[JsonObject] = []
        for call, result in answered(turn, results):
            call_id = call.wire_id if own else call.request.id
            if self._is_search(call, own=own):
                items += _search_output(result, call_id, tools)
            else:
                items.append(_output(call, result, call_id, media, tools))
        if turn.problem:
            items.append({"role": "user", "content": turn.problem})
        return items

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

    def _is_search(self, call: Call, *, own: bool) -> bool:
        """Whether the call stands in the request as a search."""
        return self.searches and (call.kind == _SEARCH if own else call.request.name == SEARCH)

    def _rebuilt(self, turn: Turn, call: Call, tools: ToolBox | None) -> JsonObject:
        own = turn.native.provider == NAME
        item: JsonObject = {"call_id": call.wire_id if own else call.request.id}
        arguments = own_arguments(call, tools)
        if self._is_search(call, own=own):
            fields: JsonObject = {"execution": "client", "status": "completed"}
            return {"type": _SEARCH, **item, **fields, "arguments": arguments}
        return {
            "type": _FUNCTION,
            **item,
            "name": alias_of(call.request.name),
            "arguments": compact(arguments),
        }

    def _read(
        self,
        response: Mapping[str, JsonValue],
        context: DecodeContext,
        *,
        unfinished: frozenset[int] = frozenset(),
        is_cut: bool = False,
    ) -> Turn:
        items = _repeatable(objects(response.get("output")))
        status = text(response.get("status"))
        reason = text(mapping(response.get("incomplete_details")).get("reason"))
        stop = _INCOMPLETE.get(reason, Stop.END)
        calls = [
            _found(item, at, unfinished, may_be_cut=stop is Stop.LENGTH and at == len(items) - 1)
            for at, item in enumerate(items)
            if _is_call(item)
        ]
        broken = not calls and (is_cut or status in ("failed", "cancelled"))
        kind = text(mapping(response.get("error")).get("code")) or status or "no end"
        found = FoundTurn(
            calls=calls,
            text="\n".join(_said(item) for item in items if item.get("type") == "message"),
            stop=Stop.ERROR if broken else stop,
            reason=reason or status,
            problem=f"The last answer broke off ({kind}). Answer again." if broken else "",
            content=list[JsonValue](items),
            family=family_of(text(response.get("model")) or self.model),
        )
        wire = CallFormat(provider=NAME, realm=self.realm, id=_ID, name=_TOOL_NAME, mend=_mend)
        return make_turn(found, context, wire)


def _repeatable(items: list[JsonObject]) -> list[JsonObject]:
    """Return the items without a thought at the end: what should follow it never came."""
    kept = list(items)
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return kept


def _is_call(item: JsonObject) -> bool:
    kind = item.get("type")
    return kind in (_FUNCTION, _CUSTOM) or (kind == _SEARCH and item.get("execution") == "client")


def _found(item: JsonObject, at: int, unfinished: frozenset[int], *, may_be_cut: bool) -> FoundCall:
    kind = text(item.get("type"))
    arguments = item.get("arguments")
    if kind == _CUSTOM:
        arguments = {"input": item.get("input")}
    return FoundCall(
        at=at,
        id=item.get("call_id"),
        name=SEARCH if kind == _SEARCH else item.get("name"),
        arguments=arguments,
        is_text=kind == _FUNCTION,
        namespace=text(item.get("namespace")),
        kind=kind,
        is_complete=at not in unfinished and item.get("status") != "incomplete",
        may_be_cut=may_be_cut,
    )


def _said(item: JsonObject) -> str:
    return "".join(text(part.get("text")) for part in objects(item.get("content")))


def _mend(content: JsonValue, calls: Sequence[MendedCall]) -> JsonValue:
    items = objects(content)
    for one in calls:
        if not one.is_broken:
            continue
        call = one.call
        item = {**items[call.at], "call_id": call.wire_id}
        if call.kind != _SEARCH:
            item["name"] = call.wire_name if one.name else item.get("name")
        if one.arguments and call.kind != _CUSTOM:
            whole = call.kind == _SEARCH
            item["arguments"] = call.wire_arguments if whole else compact(call.wire_arguments)
        if item.get("status") == "incomplete":
            item["status"] = "completed"
        items[call.at] = item
    return list[JsonValue](items)


def _search_output(result: ToolResult, call_id: str, tools: ToolBox | None) -> list[JsonObject]:
    """Return the tools that were found; where there are none, in words what the search said."""
    found = [tools.declarations[name] for name in revealed(result, tools)] if tools else []
    output: JsonObject = {
        "type": "tool_search_output",
        "call_id": call_id,
        "execution": "client",
        "status": "completed",
        "tools": list[JsonValue](found),
    }
    if found:
        return [output]
    said = text_of(parts_of(result, {}, ROOM))
    return [output, {"role": "developer", "content": f"tool_search: {said}"}]


def _output(
    call: Call, result: ToolResult, call_id: str, media: Media, tools: ToolBox | None
) -> JsonObject:
    kind = "custom_tool_call_output" if call.kind == _CUSTOM else "function_call_output"
    parts = parts_of(result, media, ROOM)
    if result.is_error:
        parts = [TextPart(error_json(spelled(result, text_of(parts), tools))), *images_of(parts)]
    output: JsonValue = text_of(parts)
    if images_of(parts):
        output = [_block(part) for part in parts]
    return {"type": kind, "call_id": call_id, "output": output}


def _block(part: Part) -> JsonValue:
    if isinstance(part, ImagePart):
        return {"type": "input_image", "image_url": part.data_url, "detail": "auto"}
    return {"type": "input_text", "text": part.text}


def _declare(tool: Declaration) -> JsonObject:
    if tool.spec.name != SEARCH:
        return _declare_function(tool)
    return {
        "type": "tool_search",
        "execution": "client",
        "description": tool.description,
        "parameters": tool.adapted.schema,
    }


def _declare_function(tool: Declaration) -> JsonObject:
    declared: JsonObject = {
        "type": "function",
        "name": tool.wire_name,
        "description": tool.description,
        "parameters": tool.adapted.schema,
        "strict": tool.is_strict,
    }
    if tool.is_deferred:
        declared["defer_loading"] = True
    return declared


_TOOLS = ToolFormat(
    provider=NAME,
    declare=_declare,
    dialect=OPENAI,
    strict=OPENAI_STRICT,
    tools_max=_CAPABILITIES.max_tools,
    description_chars=1024,
    defers=True,
    search_tool={"type": "tool_search", "execution": "server"},
)
_PLAIN_TOOLS = replace(
    _TOOLS,
    provider=f"{NAME} without search",
    declare=_declare_function,
    defers=False,
    search_tool=None,
)
