"""Speak Gemini's generateContent API.

Is: its function declarations, its content parts, its results, as JSON. Is not: a client. Above:
`conversation.py`, agent services. Below: `decoding.py`, `toolbox.py`, `rendering.py`,
`gemini_stream.py`. Source: providers.md 1.4.
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
from toolrail.providers.gemini_stream import GeminiStream
from toolrail.providers.port import Capabilities, Stream
from toolrail.providers.rendering import (
    ImagePart,
    Media,
    Room,
    images_of,
    parts_of,
    text_of,
)
from toolrail.providers.schema import GEMINI
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

NAME = "gemini"
_ID = re.compile(r"[\x21-\x7e]{1,64}\Z")
_TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}\Z")
_MAJOR = re.compile(r"gemini-(\d+)")
_MEDIA_IN_RESULTS_SINCE = 3
_BROKEN = frozenset(
    {
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
        "OTHER",
    }
)
"""Ways to end that leave no usable answer; the model is told and asked again."""
_STOPS = {"STOP": Stop.END, "MAX_TOKENS": Stop.LENGTH, "FINISH_REASON_UNSPECIFIED": Stop.END}
FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""Stands for the signature of a call that this model did not make. Source: Google's own advice."""
_SHOWN_CHARS = 300
ROOM = Room(
    image_types=frozenset({"image/png", "image/jpeg", "image/webp"}),
    image_bytes=10 * 1024 * 1024,
    text_chars=2_000_000,
)
_CAPABILITIES = Capabilities(
    native_deferral=False,
    native_examples=False,
    strict_schema=False,
    parallel_calls=True,
    name_regex=_TOOL_NAME.pattern,
    max_tools=512,
    max_calls=None,
    media_in_results=frozenset(ROOM.image_types),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemini:
    """The generateContent API.

    Attributes:
        model: What the next request goes to. From Gemini 3 on a result carries its images itself.
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
        return GeminiStream(self._read)

    def encode_turn(self, turn: Turn, tools: ToolBox | None = None) -> list[JsonObject]:
        """See `Provider`."""
        if turn.native.fits(NAME, family_of(self.model), self.realm):
            content = mapping(turn.native.value())
        else:
            content = _rebuilt(turn, tools)
        return [content] if content.get("parts") else []

    def encode_results(
        self,
        turn: Turn,
        results: Sequence[ToolResult],
        *,
        media: Media,
        tools: ToolBox | None = None,
    ) -> list[JsonObject]:
        """See `Provider`. As many parts as calls in one content; anything else in another."""
        own = turn.native.provider == NAME
        inside = self._carries_media(turn)
        answers: list[JsonValue] = []
        beside: list[JsonValue] = []
        for at, (call, result) in enumerate(answered(turn, results)):
            name = call.wire_name if own else alias_of(call.request.name)
            parts = parts_of(result, media, ROOM)
            images = images_of(parts)
            said = spelled(result, text_of(parts), tools)
            answer: JsonObject = {"name": name}
            if call.wire_id or not own:
                answer["id"] = call.wire_id if own else call.request.id
            if images and inside:
                answer["parts"] = [_inline(image) for image in images]
            elif images:
                said += f"\n[{len(images)} image(s) in the next message]"
                beside.append({"text": f"[image from tool result {name} #{at}]"})
                beside += [_inline(image) for image in images]
            # Text, never JSON: a key `$ref` in there would be taken for a reference.
            answer["response"] = {"error" if result.is_error else "output": said}
            answers.append({"functionResponse": answer})
        if turn.problem:
            beside.append({"text": turn.problem})
        return [{"role": "user", "parts": parts} for parts in (answers, beside) if parts]

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

    def _carries_media(self, turn: Turn) -> bool:
        own = turn.native.family if turn.native.provider == NAME else ""
        major = _MAJOR.search(self.model or own)
        return major is not None and int(major.group(1)) >= _MEDIA_IN_RESULTS_SINCE

    def _read(
        self,
        response: Mapping[str, JsonValue],
        context: DecodeContext,
        *,
        unfinished: frozenset[int] = frozenset(),
        is_cut: bool = False,
    ) -> Turn:
        candidate = (objects(response.get("candidates")) or [JsonObject()])[0]
        blocked = text(mapping(response.get("promptFeedback")).get("blockReason"))
        reason = text(candidate.get("finishReason")) or blocked
        parts = objects(mapping(candidate.get("content")).get("parts"))
        stop = Stop.ERROR if reason in _BROKEN else _stop(reason)
        found = [
            _found(
                part,
                at,
                # A call that came before a bad end, or at the limit, is not believed.
                is_complete=at not in unfinished
                and stop is not Stop.ERROR
                and not (stop is Stop.LENGTH and at == len(parts) - 1),
            )
            for at, part in enumerate(parts)
            if "functionCall" in part
        ]
        problem = _problem(reason, text(candidate.get("finishMessage")))
        if stop is not Stop.ERROR:
            problem = "The last answer broke off. Answer again." if is_cut and not found else ""
        family = family_of(text(response.get("modelVersion")) or self.model)
        turn = FoundTurn(
            calls=found,
            text="".join(text(p.get("text")) for p in parts if p.get("thought") is not True),
            stop=Stop.ERROR if problem else stop,
            reason=reason,
            problem=problem,
            content={"role": "model", "parts": list[JsonValue](parts)},
            family=family,
        )
        wire = CallFormat(
            provider=NAME,
            realm=self.realm,
            id=_ID,
            name=_TOOL_NAME,
            needs_id=False,
            mend=_mend,
        )
        return make_turn(turn, context, wire)


def _stop(reason: str) -> Stop:
    return _STOPS.get(reason, Stop.REFUSED) if reason else Stop.END


def _problem(reason: str, message: str) -> str:
    what = reason.lower().replace("_", " ")
    told = f" ({message[:_SHOWN_CHARS]})" if message else ""
    return f"Your last answer ended as {what}{told}. Call the tools you need again, one by one."


def _found(part: JsonObject, at: int, *, is_complete: bool) -> FoundCall:
    call = mapping(part.get("functionCall"))
    arguments = call.get("args")
    return FoundCall(
        at=at,
        id=call.get("id"),
        name=call.get("name"),
        arguments={} if arguments is None else arguments,
        is_complete=is_complete,
    )


def _mend(content: JsonValue, calls: Sequence[MendedCall]) -> JsonValue:
    whole = mapping(content)
    parts = objects(whole.get("parts"))
    for one in calls:
        if one.is_broken:
            call = mapping(parts[one.call.at].get("functionCall"))
            mended: JsonObject = {**call, "name": one.call.wire_name}
            if one.call.wire_id:
                mended["id"] = one.call.wire_id
            else:
                mended.pop("id", None)
            if one.arguments:
                mended["args"] = one.call.wire_arguments
            parts[one.call.at] = {**parts[one.call.at], "functionCall": mended}
    return {**whole, "parts": list[JsonValue](parts)}


def _rebuilt(turn: Turn, tools: ToolBox | None) -> JsonObject:
    own = turn.native.provider == NAME
    parts: list[JsonValue] = [{"text": turn.text}] if turn.text else []
    for at, call in enumerate(turn.calls):
        called: JsonObject = {
            "name": call.wire_name if own else alias_of(call.request.name),
            "args": own_arguments(call, tools),
        }
        if call.wire_id or not own:
            called["id"] = call.wire_id if own else call.request.id
        part: JsonObject = {"functionCall": called}
        if at == 0:
            part["thoughtSignature"] = FOREIGN_SIGNATURE
        parts.append(part)
    return {"role": "model", "parts": parts}


def _inline(image: ImagePart) -> JsonValue:
    return {"inlineData": {"mimeType": image.mime, "data": image.data}}


def _declare(tool: Declaration) -> JsonObject:
    return {
        "name": tool.wire_name,
        "description": tool.description,
        "parametersJsonSchema": tool.adapted.schema,
    }


def _wrap(declarations: list[JsonObject]) -> list[JsonObject]:
    if not declarations:
        return []
    return [{"functionDeclarations": list[JsonValue](declarations)}]


_TOOLS = ToolFormat(
    provider=NAME,
    declare=_declare,
    wrap=_wrap,
    dialect=GEMINI,
    tools_max=_CAPABILITIES.max_tools,
)
