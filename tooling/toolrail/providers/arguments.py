"""Read the arguments of a call as a model wrote them, and mend what is only spelled wrong.

Is: text or object to a JSON object in the tool's own keys, with what was mended. Is not: the check
of the result; the dispatcher validates and answers what cannot be mended. Above: `decoding.py`.
Below: `toolrail.validation`, `toolbox.py`. Source: providers.md 3.3.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.errors import InvalidArguments
from toolrail.providers.toolbox import Codec
from toolrail.schema_marks import resolve_local
from toolrail.validation import ArgumentValidators, parse_arguments
from toolrail_schemas import JsonObject

INVALID = "INVALID_JSON"
"""The key under which text that was no JSON object goes back to a model. Source: Anthropic."""
DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Read:
    """Arguments as far as they could be read."""

    arguments: str | JsonObject
    """In the tool's keys; the model's own text when it is no JSON object."""
    wire: JsonObject
    """As they can be sent back to the model."""
    repairs: tuple[str, ...] = ()
    is_object: bool = True


def read_arguments(raw: JsonValue, codec: Codec | None, validators: ArgumentValidators) -> Read:
    """Return what a model wrote as arguments.

    Args:
        raw: JSON text or a value already parsed.
        codec: How the tool's schema was respelled; None for an unknown tool.
        validators: Of this process.
    """
    repairs: list[str] = []
    try:
        parsed = _parsed(raw, repairs)
    except InvalidArguments:
        text = raw if isinstance(raw, str) else json.dumps(raw)
        return Read(text, {INVALID: text}, is_object=False)
    if codec is None:
        return Read(parsed, parsed, tuple(repairs))
    return Read(_in_own_keys(parsed, codec, validators, repairs), parsed, tuple(repairs))


def _parsed(raw: JsonValue, repairs: list[str]) -> JsonObject:
    if raw is None or isinstance(raw, str | Mapping):
        try:
            return parse_arguments(raw)
        except InvalidArguments:
            inner = _inner_text(raw)
            if inner is None:
                raise
            repairs.append("double-encoded arguments")
            return parse_arguments(inner)
    raise InvalidArguments


def _inner_text(raw: JsonValue) -> str | None:
    """Return the text inside a JSON string that holds an object."""
    if not isinstance(raw, str) or not raw.lstrip().startswith('"'):
        return None
    try:
        inner: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return inner if isinstance(inner, str) and inner.lstrip().startswith("{") else None


def _in_own_keys(
    parsed: JsonObject, codec: Codec, validators: ArgumentValidators, repairs: list[str]
) -> JsonObject:
    own = codec.from_wire(parsed)
    if codec.is_strict:
        own = _mapping(_without_nulls(own, codec.schema, codec.schema, 0))
    try:
        if validators.fits(codec.spec, own):
            return own
        mended = _mapping(_mended(own, codec.schema, codec.schema, 0))
        if mended != own and validators.fits(codec.spec, mended):
            repairs.append("arguments as text inside arguments")
            return mended
    except ValueError:
        # No schema of JSON Schema at all; the dispatcher says so.
        return own
    return own


def _without_nulls(value: JsonValue, schema: JsonValue, root: JsonObject, depth: int) -> JsonValue:
    """Return the value without nulls that only say "left out", where null is not a value."""
    node = _resolved(schema, root)
    if depth > DEPTH_MAX or node is None:
        return value
    if isinstance(value, list):
        return [_without_nulls(v, node.get("items"), root, depth + 1) for v in value]
    if not isinstance(value, dict):
        return value
    properties = _mapping(node.get("properties"))
    required = node.get("required")
    needed = required if isinstance(required, list) else []
    return {
        key: _without_nulls(inner, properties.get(key), root, depth + 1)
        for key, inner in value.items()
        if inner is not None or key in needed or _takes_null(properties.get(key), root)
    }


def _takes_null(schema: JsonValue, root: JsonObject) -> bool:
    node = _resolved(schema, root)
    if node is None:
        return True
    kind, choices = node.get("type"), node.get("enum")
    if kind is not None and kind != "null" and not (isinstance(kind, list) and "null" in kind):
        return False
    if isinstance(choices, list) and None not in choices:
        return False
    several = node.get("anyOf") or node.get("oneOf")
    return not isinstance(several, list) or any(_takes_null(inner, root) for inner in several)


def _mended(value: JsonValue, schema: JsonValue, root: JsonObject, depth: int) -> JsonValue:
    """Return the value with text replaced by the array or object it holds, where one is wanted."""
    node = _resolved(schema, root)
    if depth > DEPTH_MAX or node is None:
        return value
    if isinstance(value, str) and node.get("type") in ("array", "object"):
        value = _held(value, node["type"])
    if isinstance(value, dict):
        properties = _mapping(node.get("properties"))
        return {k: _mended(v, properties.get(k), root, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [_mended(inner, node.get("items"), root, depth + 1) for inner in value]
    return value


def _held(text: str, kind: JsonValue) -> JsonValue:
    try:
        held: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return held if isinstance(held, list if kind == "array" else dict) else text


def _resolved(schema: JsonValue, root: JsonObject) -> JsonObject | None:
    for _ in range(8):
        if not isinstance(schema, dict):
            return None
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return schema
        schema = resolve_local(root, ref)
    return None


def _mapping(value: JsonValue) -> JsonObject:
    return value if isinstance(value, dict) else {}
