"""Put a streamed Chat Completions message together from its raw chunks.

Is: deltas joined by call, for servers that number them and those that do not. Is not: what the
message means (`openai_chat.py`). Above: `openai_chat.py`. Below: `wire.py`. Source: providers.md
1.1.
"""

from pydantic import JsonValue

from toolrail.providers.decoding import DecodeContext, Reader
from toolrail.providers.turn import Turn
from toolrail.providers.wire import END, event_of, joined, mapping, objects, text
from toolrail_schemas import JsonObject


class _Call:
    def __init__(self, index: JsonValue) -> None:
        self.index = index
        self.fields: JsonObject = {}
        self.function: JsonObject = {}
        self.arguments: list[str] = []

    def add(self, delta: JsonObject) -> None:
        inner = mapping(delta.get("function")) or mapping(delta.get("custom"))
        for key, value in delta.items():
            if key not in ("index", "function", "custom") and not self.fields.get(key):
                self.fields[key] = value
        if delta.get("custom") is not None:
            self.fields["type"] = "custom"
        for key, value in inner.items():
            if key in ("arguments", "input"):
                self.arguments.append(text(value))
            elif not self.function.get(key):
                self.function[key] = value

    def whole(self) -> JsonObject:
        custom = self.fields.get("type") == "custom"
        key = "input" if custom else "arguments"
        inner: JsonObject = {**self.function, key: joined(self.arguments)}
        return {**self.fields, "custom" if custom else "function": inner}


class ChatStream:
    """Puts a streamed completion together; see `Stream`. Only the first choice is read."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._model = ""
        self._message: JsonObject = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[_Call] = []
        self._reason: JsonValue = None
        self._ended = False

    def feed(self, event: object) -> None:
        """See `Stream`."""
        chunk = event_of(event)
        self._ended |= chunk.get("type") == END
        self._model = self._model or text(chunk.get("model"))
        for choice in objects(chunk.get("choices")):
            if choice.get("index", 0) == 0:
                self._add(mapping(choice.get("delta")))
                self._reason = choice.get("finish_reason") or self._reason

    def _add(self, delta: JsonObject) -> None:
        for key, value in delta.items():
            if key == "tool_calls":
                for call in objects(value):
                    self._call_of(call).add(call)
            elif isinstance(value, str) and key != "role":
                self._texts.setdefault(key, []).append(value)
            elif value is not None or key not in self._message:
                self._message[key] = value

    def _call_of(self, delta: JsonObject) -> _Call:
        """Return the call that a delta goes on with; a new id begins a new one."""
        index, new_id = delta.get("index"), delta.get("id")
        for call in reversed(self._calls):
            if index is not None and call.index != index:
                continue
            known = call.fields.get("id")
            if not new_id or not known or known == new_id:
                return call
            break
        call = _Call(index)
        self._calls.append(call)
        return call

    def turn(self, context: DecodeContext) -> Turn:
        """See `Stream`."""
        message = dict(self._message)
        for key, fragments in self._texts.items():
            message[key] = joined(fragments)
        if self._calls:
            message["tool_calls"] = [call.whole() for call in self._calls]
        choice: JsonObject = {"message": message, "finish_reason": self._reason}
        response: JsonObject = {"model": self._model, "choices": [choice]}
        # Only the end of the whole says that a call is whole.
        is_cut = not self._reason and not self._ended
        unfinished = frozenset(range(len(self._calls))) if is_cut else frozenset[int]()
        return self._read(response, context, unfinished=unfinished, is_cut=is_cut)
