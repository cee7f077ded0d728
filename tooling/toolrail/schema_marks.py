"""Read which arguments a tool's JSON Schema marks as secret.

Is: `x-secret: true`, `format: password` and `writeOnly: true` on properties, at any depth, through
local `$ref`s and combinations. Is not: validation; when in doubt a value counts as marked.
Above: `redaction.py`. Below: `toolrail_schemas`.
"""

from collections.abc import Iterator, Sequence
from typing import Self

from pydantic import JsonValue

from toolrail_schemas import JsonObject

DEPTH_MAX = 64
"""Deeper values are redacted whole."""
NODES_MAX = 256
"""Sub-schemas that speak of one value; a schema that combines more marks everything."""

_SAME_VALUE = ("allOf", "anyOf", "oneOf")
_SAME_VALUE_ONE = ("if", "then", "else")
_ITEMS = ("items", "contains", "unevaluatedItems", "additionalItems")
_OTHERS = ("additionalProperties", "unevaluatedProperties")


class Marks:
    """All sub-schemas that speak of one value."""

    def __init__(self, root: JsonObject, nodes: Sequence[JsonValue]) -> None:
        self._root = root
        self._nodes, self._is_endless = _flatten(root, nodes)

    @classmethod
    def of(cls, schema: JsonObject) -> Self:
        """Return the marks of a value that has this schema."""
        return cls(schema, [schema])

    @classmethod
    def none(cls) -> Self:
        """Return the marks of a value without a schema."""
        return cls({}, [])

    @property
    def is_secret(self) -> bool:
        """Whether the value as a whole is marked."""
        return self._is_endless or any(map(_is_marked, self._nodes))

    def member(self, key: str) -> "Marks":
        """Return the marks of an object's member; what is inside of a secret is one."""
        if self.is_secret:
            return self
        found: list[JsonValue] = []
        for node in self._nodes:
            properties = node.get("properties")
            if isinstance(properties, dict) and key in properties:
                found.append(properties[key])
            else:
                found += [node[name] for name in _OTHERS if name in node]
            # A pattern comes from a stranger; it is never run here, so it may match every key.
            patterns = node.get("patternProperties")
            if isinstance(patterns, dict):
                found += patterns.values()
        return self._inner(found)

    def items(self) -> "Marks":
        """Return the marks of an array's items, all of them together."""
        if self.is_secret:
            return self
        found: list[JsonValue] = []
        for node in self._nodes:
            found += [node[name] for name in _ITEMS if name in node]
            for name in ("prefixItems", "items"):
                several = node.get(name)
                if isinstance(several, list):
                    found += several
        return self._inner(found)

    def _inner(self, nodes: list[JsonValue]) -> "Marks":
        return Marks(self._root, nodes) if nodes else _NOTHING


def _is_marked(node: JsonObject) -> bool:
    return (
        node.get("x-secret") is True
        or node.get("writeOnly") is True
        or node.get("format") == "password"
    )


def _flatten(root: JsonObject, nodes: Sequence[JsonValue]) -> tuple[list[JsonObject], bool]:
    """Return the schemas that speak of the same value as `nodes`, and whether they are too many."""
    flat: list[JsonObject] = []
    seen: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        if len(flat) >= NODES_MAX:
            return flat, True
        seen.add(id(node))
        flat.append(node)
        waiting.extend(_of_same_value(root, node))
    return flat, False


def _of_same_value(root: JsonObject, node: JsonObject) -> Iterator[JsonValue]:
    for name in _SAME_VALUE:
        several = node.get(name)
        if isinstance(several, list):
            yield from several
    yield from (node[name] for name in _SAME_VALUE_ONE if name in node)
    dependent = node.get("dependentSchemas")
    if isinstance(dependent, dict):
        yield from dependent.values()
    for name in ("$ref", "$dynamicRef"):
        reference = node.get(name)
        if isinstance(reference, str):
            yield _resolve(root, reference)


def _resolve(root: JsonObject, reference: str) -> JsonValue:
    """Return what a local reference points at; None when it leads nowhere in here."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return _by_anchor(root, reference[1:]) if reference.startswith("#") else None
    node: JsonValue = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node


def _by_anchor(root: JsonObject, anchor: str) -> JsonValue:
    definitions = root.get("$defs")
    for node in definitions.values() if isinstance(definitions, dict) else ():
        if isinstance(node, dict) and anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
            return node
    return None


_NOTHING = Marks({}, [])
