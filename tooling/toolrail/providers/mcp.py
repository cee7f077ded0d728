"""Speak MCP as a server: list tools, take calls, answer them.

Is: the JSON of `tools/list` and `tools/call`. Is not: a transport or a session; nor the client that
calls MCP servers (workers). Above: `conversation.py`, the gateway. Below: `decoding.py`,
`toolbox.py`, `rendering.py`. Source: providers.md 1.5.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.providers.answering import answered
from toolrail.providers.decoding import (
    CallFormat,
    DecodeContext,
    FoundCall,
    FoundTurn,
    MendedCall,
    make_turn,
)
from toolrail.providers.port import Capabilities, Stream
from toolrail.providers.rendering import Media, Part, Room, TextPart, parts_of
from toolrail.providers.schema import PLAIN
from toolrail.providers.toolbox import (
    Declaration,
    ToolBox,
    ToolFormat,
    ToolOptions,
    encode_tools,
)
from toolrail.providers.turn import Stop, Turn
from toolrail.providers.wire import event_of, mapping
from toolrail_schemas import Annotations, JsonObject, ToolResult, ToolSpec

NAME = "mcp"
_ID = re.compile(r".{1,256}\Z", re.DOTALL)
_TOOL_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}\Z")
ROOM = Room(
    image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    image_bytes=8 * 1024 * 1024,
    text_chars=4_000_000,
)
_CAPABILITIES = Capabilities(
    native_deferral=False,
    native_examples=False,
    strict_schema=False,
    parallel_calls=False,
    name_regex=_TOOL_NAME.pattern,
    max_tools=100_000,
    max_calls=1,
    media_in_results=frozenset(ROOM.image_types),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MCP:
    """A server of the Model Context Protocol: a "response" is a client's `tools/call` request."""

    @property
    def name(self) -> str:
        """See `Provider`."""
        return NAME

    @property
    def capabilities(self) -> Capabilities:
        """See `Provider`."""
        return _CAPABILITIES

    def encode_tools(self, specs: Sequence[ToolSpec], options: ToolOptions) -> ToolBox:
        """See `Provider`. Names and schemas are our own: a client adapts them to its model."""
        return encode_tools(specs, options, _TOOLS)

    def decode_calls(self, response: Mapping[str, JsonValue], context: DecodeContext) -> Turn:
        """See `Provider`. The request's id may be a number and goes back as it came."""
        params = mapping(response.get("params"))
        calls: list[FoundCall] = []
        if response.get("method") == "tools/call":
            arguments = params.get("arguments")
            calls.append(
                FoundCall(
                    at=0,
                    id=None,
                    name=params.get("name"),
                    arguments={} if arguments is None else arguments,
                )
            )
        found = FoundTurn(
            calls=calls, stop=Stop.END, content={"id": response.get("id")}, reason="request"
        )
        wire = CallFormat(
            provider=NAME,
            realm="",
            id=_ID,
            name=_TOOL_NAME,
            needs_id=False,
            wire_name=str,
            mend=_keep,
        )
        return make_turn(found, context, wire)

    def stream(self) -> Stream:
        """See `Provider`. A request is one message."""
        return MCPStream(self)

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """See `Provider`. A request is not repeated."""
        del turn, tools
        return []

    def encode_results(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """See `Provider`. JSON-RPC responses."""
        del tools
        native = mapping(turn.native.value())
        return [
            {
                "jsonrpc": "2.0",
                "id": native.get("id"),
                "result": call_result(result, media),
            }
            for _, result in answered(turn, results)
        ]

    def encode_exchange(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """See `Provider`."""
        return self.encode_results(turn, results, media=media, tools=tools)


def call_result(result: ToolResult, media: Media) -> JsonObject:
    """Return a result as MCP's `CallToolResult`."""
    out: JsonObject = {
        "content": [_block(part) for part in parts_of(result, media, ROOM)],
        "isError": result.is_error,
        "resultType": "complete",
    }
    if result.structured is not None:
        out["structuredContent"] = result.structured
    return out


def _keep(content: JsonValue, calls: Sequence[MendedCall]) -> JsonValue:
    del calls
    return content


def _block(part: Part) -> JsonValue:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "data": part.data, "mimeType": part.mime}


def _declare(tool: Declaration) -> JsonObject:
    spec = tool.spec
    declared: JsonObject = {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "annotations": hints(spec.annotations),
    }
    if spec.output_schema is not None:
        declared["outputSchema"] = spec.output_schema
    return declared


def hints(annotations: Annotations) -> JsonObject:
    """Return annotations as MCP's hints; what changes nothing has no other."""
    if annotations.read_only:
        return {"readOnlyHint": True, "openWorldHint": annotations.open_world}
    return {
        "readOnlyHint": False,
        "destructiveHint": annotations.destructive,
        "idempotentHint": annotations.idempotent,
        "openWorldHint": annotations.open_world,
    }


_TOOLS = ToolFormat(
    provider=NAME,
    declare=_declare,
    dialect=PLAIN,
    wire_name=str,
    tools_max=_CAPABILITIES.max_tools,
)


class MCPStream:
    """One request; see `Stream`."""

    def __init__(self, provider: MCP) -> None:
        self._provider = provider
        self._request: JsonObject = {}

    def feed(self, event: object) -> None:
        """See `Stream`."""
        self._request = event_of(event)

    def turn(self, context: DecodeContext) -> Turn:
        """See `Stream`."""
        return self._provider.decode_calls(self._request, context)
