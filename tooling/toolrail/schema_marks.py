"""Find the secret arguments of a call: marked by the tool's JSON Schema, or named like one.

Is: `x-secret: true`, `format: password` and `writeOnly: true` on properties, at any depth, through
local `$ref`s and combinations. Is not: validation; when in doubt a value counts as marked.
Above: `redactor.py`, `redaction.py`. Below: `toolrail_schemas`.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Self

from pydantic import JsonValue

from toolrail_schemas import JsonObject, ToolSpec, canonical_json, is_secret_name

DEPTH_MAX = 64
"""Deeper values are redacted whole."""
NODES_MAX = 256
"""Sub-schemas that speak of one value; a schema that combines more marks everything."""
VALUES_MAX = 64
"""Secret values of one call that are looked for in what is said of it."""
VALUE_MIN_CHARS = 8
"""A shorter one stands in too many words, and a model chose it."""
INTEGER_MAX_BITS = 256

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
            yield resolve_local(root, reference)


def resolve_local(root: JsonObject, reference: str) -> JsonValue:
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


def secret_values(spec: ToolSpec, arguments: JsonObject) -> list[str]:
    """Return the values, as texts, that a mark or a name calls secret, 8 characters and longer."""
    if _has_marks(spec):
        marks = Marks.of(spec.input_schema)
    elif _has_secret_name(arguments):
        marks = _NOTHING
    else:
        return []
    return list(islice(_secrets_in(arguments, marks), VALUES_MAX))


def _has_secret_name(value: JsonValue, *, depth: int = 0) -> bool:
    """Return whether a name inside calls its value secret; the usual no costs little."""
    if depth > DEPTH_MAX:
        return True
    if isinstance(value, dict):
        if any(map(_is_named, value)):
            return True
        value = list(value.values())
    elif not isinstance(value, list):
        return False
    return any(
        _has_secret_name(inner, depth=depth + 1)
        for inner in value
        if isinstance(inner, list | dict)
    )


def _secrets_in(
    value: JsonValue, marks: Marks, *, is_secret: bool = False, depth: int = 0
) -> Iterator[str]:
    if depth > DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            its = marks.member(key)
            secret = is_secret or its.is_secret or _is_named(key)
            if secret or isinstance(inner, list | dict):
                yield from _secrets_in(inner, its, is_secret=secret, depth=depth + 1)
    elif isinstance(value, list):
        items = marks.items()
        for inner in value:
            secret = is_secret or items.is_secret
            yield from _secrets_in(inner, items, is_secret=secret, depth=depth + 1)
    elif is_secret and len(text := _text_of(value)) >= VALUE_MIN_CHARS:
        yield text


def _text_of(value: JsonValue) -> str:
    # Python refuses to print an integer of more than 4300 digits.
    is_long = isinstance(value, int) and value.bit_length() > INTEGER_MAX_BITS
    return "" if is_long else str(value)


@lru_cache(maxsize=4096)
def _is_named(key: str) -> bool:
    return is_secret_name(key)


def _has_marks(spec: ToolSpec) -> bool:
    known = _MARKED.get(spec.spec_hash)
    if known is None:
        if len(_MARKED) >= _MARKED_MAX:
            _MARKED.clear()
        text = canonical_json(spec.input_schema)
        known = any(word in text for word in (b'"x-secret"', b'"writeOnly"', b'"password"'))
        _MARKED[spec.spec_hash] = known
    return known


_MARKED: dict[str, bool] = {}
_MARKED_MAX = 4096
