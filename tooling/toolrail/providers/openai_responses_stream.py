"""Put a streamed response of the Responses API together from its raw events.

Is: items by output index, and which of them had an end. Is not: what an item means
(`openai_responses.py`). Above: `openai_responses.py`. Below: `wire.py`. Source: providers.md 1.2.
"""

from pydantic import JsonValue

from toolrail.providers.decoding import DecodeContext, Reader
from toolrail.providers.turn import Turn
from toolrail.providers.wire import event_of, joined, mapping, objects, text
from toolrail_schemas import JsonObject

_ENDS = ("response.completed", "response.incomplete", "response.failed")


class ResponsesStream:
    """Puts a streamed response together; see `Stream`."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._response: JsonObject = {}
        self._items: dict[int, JsonObject] = {}
        self._fragments: dict[int, list[str]] = {}
        self._done: set[int] = set()
        self._ended = False

    def feed(self, event: object) -> None:
        """See `Stream`."""
        said = event_of(event)
        kind = text(said.get("type"))
        index = said.get("output_index")
        at = index if isinstance(index, int) else -1
        match kind:
            case "response.output_item.added":
                self._items[at] = dict(mapping(said.get("item")))
            case "response.output_item.done":
                # Only here reasoning is whole.
                self._items[at] = dict(mapping(said.get("item")))
                self._done.add(at)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                self._fragments.setdefault(at, []).append(text(said.get("delta")))
            case "response.function_call_arguments.done" if at in self._items:
                self._items[at]["arguments"] = text(said.get("arguments"))
                self._done.add(at)
            case "response.custom_tool_call_input.done" if at in self._items:
                self._items[at]["input"] = text(said.get("input"))
                self._done.add(at)
            case "error":
                self._response["error"] = {"code": said.get("code")}
            case "response.created":
                self._response = dict(mapping(said.get("response")))
            case _ if kind in _ENDS:
                self._response = dict(mapping(said.get("response")))
                self._ended = True
            case _:
                pass

    def turn(self, context: DecodeContext) -> Turn:
        """See `Stream`."""
        output = objects(self._response.get("output"))
        unfinished: set[int] = set()
        if not self._ended or not output:
            output, unfinished = self._so_far()
        response = {**self._response, "output": list[JsonValue](output)}
        return self._read(
            response, context, unfinished=frozenset(unfinished), is_cut=not self._ended
        )

    def _so_far(self) -> tuple[list[JsonObject], set[int]]:
        """Return the items that came, and which calls among them have no end."""
        output: list[JsonObject] = []
        unfinished: set[int] = set()
        lost_thought = False
        for index in sorted(self._items):
            item = dict(self._items[index])
            if index not in self._done:
                if "call_id" not in item:
                    lost_thought |= item.get("type") == "reasoning"
                    continue
                unfinished.add(len(output))
                key = "input" if item.get("type") == "custom_tool_call" else "arguments"
                if isinstance(item.get(key), str):
                    item[key] = joined(self._fragments.get(index, []))
            output.append(item)
        if lost_thought:
            # A call is refused without the reasoning it came from, unless it has no id either.
            output = [
                {key: value for key, value in item.items() if key != "id"}
                for item in output
                if item.get("type") != "reasoning"
            ]
        return output, unfinished
