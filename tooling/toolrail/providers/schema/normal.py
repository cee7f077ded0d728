"""Bring a schema of any draft to plain 2020-12 without references.

Is: the first step of adapting: local references inlined, cycles cut, vendor keywords dropped, and
nothing ever fetched. Is not: any provider's rules. Above: `adapting.py`. Below: `merging.py`,
`notes.py`, `toolrail.schema_marks`.

Only schema positions are looked at: a property that is called `$ref` is a property, and what stands
in `default`, `const`, `enum` and `examples` is data.
"""

import copy
from collections.abc import Callable

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Schema
from toolrail.providers.schema.merging import merged
from toolrail.providers.schema.notes import Notes, describe
from toolrail.schema_marks import resolve_local

NODES_MAX = 4000
"""A schema that inlines to more is opened where the budget ends."""
DEPTH_MAX = 40
MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas")
LIST_KEYWORDS = ("anyOf", "oneOf", "allOf", "prefixItems")
ONE_KEYWORDS = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_DATA_KEYWORDS = frozenset(
    {"type", "title", "description", "default", "examples", "enum", "const", "format", "pattern"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minContains"}
    | {"maxContains", "minProperties", "maxProperties", "required", "dependentRequired"}
    | {"deprecated", "readOnly", "writeOnly"}
)
_ANNOTATIONS = ("title", "description", "default", "examples")
_BOUND_OF = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_EXCLUSIVE_OF = {bound: exclusive for exclusive, bound in _BOUND_OF.items()}


class Normaliser:
    """Normalises one document."""

    def __init__(self, root: Schema, notes: Notes) -> None:
        self._root = root
        self._notes = notes
        self._nodes = 0
        self._readers: dict[str, Callable[[Schema, Schema, str, int], None]] = {
            "items": self._items,
            "dependencies": self._dependencies,
            "exclusiveMinimum": self._exclusive,
            "exclusiveMaximum": self._exclusive,
            "minimum": self._bound,
            "maximum": self._bound,
        }
        self._stack: tuple[str, ...] = ()

    def run(self) -> Schema:
        """Return the root, normalised."""
        return self._node(self._root, "", 0)

    def _node(self, node: JsonValue, path: str, depth: int) -> Schema:
        self._nodes += 1
        if node is True:
            return {}
        if node is False:
            return {"not": {}}
        if not isinstance(node, dict):
            self._notes.opened(path, "not a schema")
            return {}
        if self._nodes > NODES_MAX or depth > DEPTH_MAX:
            self._notes.opened(path, "too large")
            return {}
        ref = node.get("$ref")
        if isinstance(ref, str):
            return self._reference(ref, node, path, depth)
        return self._plain(node, path, depth)

    def _reference(self, ref: str, node: Schema, path: str, depth: int) -> Schema:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        target = resolve_local(self._root, ref)
        if ref in self._stack:
            self._notes.opened(path, f"recursion at {ref[:60]}")
            kind = target.get("type") if isinstance(target, dict) else None
            cut: Schema = {"type": kind} if isinstance(kind, str) else {}
            describe(cut, f"(recursive: the same shape as {ref[:60]})")
            return cut
        if not isinstance(target, dict | bool):
            self._notes.opened(path, f"unresolved $ref {ref[:60]}")
            return self._node(beside, path, depth)
        outer, self._stack = self._stack, (*self._stack, ref)
        found = self._node(target, path, depth + 1)
        self._stack = outer
        own = self._node(beside, path, depth + 1)
        said = {key: own.pop(key) for key in _ANNOTATIONS if key in own}
        return {**(merged(found, own, path, self._notes) if own else found), **said}

    def _plain(self, node: Schema, path: str, depth: int) -> Schema:
        out: Schema = {}
        for key, value in node.items():
            reader = self._readers.get(key)
            if reader is not None:
                reader(node, out, f"{path}/{key}", depth)
            elif key in MAP_KEYWORDS and isinstance(value, dict):
                out[key] = {
                    name: self._node(inner, f"{path}/{key}/{name}", depth + 1)
                    for name, inner in value.items()
                }
            elif key in LIST_KEYWORDS and isinstance(value, list):
                out[key] = self._list(value, f"{path}/{key}", depth)
            elif key == "additionalProperties" and isinstance(value, bool):
                out[key] = value
            elif key in ONE_KEYWORDS:
                out[key] = self._node(value, f"{path}/{key}", depth + 1)
            elif key in _DATA_KEYWORDS and not (key == "type" and value in ("", [])):
                out[key] = copy.deepcopy(value)
        return out

    def _list(self, nodes: list[JsonValue], path: str, depth: int) -> list[JsonValue]:
        return [self._node(inner, f"{path}/{at}", depth + 1) for at, inner in enumerate(nodes)]

    def _items(self, node: Schema, out: Schema, path: str, depth: int) -> None:
        """Before 2020-12 a tuple was a list in `items`."""
        items = node["items"]
        if not isinstance(items, list):
            out["items"] = self._node(items, path, depth + 1)
            return
        out["prefixItems"] = self._list(items, path, depth)
        rest = node.get("additionalItems")
        if rest is not None and rest is not True:
            out["items"] = self._node(rest, path, depth + 1)

    def _dependencies(self, node: Schema, out: Schema, path: str, depth: int) -> None:
        """Split in two since 2019-09."""
        value = node["dependencies"]
        required: Schema = {}
        schemas: Schema = {}
        for name, needed in value.items() if isinstance(value, dict) else ():
            if isinstance(needed, list):
                required[name] = needed
            else:
                schemas[name] = self._node(needed, f"{path}/{name}", depth + 1)
        if required:
            out["dependentRequired"] = required
        if schemas:
            out["dependentSchemas"] = schemas

    def _exclusive(self, node: Schema, out: Schema, path: str, depth: int) -> None:
        """In draft 4 a flag beside the bound, since then the bound itself."""
        del depth
        key = path.rsplit("/", 1)[1]
        value = node[key]
        if not isinstance(value, bool):
            out[key] = value
        elif value and (bound := _BOUND_OF[key]) in node:
            out[key] = node[bound]

    def _bound(self, node: Schema, out: Schema, path: str, depth: int) -> None:
        """A bound whose flag made it exclusive does not stand beside that."""
        del depth
        key = path.rsplit("/", 1)[1]
        if node.get(_EXCLUSIVE_OF[key]) is not True:
            out[key] = node[key]
