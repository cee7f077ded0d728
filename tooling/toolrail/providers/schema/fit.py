"""Rewrite a normalised schema node by node until one provider's API takes it.

Is: the third step of adapting: the walk, and what a dialect wants of objects, arrays and
alternatives. Is not: which dialect wants what (`dialects.py`). Above: `adapting.py`. Below:
`values.py`, `merging.py`, `notes.py`.

Parts are only ever widened. A keyword under which a wider part would make the whole stricter
(`not`, `if`, `oneOf`, ...) is therefore never sent in part: it is told, and we check it.
"""

import base64
import hashlib
import re

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Schema
from toolrail.providers.schema.dialects import Dialect
from toolrail.providers.schema.merging import merged
from toolrail.providers.schema.notes import Notes, describe, shown
from toolrail.providers.schema.values import (
    OBJECT_ONLY,
    drop_inert,
    fit_enum,
    fit_text,
    infer_type,
    nullable,
    split_types,
    takes_pattern,
    types_of,
)

_NEVER_IN_PART = (
    "if",
    "then",
    "else",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "dependentSchemas",
)
_SCALAR_TESTS = frozenset({"type", "const", "enum"})
_NEVER: Schema = {"not": {}}
_FOREIGN = re.compile(r"[^A-Za-z0-9]+")
_KEY_STEM_CHARS = 48
_KEY_HASH_CHARS = 12


