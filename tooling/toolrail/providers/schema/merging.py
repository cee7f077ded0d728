"""Say in one schema what two say together, wider where one cannot.

Is: the conjunction of two normalised schemas. Is not: `allOf` that a provider understands as it is.
Above: `normal.py`, `roots.py`, `fit.py`. Below: `notes.py`.

Whatever fits both schemas fits the merged one; the reverse is noted where it does not hold.
"""

from collections.abc import Callable
from itertools import chain

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Schema
from toolrail.providers.schema.notes import Notes, describe

_GROUPS = (
    ("prefixItems", "items"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
)
"""Keywords that only mean something together."""
_TOLD = frozenset({"title", "default", "examples", "deprecated", "readOnly", "writeOnly"})
_LARGEST: dict[str, Callable[[float, float], float]] = {
    "minimum": max,
    "minLength": max,
    "minItems": max,
    "minProperties": max,
    "maximum": min,
    "maxLength": min,
    "maxItems": min,
    "maxProperties": min,
}


def merged(one: Schema, two: Schema, path: str, notes: Notes) -> Schema:
    """Return a schema that holds what both hold; neither is changed."""
    out = dict(one)
    apart: list[JsonValue] = []
    done = {"allOf"}
    for group in _GROUPS:
        done.update(group)
        theirs = {key: two[key] for key in group if key in two}
        ours = {key: one[key] for key in group if key in one}
        if theirs and ours and theirs != ours:
            apart.append(theirs)
        else:
            out.update(theirs)
    for key, value in two.items():
        if key not in done and not _merge_keyword(out, key, value, two, path, notes):
            apart.append({key: value})
    both = [*_list(one.get("allOf")), *_list(two.get("allOf")), *apart]
    if both:
        out["allOf"] = both
    return out


def _merge_keyword(
    out: Schema, key: str, value: JsonValue, two: Schema, path: str, notes: Notes
) -> bool:
    """Whether the keyword of the second schema found its place in `out`."""
    if key not in out:
        if key == "additionalProperties":
            # What the first declares is not checked against it.
            _note_if_declared(out, two, value, path, notes)
        out[key] = value
        return True
    ours = out[key]
    if ours == value or key in _TOLD:
        return True
    match key, ours, value:
        case "description", str(), str():
            describe(out, value)
        case "properties", dict(), dict():
            out[key] = _properties(ours, value, path, notes)
        case "required", list(), list():
            out[key] = list(dict.fromkeys(name for name in chain(ours, value)))
        case "additionalProperties", _, _:
            _note_if_declared(out, two, value, path, notes)
            out[key] = _rest(ours, value, path, notes)
        case _, int() | float(), int() | float() if key in _LARGEST:
            out[key] = _LARGEST[key](ours, value)
        case _:
            return False
    return True


def _properties(ours: Schema, theirs: Schema, path: str, notes: Notes) -> Schema:
    out = dict(ours)
    for name, value in theirs.items():
        before = out.get(name)
        if isinstance(before, dict) and isinstance(value, dict) and before != value:
            out[name] = merged(before, value, f"{path}/properties/{name}", notes)
        else:
            out[name] = value
    return out


def _rest(ours: JsonValue, theirs: JsonValue, path: str, notes: Notes) -> JsonValue:
    if theirs is True:
        return ours
    if ours is True or theirs is False:
        return theirs
    if ours is not False:
        notes.limit(path, "additionalProperties")
    return ours


def _note_if_declared(
    ours: Schema, theirs: Schema, rest: JsonValue, path: str, notes: Notes
) -> None:
    mine, other = ours.get("properties"), theirs.get("properties")
    names = set(mine if isinstance(mine, dict) else ()) ^ set(
        other if isinstance(other, dict) else ()
    )
    if names and rest is not True:
        notes.limit(path, "additionalProperties")


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
