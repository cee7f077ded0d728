"""Put a streamed answer of Gemini together from its chunks.

Is: parts in order, and Vertex's arguments that come path by path. Is not: what a part means
(`gemini.py`). Above: `gemini.py`. Below: `wire.py`. Source: providers.md 1.4 and the rulings in 2.
"""

import re
from itertools import pairwise

from pydantic import JsonValue

from toolrail.providers.decoding import DecodeContext, Reader
from toolrail.providers.turn import Turn
from toolrail.providers.wire import event_of, mapping, objects, text
from toolrail_schemas import JsonObject

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_INDEX_MAX = 100_000
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class GeminiStream:
    """Puts a streamed answer together; see `Stream`. Only the first candidate is read."""

    def __init__(self, read: Reader) -> None:
        self._read = read
        self._response: JsonObject = {}
        self._candidate: JsonObject = {}
        self._parts: list[JsonObject] = []
        self._growing: int | None = None
        self._ended_calls: set[int] = set()

    def feed(self, event: object) -> None:
        """See `Stream`."""
        chunk = event_of(event)
        candidates = objects(chunk.pop("candidates", None))
        self._response.update(chunk)
        for candidate in candidates[:1]:
            for part in objects(mapping(candidate.pop("content", None)).get("parts")):
                self._add(dict(part))
            self._candidate.update({k: v for k, v in candidate.items() if v is not None})

    def _add(self, part: JsonObject) -> None:
        if "functionCall" in part:
            self._call(part, dict(mapping(part["functionCall"])))
        elif set(part) <= {"text", "thought"} and self._parts:
            last = self._parts[-1]
            if set(last) == set(part) and last.get("thought") == part.get("thought"):
                last["text"] = text(last.get("text")) + text(part.get("text"))
                return
            self._parts.append(part)
        else:
            self._parts.append(part)

    def _call(self, part: JsonObject, call: JsonObject) -> None:
        """A call, or the next piece of one whose arguments come path by path."""
        pieces = objects(call.pop("partialArgs", None))
        goes_on = call.pop("willContinue", None) is True
        if self._growing is None or call.get("name"):
            self._growing = len(self._parts)
            self._parts.append({**part, "functionCall": call})
            is_partial = bool(pieces) or goes_on
        else:
            is_partial = True
        grown = mapping(self._parts[self._growing]["functionCall"])
        if pieces:
            arguments = mapping(grown.get("args"))
            grown["args"] = arguments
            for piece in pieces:
                _put(arguments, piece)
        if not goes_on:
            if is_partial:
                self._ended_calls.add(self._growing)
            self._growing = None

    def turn(self, context: DecodeContext) -> Turn:
        """See `Stream`."""
        is_cut = not self._candidate.get("finishReason") and "promptFeedback" not in self._response
        unfinished = {
            at
            for at, part in enumerate(self._parts)
            if "functionCall" in part and at not in self._ended_calls and is_cut
        }
        if self._growing is not None:
            unfinished.add(self._growing)
        parts = list[JsonValue](self._parts)
        candidate: JsonObject = {**self._candidate, "content": {"role": "model", "parts": parts}}
        response: JsonObject = {**self._response, "candidates": [candidate]}
        return self._read(response, context, unfinished=frozenset(unfinished), is_cut=is_cut)


def _put(arguments: JsonObject, piece: JsonObject) -> None:
    """The piece's value stands at its path; text is added to text that goes on."""
    steps = _steps(text(piece.get("jsonPath")))
    kind = next((key for key in _VALUES if key in piece), None)
    if not steps or kind is None:
        return
    value = None if kind == "nullValue" else piece[kind]
    node: JsonValue = arguments
    for step, following in pairwise(steps):
        empty: JsonValue = {} if isinstance(following, str) else []
        node = _step(node, step, empty)
    before = _step(node, steps[-1], None)
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    match node, steps[-1]:
        case dict(), str(name):
            node[name] = value
        case list(), int(at) if at < len(node):
            node[at] = value
        case _:
            pass


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    for match in _STEP.finditer(path.removeprefix("$")):
        name, index, quoted, double = match.groups()
        steps.append(int(index) if index is not None else name or quoted or double or "")
    return steps


def _step(node: JsonValue, step: str | int, empty: JsonValue) -> JsonValue:
    """Return what stands at a step, after putting `empty` there if nothing does."""
    if isinstance(node, dict) and isinstance(step, str):
        if node.get(step) is None:
            node[step] = empty
        return node[step]
    if isinstance(node, list) and isinstance(step, int) and step < _INDEX_MAX:
        node.extend([None] * (step + 1 - len(node)))
        if node[step] is None:
            node[step] = empty
        return node[step]
    return None
