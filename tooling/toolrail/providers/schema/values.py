"""Fit what a schema says of a value itself: its types, its choices, its text.

Is: the parts of the third step that look at one node only. Is not: the walk (`fit.py`).
Above: `fit.py`. Below: `dialects.py`, `notes.py`.
"""

import re
from functools import lru_cache

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Schema
from toolrail.providers.schema.dialects import Dialect
from toolrail.providers.schema.notes import Notes

_LOOK_AROUND = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:=|!|<=|<!)")
OBJECT_ONLY = (
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "minProperties",
    "maxProperties",
)
ARRAY_ONLY = (
    "items",
    "prefixItems",
    "uniqueItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
)
_STRING_ONLY = ("format", "pattern", "minLength", "maxLength")
_NUMBER_ONLY = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_TYPE: dict[str, tuple[str, ...]] = {
    "object": OBJECT_ONLY,
    "array": ARRAY_ONLY,
    "string": _STRING_ONLY,
    "integer": _NUMBER_ONLY,
    "number": _NUMBER_ONLY,
}
_EVERY_TYPE = ("title", "description", "default", "examples")


def types_of(node: Schema) -> list[str]:
    """Return the types a node names; none when it takes any."""
    kind = node.get("type")
    if isinstance(kind, str):
        return [kind]
    return [name for name in kind if isinstance(name, str)] if isinstance(kind, list) else []


def type_of(value: JsonValue) -> str:
    """Return the JSON type of a value; a whole number is an integer."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"


def drop_inert(node: Schema) -> None:
    """Keywords that cannot apply to any type the node names are gone; nothing is lost by that."""
    types = types_of(node)
    if not types:
        return
    if "object" not in types:
        for key in OBJECT_ONLY:
            node.pop(key, None)
    if "array" not in types:
        for key in ARRAY_ONLY:
            node.pop(key, None)


def infer_type(node: Schema, dialect: Dialect, path: str, notes: Notes) -> None:
    """A node without a type gets the one it means, where the dialect needs one."""
    if "type" in node:
        return
    if isinstance(choices := node.get("enum"), list) and choices:
        kinds = list(dict.fromkeys(type_of(value) for value in choices))
        node["type"] = kinds[0] if len(kinds) == 1 else list[JsonValue](kinds)
    elif dialect.typed and "properties" in node:
        node["type"] = "object"
        notes.narrowed(path, "type")
    elif dialect.typed and ("items" in node or "prefixItems" in node):
        node["type"] = "array"
        notes.narrowed(path, "type")


def split_types(node: Schema, dialect: Dialect) -> Schema:
    """Return the node with a list of types as alternatives, where the dialect wants one type."""
    types = types_of(node)
    structured = "object" in types or "array" in types
    wanted = dialect.type_lists == "none" or (dialect.type_lists == "scalars" and structured)
    if not isinstance(node.get("type"), list) or not wanted:
        return node
    shared = {key: node[key] for key in _EVERY_TYPE if key in node}
    others = {
        key: value
        for key, value in node.items()
        if key not in shared
        and key not in ("type", "enum")
        and not any(key in own for own in _OF_TYPE.values())
    }
    alternatives = [inner for kind in types if (inner := _of_one_type(node, kind)) is not None]
    if not alternatives:
        return {"not": {}}
    if len(alternatives) == 1 and "anyOf" not in others:
        return {**shared, **others, **alternatives[0]}
    if "anyOf" in others:
        kinds: Schema = {"anyOf": list[JsonValue](alternatives)}
        return {**shared, **others, "allOf": [*_list(others.get("allOf")), kinds]}
    return {**shared, **others, "anyOf": list[JsonValue](alternatives)}


def _of_one_type(node: Schema, kind: str) -> Schema | None:
    one: Schema = {"type": kind}
    one.update({key: node[key] for key in _OF_TYPE.get(kind, ()) if key in node})
    if "enum" not in node:
        return one
    choices = [value for value in _list(node["enum"]) if _is_of(value, kind)]
    if not choices:
        return None
    if kind != "null":
        one["enum"] = choices
    return one


def _is_of(value: JsonValue, kind: str) -> bool:
    found = type_of(value)
    return found == kind or (kind == "number" and found == "integer")


def fit_enum(node: Schema, dialect: Dialect, path: str, notes: Notes) -> None:
    """Choices that the dialect cannot list are told."""
    choices = node.get("enum")
    if not isinstance(choices, list):
        return
    too_many = dialect.enum_max is not None and len(choices) > dialect.enum_max
    plain = node.get("type") == "string" and all(isinstance(v, str) and v for v in choices)
    if too_many or (dialect.enums == "strings" and not plain):
        notes.move(node, path, ["enum"])


def fit_text(node: Schema, dialect: Dialect, path: str, notes: Notes) -> None:
    """Patterns and formats that the dialect does not know are told."""
    pattern = node.get("pattern")
    if pattern is not None and not (
        isinstance(pattern, str) and takes_pattern(pattern, dialect.patterns)
    ):
        notes.move(node, path, ["pattern"])
    if "format" in node and dialect.formats is not None and node["format"] not in dialect.formats:
        notes.move(node, path, ["format"])


@lru_cache(maxsize=1024)
def takes_pattern(pattern: str, level: str) -> bool:
    """Whether a pattern may be sent; one that Python cannot read is not sent anywhere."""
    if level == "none" or (level == "plain" and _LOOK_AROUND.search(pattern)):
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def nullable(node: Schema) -> Schema:
    """Return the node with null added to what it takes."""
    if isinstance(several := node.get("anyOf"), list):
        if any(isinstance(inner, dict) and inner.get("type") == "null" for inner in several):
            return node
        return {**node, "anyOf": [*several, {"type": "null"}]}
    types = types_of(node)
    if "null" in types:
        return node
    if not types or "object" in types or "array" in types:
        return {"anyOf": [node, {"type": "null"}]}
    more: Schema = {"enum": [*_list(node["enum"]), None]} if "enum" in node else {}
    return {**node, "type": [*types, "null"], **more}


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
