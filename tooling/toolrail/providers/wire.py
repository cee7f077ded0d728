"""Read a provider's JSON without trusting its shape.

Is: small readers that give an empty value where the shape is wrong. Is not: any provider's format.
Above: every provider. Below: pydantic's `JsonValue`.
"""

import json
import re
from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from toolrail_schemas import JsonObject

_DATE = re.compile(r"[-@](?:latest|preview|\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}-\d{4})\Z")


def mapping(value: JsonValue) -> JsonObject:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list; other items are left out."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: JsonValue) -> str:
    """Return the value if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def family_of(model: str) -> str:
    """Return a model's name without its path and date: what signatures are taken to hold for."""
    name = model.rsplit("/", 1)[-1]
    while (shorter := _DATE.sub("", name)) != name:
        name = shorter
    return name


def joined(fragments: list[str]) -> str:
    """Return fragments of one text; a surrogate pair cut in two is whole again."""
    whole = "".join(fragments)
    if whole.isascii():
        return whole
    return whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def raw_response(response: object) -> JsonObject:
    """Return a provider's answer as its JSON: a dict, or an SDK's object that can say it.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(response, Mapping):
        return dict(cast("Mapping[str, JsonValue]", response))
    dump = getattr(response, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(response).__name__} is no response: pass its JSON as a dict.")
    dumped: JsonValue = dump(mode="json", by_alias=True, exclude_unset=True)
    return mapping(dumped)


END = "[DONE]"
"""The last event of some streams, which is no JSON."""


def event_of(event: object) -> JsonObject:
    """Return a stream's event as JSON: parsed, as text of a server-sent event, or an SDK's object.

    `[DONE]` becomes an event of that type; other text that is no JSON an empty event.
    """
    if not isinstance(event, str):
        return raw_response(event)
    if event.strip() == END:
        return {"type": END}
    try:
        parsed: JsonValue = json.loads(event)
    except ValueError:
        return {}
    return mapping(parsed)
