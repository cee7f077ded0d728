"""Say what an API would refuse of an adapted schema, as far as it is documented or was reported.

Is: the rules of providers.md 1.2 to 1.4 as an offline check, written apart from the adapter so that
the two can disagree. Is not: proof that a live API accepts. Above: the schema tests. Below:
jsonschema-rs for the meta-schema.
"""

import re
from collections.abc import Iterator

import jsonschema_rs
from pydantic import JsonValue

Schema = dict[str, JsonValue]

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ONES = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_MORE_ONES = ("propertyNames", "unevaluatedItems", "unevaluatedProperties", "additionalItems")
_KEYS = {
    "anthropic": re.compile(r"[a-zA-Z0-9_.-]{1,64}\Z"),
    "gemini": re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}\Z"),
}
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_GEMINI_FORMATS = {"date-time", "date", "time", "int32", "int64", "float", "double"}
_GEMINI_KEYWORDS = (
    {"$defs", "$ref", "type", "format", "title", "description", "enum", "items", "prefixItems"}
    | {"minItems", "maxItems", "minimum", "maximum", "anyOf", "properties", "required"}
    | {"additionalProperties", "propertyOrdering"}
)
_LOOK_AROUND = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:=|!|<=|<!)")
_STRICT_FORBIDS = (
    {"oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"}
    | {"patternProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"}
    | {"minProperties", "maxProperties", "uniqueItems", "contains", "minContains", "maxContains"}
)
_ANTHROPIC_STRICT_FORBIDS = {
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
} | {"maxLength", "maxItems", "prefixItems"}
_ROOT_FORBIDS = ("anyOf", "oneOf", "allOf", "enum", "const", "not", "if", "$ref")
_VENDOR = {"$schema", "$id", "$comment", "nullable", "discriminator", "example"}


def refusals(schema: Schema, dialect: str) -> list[str]:
    """Return why the API would refuse the schema; empty when nothing is known against it.

    Args:
        schema: As it would be sent.
        dialect: `openai`, `anthropic` or `gemini`, the first two also with `_strict`.
    """
    found: list[str] = []
    if not jsonschema_rs.meta.is_valid(schema):
        found.append("not valid 2020-12")
    if schema.get("type") != "object" or "properties" not in schema:
        found.append("the root is not an object with properties")
    found += [f"root {key}" for key in _ROOT_FORBIDS if key in schema]
    base = dialect.removesuffix("_strict")
    for path, node, depth in nodes(schema):
        if isinstance(node, bool):
            if base == "gemini" or dialect.endswith("_strict"):
                found.append(f"{path}: boolean schema")
        elif isinstance(node, dict):
            problems = [*_of_any(node, base), *_of_gemini(node, depth, base)]
            if dialect.endswith("_strict"):
                problems += _of_strict(node, depth, base)
            found += [f"{path}: {problem}" for problem in problems]
    return found


def nodes(
    schema: JsonValue, path: str = "", depth: int = 0
) -> Iterator[tuple[str, JsonValue, int]]:
    """Yield path, node and object depth of every schema position, of nothing else."""
    yield path, schema, depth
    if not isinstance(schema, dict):
        return
    below = depth + ("properties" in schema or schema.get("type") == "object")
    for key in _MAPS:
        inner = schema.get(key)
        for name, value in inner.items() if isinstance(inner, dict) else ():
            yield from nodes(value, f"{path}/{key}/{name}", below)
    for key in (*_LISTS, "items"):
        inner = schema.get(key)
        for at, value in enumerate(inner if isinstance(inner, list) else ()):
            yield from nodes(value, f"{path}/{key}/{at}", below)
    for key in (*_ONES, *_MORE_ONES):
        if isinstance(inner := schema.get(key), dict):
            yield from nodes(inner, f"{path}/{key}", below)


def _of_any(node: Schema, base: str) -> Iterator[str]:
    if "$ref" in node:
        yield "$ref"
    kinds = node.get("type")
    if base != "anthropic" and kinds == "array" and "items" not in node:
        yield "array without items"
    patterns = [node["pattern"]] if isinstance(node.get("pattern"), str) else []
    patterns += list(_mapping(node.get("patternProperties")))
    if base == "openai":
        yield from (f"pattern {pattern}" for pattern in patterns if not _is_plain(pattern))
    allowed = _KEYS.get(base)
    for name in _mapping(node.get("properties")):
        if allowed is not None and not allowed.match(name):
            yield f"property key {name[:30]!r}"
    yield from (f"vendor keyword {key}" for key in node if key.startswith("x-") or key in _VENDOR)


def _is_plain(pattern: JsonValue) -> bool:
    if not isinstance(pattern, str) or _LOOK_AROUND.search(pattern):
        return False
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _of_gemini(node: Schema, depth: int, base: str) -> Iterator[str]:
    if base != "gemini":
        return
    yield from (f"unsupported keyword {key}" for key in set(node) - _GEMINI_KEYWORDS)
    kind, choices = node.get("type"), node.get("enum")
    if isinstance(kind, list):
        yield "type list"
    if choices is not None and not (
        kind == "string"
        and isinstance(choices, list)
        and all(isinstance(v, str) and v for v in choices)
    ):
        yield "enum of other than non-empty strings"
    required = node.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in _mapping(node.get("properties")):
            yield f"required {name!r} is not defined"
    if kind not in (None, "object") and ("properties" in node or "required" in node):
        yield "properties of other than an object"
    if "format" in node and node["format"] not in _GEMINI_FORMATS:
        yield f"format {node['format']}"
    if depth > 10:
        yield "nesting"


def _of_strict(node: Schema, depth: int, base: str) -> Iterator[str]:
    kind = node.get("type")
    if "properties" in node or kind == "object" or (isinstance(kind, list) and "object" in kind):
        if node.get("additionalProperties") is not False:
            yield "object is not closed"
        required = node.get("required")
        names = set(required) if isinstance(required, list) else set[JsonValue]()
        if base == "openai" and names != set(_mapping(node.get("properties"))):
            yield "not every property is required"
    yield from (f"strict forbids {key}" for key in _STRICT_FORBIDS & set(node))
    formats = _FORMATS if base == "openai" else _FORMATS | {"uri"}
    if "format" in node and node["format"] not in formats:
        yield f"format {node['format']}"
    if base == "openai":
        yield from (f"strict forbids {key}" for key in ("allOf", "default") if key in node)
        if depth > 10:
            yield "nesting"
        if kind == "array" and not node.get("items"):
            yield "untyped items"
    else:
        yield from (f"strict forbids {key}" for key in _ANTHROPIC_STRICT_FORBIDS & set(node))
        if node.get("minItems", 0) not in (0, 1):
            yield "minItems above 1"
    if not any(key in node for key in ("type", "anyOf", "enum", "const")):
        yield "untyped"


def _mapping(value: JsonValue) -> Schema:
    return value if isinstance(value, dict) else {}