class Fitter:
    """Fits one normalised schema to one dialect."""

    def __init__(self, dialect: Dialect, notes: Notes) -> None:
        self._dialect = dialect
        self._notes = notes
        self.keys: dict[str, str] = {}
        """Property names that had to be respelled: new to old."""
        self._properties = 0

    def run(self, root: Schema) -> Schema:
        """Return the root as the dialect takes it."""
        fitted = self._node(root, "", 0)
        fitted.pop("title", None)
        fitted.setdefault("properties", {})
        most = self._dialect.properties_max
        if most is not None and self._properties > most:
            self._notes.opened("", f"more than {most} properties")
        return fitted

    def _node(self, node: Schema, path: str, depth: int) -> Schema:
        if node == _NEVER:
            return self._never(path)
        node = self._merge_parts(dict(node), path)
        self._tell_what_is_not_monotone(node, path)
        self._fit_patterned(node, path)
        if "const" in node and not self._dialect.const:
            node["enum"] = [node.pop("const")]
        infer_type(node, self._dialect, path, self._notes)
        drop_inert(node)
        split = split_types(node, self._dialect)
        if split == _NEVER:
            return self._never(path)
        if split is not node:
            node = self._merge_parts(split, path)
        fit_enum(node, self._dialect, path, self._notes)
        fit_text(node, self._dialect, path, self._notes)
        self._tell_what_is_refused(node, path)
        types = types_of(node)
        if "array" in types or (not types and ("items" in node or "prefixItems" in node)):
            self._array(node, path)
        if "object" in types or (not types and any(key in node for key in OBJECT_ONLY)):
            self._object(node, path, depth)
        self._check_typed(node, path)
        self._inner(node, path, depth)
        return node

    def _never(self, path: str) -> Schema:
        if self._dialect.booleans:
            return dict(_NEVER)
        self._notes.opened(path, "never")
        return {"type": "null", "description": "(never: omit)"}

    def _merge_parts(self, node: Schema, path: str) -> Schema:
        if self._dialect.all_of:
            return node
        for _ in range(8):
            parts = node.pop("allOf", None)
            if not isinstance(parts, list):
                return node
            for part in parts:
                if isinstance(part, dict):
                    node = self._merge_part(node, part, path)
        if "allOf" in node:
            self._notes.move(node, path, ["allOf"])
            self._notes.opened(path, "allOf")
        return node

    def _merge_part(self, node: Schema, part: Schema, path: str) -> Schema:
        rest = part.get("allOf")
        both = merged(node, {k: v for k, v in part.items() if k != "allOf"}, path, self._notes)
        left = both.pop("allOf", None)
        if isinstance(left, list) and left:
            # Two alternatives, or two values of one keyword, that one schema cannot say at once.
            self._notes.opened(path, "allOf")
            describe(both, f"(and: {shown(left)})")
        if isinstance(rest, list):
            both["allOf"] = rest
        return both

    def _tell_what_is_not_monotone(self, node: Schema, path: str) -> None:
        excluded = node.get("not")
        if excluded is not None and excluded != {} and not _is_scalar_test(excluded):
            self._notes.move(node, path, ["not"])
        self._notes.move(node, path, _NEVER_IN_PART)
        if "maxContains" in node:
            self._notes.move(node, path, ["contains", "minContains", "maxContains"])
        if "oneOf" in node:
            if "anyOf" in node:
                self._notes.move(node, path, ["oneOf"])
            else:
                node["anyOf"] = node.pop("oneOf")
                self._notes.limit(path, "oneOf")

    def _fit_patterned(self, node: Schema, path: str) -> None:
        """Keys by pattern: kept whole or not at all, since other keys depend on them."""
        patterns = node.get("patternProperties")
        if not isinstance(patterns, dict):
            return
        level = self._dialect.patterns
        if (
            self._dialect.pattern_properties
            and all(takes_pattern(pattern, level) for pattern in patterns)
            and all(self._key(name) == name for name in _mapping(node.get("properties")))
        ):
            return
        self._notes.move(node, path, ["patternProperties"])
        self._notes.opened(path, "patternProperties")
        node.pop("additionalProperties", None)

    def _tell_what_is_refused(self, node: Schema, path: str) -> None:
        self._notes.move(node, path, [key for key in self._dialect.described if key in node])
        for key in self._dialect.dropped:
            node.pop(key, None)
        least, most = node.get("minItems"), self._dialect.min_items_max
        if most is not None and isinstance(least, int) and least > most:
            self._notes.move(node, path, ["minItems"])

    def _array(self, node: Schema, path: str) -> None:
        first = node.get("prefixItems")
        if isinstance(first, list) and not self._dialect.tuples:
            self._open_tuple(node, first, path)
        if "items" not in node and "prefixItems" not in node:
            node["items"] = {}
        if node.get("items") == {} and self._dialect.is_strict:
            self._notes.opened(f"{path}/items", "untyped")

    def _open_tuple(self, node: Schema, first: list[JsonValue], path: str) -> None:
        del node["prefixItems"]
        rest = node.pop("items", {})
        kinds = [inner for at, inner in enumerate(first) if inner not in first[:at]]
        if rest == _NEVER:
            known = node.get("maxItems")
            node["maxItems"] = min(len(first), known if isinstance(known, int) else len(first))
        elif rest not in kinds:
            kinds.append(rest)
        if {} in kinds:
            node["items"] = {}
        else:
            node["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        describe(node, f"(tuple of {len(first)}: {shown(first)})")
        self._notes.opened(path, "prefixItems")
        if self._dialect.closed:
            self._tell_what_is_refused(node, path)

    def _object(self, node: Schema, path: str, depth: int) -> None:
        properties = node.get("properties")
        most = self._dialect.depth_max
        if most is not None and depth >= most and isinstance(properties, dict) and properties:
            self._notes.opened(path, "nesting")
            describe(node, f"(JSON object: {', '.join(properties)})")
            for key in ("properties", "required", "additionalProperties"):
                node.pop(key, None)
        self._close(node, path)
        properties = node.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        required = _names(node.get("required"))
        if self._dialect.known_required and (unknown := set(required) - set(properties)):
            required = [name for name in required if name not in unknown]
            self._notes.opened(path, f"required {sorted(unknown)[:5]}")
        node["required"] = [self._key(name) for name in required]
        if properties:
            node["properties"] = self._fit_properties(properties, set(required), path, depth)
        if self._dialect.all_required:
            node["required"] = list(_mapping(node.get("properties")))
        if not node["required"] and not self._dialect.all_required:
            del node["required"]
        dependent = node.get("dependentRequired")
        if isinstance(dependent, dict):
            node["dependentRequired"] = {
                self._key(name): [self._key(other) for other in _names(needed)]
                for name, needed in dependent.items()
            }

    def _close(self, node: Schema, path: str) -> None:
        if not self._dialect.closed:
            return
        rest = node.get("additionalProperties")
        # Without a word on other keys a list of properties is meant to be all of them.
        if rest is None:
            rest = not node.get("properties")
        if rest is not False:
            self._notes.narrowed(path, "additionalProperties")
        node["additionalProperties"] = False
        node.setdefault("properties", {})

    def _fit_properties(
        self, properties: Schema, required: set[str], path: str, depth: int
    ) -> Schema:
        fitted: Schema = {}
        for name, inner in properties.items():
            self._properties += 1
            if not isinstance(inner, dict):
                continue
            key = self._key(name)
            value = self._node(inner, f"{path}/properties/{key}", depth + 1)
            if self._dialect.all_required and name not in required:
                value = nullable(value)
            fitted[key] = value
        return fitted

    def _check_typed(self, node: Schema, path: str) -> None:
        if self._dialect.is_strict and not any(key in node for key in ("type", "anyOf", "enum")):
            self._notes.opened(path, "untyped")
            node["type"] = "string"
        if self._dialect.all_required and "anyOf" in node and "type" in node:
            self._notes.limit(path, "type")
            del node["type"]

    def _inner(self, node: Schema, path: str, depth: int) -> None:
        for keyword in ("anyOf", "allOf", "prefixItems"):
            several = node.get(keyword)
            if isinstance(several, list):
                below = depth + (keyword == "prefixItems")
                node[keyword] = [
                    self._node(inner, f"{path}/{keyword}/{at}", below)
                    for at, inner in enumerate(several)
                    if isinstance(inner, dict)
                ]
        for keyword in ("items", "additionalProperties", "contains"):
            inner = node.get(keyword)
            if isinstance(inner, dict) and inner:
                node[keyword] = self._node(inner, f"{path}/{keyword}", depth + 1)
        patterns = node.get("patternProperties")
        if isinstance(patterns, dict):
            node["patternProperties"] = {
                pattern: self._node(inner, f"{path}/patternProperties/{pattern}", depth + 1)
                for pattern, inner in patterns.items()
                if isinstance(inner, dict)
            }

    def _key(self, name: str) -> str:
        """Return what the model sees for a property; the same for a name everywhere."""
        if self._dialect.key.match(name) and "___" not in name:
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
        suffix = base64.b32encode(digest).decode("ascii").lower()[:_KEY_HASH_CHARS]
        stem = _FOREIGN.sub("_", name).strip("_")[:_KEY_STEM_CHARS]
        if not stem[:1].isalpha():
            stem = f"p_{stem}"[:_KEY_STEM_CHARS]
        key = f"{stem.rstrip('_')}___{suffix}"
        self.keys[key] = name
        return key


def _is_scalar_test(node: JsonValue) -> bool:
    return (
        isinstance(node, dict)
        and bool(node)
        and set(node) <= _SCALAR_TESTS
        and not isinstance(node.get("type"), list)
        and node.get("type") not in ("array", "object")
    )


def _names(value: JsonValue) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mapping(value: JsonValue) -> Schema:
    return value if isinstance(value, dict) else {}
