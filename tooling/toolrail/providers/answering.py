"""Pair a turn's calls with their results, and say what the search among them found.

Is: one result for each call, whatever was dispatched. Is not: any provider's format. Above:
providers. Below: `turn.py`, `toolbox.py`.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from toolrail.providers.toolbox import SEARCH, ToolBox
from toolrail.providers.turn import Call, Turn
from toolrail_schemas import JsonObject, ToolResult

WITHHELD = "The call has no result. Call again if it is still needed."


def answered(turn: Turn, results: Sequence[ToolResult]) -> list[tuple[Call, ToolResult]]:
    """Return every call with its result, in the order of the calls.

    A call that nobody answered gets an error: providers refuse a turn with an open call.
    """
    by_id = {result.call_id: result for result in results}
    return [
        (call, by_id.get(call.request.id) or call.problem or _lost(call)) for call in turn.calls
    ]


def _lost(call: Call) -> ToolResult:
    return ToolResult.failure(
        call.request.id, call.request.name, code="tool.cancelled", text=WITHHELD
    )


def spelled(result: ToolResult, text: str, tools: ToolBox | None) -> str:
    """Return the text of an argument error with the keys that the model sees, where they differ."""
    codec = tools.codecs.get(result.name) if tools else None
    if codec is None or not codec.keys or result.error_code != "tool.invalid_arguments":
        return text
    pairs = [f"{own!r} is {wire}" for wire, own in sorted(codec.keys.items()) if own in text]
    return f"{text} In your schema: {', '.join(pairs)}." if pairs else text


def revealed(result: ToolResult, tools: ToolBox | None) -> list[str]:
    """Return the canonical names that a search found, of tools declared in the request."""
    if result.name != SEARCH or result.is_error or tools is None:
        return []
    found = result.structured if isinstance(result.structured, Mapping) else {}
    names = [_name(item) for key in ("tools", "loaded") for item in _items(found, key)]
    canonical = [tools.names.find(name)[0] for name in names if name]
    return list(dict.fromkeys(name for name in canonical if name and name in tools.codecs))


def _items(found: Mapping[str, JsonValue], key: str) -> list[JsonValue]:
    value = found.get(key)
    return value if isinstance(value, list) else []


def _name(item: JsonValue) -> str:
    name = item.get("name") if isinstance(item, dict) else item
    return name if isinstance(name, str) else ""


def own_arguments(call: Call, tools: ToolBox | None) -> JsonObject:
    """Return a call's arguments as the tools of this request spell them."""
    arguments = call.request.arguments
    if not isinstance(arguments, Mapping):
        return call.wire_arguments
    codec = tools.codecs.get(call.request.name) if tools else None
    return codec.to_wire(dict(arguments)) if codec else dict(arguments)
