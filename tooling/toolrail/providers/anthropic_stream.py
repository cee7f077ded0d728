"""Put a streamed message of Anthropic together from its raw events.

Is: fragments joined by block, and which blocks had an end. Is not: what the message means
(`anthropic.py`). Above: `anthropic.py`. Below: `wire.py`. Source: providers.md 1.3.
"""

import json

from pydantic import JsonValue

from toolrail.providers.decoding import DecodeContext, Reader
from toolrail.providers.turn import Turn
from toolrail.providers.wire import event_of, joined, mapping, text
from toolrail_schemas import JsonObject


class AnthropicStream:
    """Puts a streamed message together; see `Stream`.

    Arguments are kept as the text that came and read once, at the end: what is cut off, doubled or
    no JSON must not become something that looks whole.
    """

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._message: JsonObject = {}
        self._blocks: dict[int, JsonObject] = {}
        self._fragments: dict[tuple[int, str], list[str]] = {}
        self._open: set[int] = set()
        self._ended = False

    def feed(self, event: object) -> None:
        """See `Stream`."""
        self._take(event_of(event))

    def _take(self, event: JsonObject) -> None:
        index = event.get("index")
        at = index if isinstance(index, int) else -1
        match event.get("type"):
            case "message_start":
                self._message = dict(mapping(event.get("message")))
            case "content_block_start":
                self._blocks[at] = dict(mapping(event.get("content_block")))
                self._open.add(at)
            case "content_block_delta":
                self._delta(at, mapping(event.get("delta")))
            case "content_block_stop":
                self._open.discard(at)
            case "message_delta":
                self._message.update(mapping(event.get("delta")))
                self._ended |= mapping(event.get("delta")).get("stop_reason") is not None
            case "message_stop":
                self._ended = True
            case "error":
                self._message.update({"type": "error", "error": event.get("error")})
            case _:
                pass

    def _delta(self, at: int, delta: JsonObject) -> None:
        match delta.get("type"):
            case "input_json_delta":
                self._add(at, "input", delta.get("partial_json"))
            case "text_delta":
                self._add(at, "text", delta.get("text"))
            case "thinking_delta":
                self._add(at, "thinking", delta.get("thinking"))
            case "signature_delta":
                self._add(at, "signature", delta.get("signature"))
            case "citations_delta" if at in self._blocks:
                known = self._blocks[at].get("citations")
                cited = known if isinstance(known, list) else []
                self._blocks[at]["citations"] = [*cited, delta.get("citation")]
            case _:
                pass

    def _add(self, at: int, key: str, fragment: JsonValue) -> None:
        self._fragments.setdefault((at, key), []).append(text(fragment))

    def turn(self, context: DecodeContext) -> Turn:
        """See `Stream`."""
        content: list[JsonValue] = []
        unfinished: set[int] = set()
        for index in sorted(self._blocks):
            block = self._whole(index)
            if index in self._open and not self._ended:
                if block.get("type") != "tool_use" and "text" not in block:
                    # Half of a thought has no signature and would be refused.
                    continue
                unfinished.add(len(content))
            content.append(block)
        response = {**self._message, "content": content}
        return self._read(
            response, context, unfinished=frozenset(unfinished), is_cut=not self._ended
        )

    def _whole(self, index: int) -> JsonObject:
        block = dict(self._blocks[index])
        for key in ("text", "thinking", "signature"):
            if (index, key) in self._fragments:
                block[key] = text(block.get(key)) + joined(self._fragments[index, key])
        if (index, "input") in self._fragments:
            whole = joined(self._fragments[index, "input"])
            block["input"] = whole if block.get("type") == "tool_use" else _object(whole)
        return block


def _object(whole: str) -> JsonValue:
    """Return the input of a tool of the provider's own, which must go back as an object."""
    try:
        parsed: JsonValue = json.loads(whole or "{}")
    except ValueError:
        return {}
    return mapping(parsed)
