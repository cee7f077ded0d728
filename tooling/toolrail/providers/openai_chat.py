"""Speak OpenAI's Chat Completions API, and the many servers that copy it.

Is: its tools, its assistant message, its results, as JSON. Is not: a client. Above:
`conversation.py`, agent services. Below: `decoding.py`, `toolbox.py`, `rendering.py`,
`openai_chat_stream.py`. Source: providers.md 1.1.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.names import alias_of
from toolrail.providers.answering import answered, own_arguments, spelled
from toolrail.providers.decoding import (
    CallFormat,
    DecodeContext,
    FoundCall,
    FoundTurn,
    MendedCall,
    make_turn,
)
from toolrail.providers.openai_chat_stream import ChatStream
from toolrail.providers.port import Capabilities, Stream
from toolrail.providers.rendering import (
    Media,
    Room,
    compact,
    error_json,
    images_of,
    parts_of,
    text_of,
)
from toolrail.providers.schema import OPENAI, OPENAI_STRICT
from toolrail.providers.toolbox import (
    Declaration,
    ToolBox,
    ToolFormat,
    ToolOptions,
    encode_tools,
)
from toolrail.providers.turn import Stop, Turn
from toolrail.providers.wire import family_of, mapping, objects, text
from toolrail_schemas import JsonObject, ToolResult, ToolSpec

NAME = "openai_chat"
CALLS_MAX = 128
"""Calls in one assistant message. Source: openai-dotnet#317."""
_ID = re.compile(r"[\x21-\x7e]{1,40}\Z")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_STOPS = {
    "tool_calls": Stop.CALLS,
    "function_call": Stop.CALLS,
    "stop": Stop.END,
    "length": Stop.LENGTH,
    "content_filter": Stop.REFUSED,
}
_ANSWER_ONLY = ("annotations",)
"""Fields of an answer that no request has."""
_NULL_IS_NOTHING = ("refusal", "audio", "function_call", "tool_calls")
ROOM = Room(
    image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"}),
    image_bytes=15 * 1024 * 1024,
    text_chars=1_000_000,
)
_CAPABILITIES = Capabilities(
    native_deferral=False,
    native_examples=False,
    strict_schema=True,
    parallel_calls=True,
    name_regex=_TOOL_NAME.pattern,
    max_tools=128,
    max_calls=CALLS_MAX,
    media_in_results=frozenset(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIChat:
    """The Chat Completions API.

    Attributes:
        model: What the next request goes to; extras of another family are not sent there.
        realm: Organisation or server, where signatures do not hold across them.
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
        return ChatStream(self._read)

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """See `Provider`. More calls than one message takes are split over several."""
        if turn.native.fits(NAME, family_of(self.model), self.realm):
            message = mapping(turn.native.value())
        else:
            message = _rebuilt(turn, tools)
        calls = message.get("tool_calls")
        if isinstance(calls, list) and len(calls) > CALLS_MAX:
            first = {**message, "tool_calls": calls[:CALLS_MAX]}
            return [first, *_more(calls[CALLS_MAX:])]
        said = [message.get(key) for key in ("content", "tool_calls", "refusal", "audio")]
        return [message] if any(said) else []

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
        messages: list[JsonObject] = []
        beside: list[JsonValue] = []
        for call, result in answered(turn, results):
            call_id = call.wire_id if own else call.request.id
            parts = parts_of(result, media, ROOM)
            said = text_of(parts)
            if result.is_error:
                said = error_json(spelled(result, said, tools))
            images = images_of(parts)
            if images:
                number = "1 image follows" if len(images) == 1 else f"{len(images)} images follow"
                said += f"\n[{number} in the next user message]"
                beside.append({"type": "text", "text": f"[image from tool result {call_id}]"})
                beside.extend(
                    {"type": "image_url", "image_url": {"url": image.data_url}} for image in images
                )
            messages.append({"role": "tool", "tool_call_id": call_id, "content": said})
        if beside:
            messages.append({"role": "user", "content": beside})
        if turn.problem:
            messages.append({"role": "user", "content": turn.problem})
        return messages

    def encode_exchange(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """See `Provider`. Every assistant message is followed by the answers to its calls."""
        answers = self.encode_results(turn, results, media=media, tools=tools)
        messages: list[JsonObject] = []
        at = 0
        for message in self.encode_turn(turn, tools):
            calls = len(objects(message.get("tool_calls")))
            messages += [message, *answers[at : at + calls]]
            at += calls
        return messages + answers[at:]

    def _read(
        self,
        response: Mapping[str, JsonValue],
        context: DecodeContext,
        *,
        unfinished: frozenset[int] = frozenset(),
        is_cut: bool = False,
    ) -> Turn:
        choice = (objects(response.get("choices")) or [JsonObject()])[0]
        message = _repeatable(mapping(choice.get("message")))
        reason = text(choice.get("finish_reason"))
        stop = _STOPS.get(reason, Stop.END)
        calls = objects(message.get("tool_calls"))
        broken = not calls and (is_cut or not choice)
        found = FoundTurn(
            calls=[
                _found(
                    call,
                    at,
                    is_complete=at not in unfinished,
                    may_be_cut=stop is Stop.LENGTH and at == len(calls) - 1,
                )
                for at, call in enumerate(calls)
            ],
            text=text(message.get("content")),
            stop=Stop.ERROR if broken else stop,
            reason=reason,
            problem="The last answer broke off. Answer again." if broken else "",
            content=message,
            family=family_of(text(response.get("model")) or self.model),
        )
        wire = CallFormat(provider=NAME, realm=self.realm, id=_ID, name=_TOOL_NAME, mend=_mend)
        return make_turn(found, context, wire)


def _repeatable(message: JsonObject) -> JsonObject:
    """Return an answer's message as a request takes it; what a server added stays."""
    out = {
        key: value
        for key, value in message.items()
        if key not in _ANSWER_ONLY and not (key in _NULL_IS_NOTHING and not value)
    }
    if out:
        out.setdefault("role", "assistant")
        out.setdefault("content", None)
    if "audio" in out:
        out["audio"] = {"id": mapping(out["audio"]).get("id")}
    if "tool_calls" in out:
        calls = objects(out["tool_calls"])
        out["tool_calls"] = [
            call if "type" in call else {"type": "function", **call} for call in calls
        ]
    return out


def _found(call: JsonObject, at: int, *, is_complete: bool, may_be_cut: bool) -> FoundCall:
    custom = call.get("type") == "custom"
    inner = mapping(call.get("custom" if custom else "function"))
    return FoundCall(
        at=at,
        id=call.get("id"),
        name=inner.get("name"),
        arguments={"input": inner.get("input")} if custom else inner.get("arguments"),
        is_text=not custom,
        kind="custom" if custom else "function",
        is_complete=is_complete,
        may_be_cut=may_be_cut,
    )


def _mend(content: JsonValue, calls: Sequence[MendedCall]) -> JsonValue:
    message = mapping(content)
    listed = objects(message.get("tool_calls"))
    for one in calls:
        if not one.is_broken:
            continue
        call = {**listed[one.call.at], "id": one.call.wire_id}
        key = "custom" if one.call.kind == "custom" else "function"
        inner = {**mapping(call.get(key)), "name": one.call.wire_name}
        if one.arguments:
            inner["arguments"] = compact(one.call.wire_arguments)
        listed[one.call.at] = {**call, key: inner}
    return {**message, "tool_calls": list[JsonValue](listed)}


def _more(calls: list[JsonValue]) -> list[JsonObject]:
    return [
        {"role": "assistant", "content": None, "tool_calls": calls[at : at + CALLS_MAX]}
        for at in range(0, len(calls), CALLS_MAX)
    ]


def _rebuilt(turn: Turn, tools: ToolBox | None) -> JsonObject:
    own = turn.native.provider == NAME
    calls: list[JsonValue] = [
        {
            "id": call.wire_id if own else call.request.id,
            "type": "function",
            "function": {
                "name": alias_of(call.request.name),
                "arguments": compact(own_arguments(call, tools)),
            },
        }
        for call in turn.calls
    ]
    message: JsonObject = {"role": "assistant", "content": turn.text or None}
    if calls:
        message["tool_calls"] = calls
    return message


def _declare(tool: Declaration) -> JsonObject:
    return {
        "type": "function",
        "function": {
            "name": tool.wire_name,
            "description": tool.description,
            "parameters": tool.adapted.schema,
            "strict": tool.is_strict,
        },
    }


_TOOLS = ToolFormat(
    provider=NAME,
    declare=_declare,
    dialect=OPENAI,
    strict=OPENAI_STRICT,
    tools_max=_CAPABILITIES.max_tools,
    description_chars=1024,
)
