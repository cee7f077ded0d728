"""Put a streamed interaction of Gemini together from its raw events.

Is: steps by index, and which of them had an end. Is not: what a step means
(`gemini_interactions.py`). Above: `gemini_interactions.py`. Below: `wire.py`.
"""

from pydantic import JsonValue

from toolrail.providers.decoding import DecodeContext, Reader
from toolrail.providers.turn import Turn
from toolrail.providers.wire import event_of, joined, mapping, objects, text
from toolrail_schemas import JsonObject


class InteractionsStream:
    """Puts a streamed interaction together; see `Stream`."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._interaction: JsonObject = {}
        self._steps: dict[int, JsonObject] = {}
        self._arguments: dict[int, list[str]] = {}
        self._open: set[int] = set()
        self._ended = False

    def feed(self, event: object) -> None:
        """See `Stream`."""
        said = event_of(event)
        index = said.get("index")
        at = index if isinstance(index, int) else -1
        match said.get("event_type"):
            case "interaction.created":
                self._interaction = dict(mapping(said.get("interaction")))
            case "interaction.completed":
                self._interaction.update(mapping(said.get("interaction")))
                self._ended = True
            case "step.start":
                self._steps[at] = dict(mapping(said.get("step")))
                self._open.add(at)
            case "step.delta" if at in self._steps:
                self._delta(at, self._steps[at], mapping(said.get("delta")))
            case "step.stop":
                self._open.discard(at)
            case "error":
                self._interaction["status"] = "failed"
            case _:
                pass

    def _delta(self, at: int, step: JsonObject, delta: JsonObject) -> None:
        match delta.get("type"):
            case "arguments_delta":
                self._arguments.setdefault(at, []).append(text(delta.get("arguments")))
            case "thought_signature":
                step["signature"] = text(step.get("signature")) + text(delta.get("signature"))
            case "thought_summary":
                summary = step.get("summary")
                known = summary if isinstance(summary, list) else []
                step["summary"] = [*known, delta.get("content")]
            case "text":
                content = objects(step.get("content"))
                if content and content[-1].get("type") == "text":
                    last = content[-1]
                    content[-1] = {**last, "text": text(last.get("text")) + text(delta.get("text"))}
                else:
                    content.append({"type": "text", "text": text(delta.get("text"))})
                step["content"] = list[JsonValue](content)
            case _:
                # Steps of the provider's own tools come field by field.
                step.update({key: value for key, value in delta.items() if key != "type"})

    def turn(self, context: DecodeContext) -> Turn:
        """See `Stream`."""
        steps: list[JsonValue] = []
        unfinished: set[int] = set()
        for index in sorted(self._steps):
            step = dict(self._steps[index])
            if index in self._arguments:
                step["arguments"] = joined(self._arguments[index])
            if index in self._open and not self._ended:
                if "arguments" not in step:
                    # Half of a thought has no signature.
                    continue
                unfinished.add(len(steps))
            steps.append(step)
        response: JsonObject = {**self._interaction, "steps": steps}
        return self._read(
            response, context, unfinished=frozenset(unfinished), is_cut=not self._ended
        )
