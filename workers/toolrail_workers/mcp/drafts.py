"""Rewrite a JSON Schema of an older draft into the one draft that Toolrail speaks.

Is: the keywords that changed meaning and that MCP servers really use (many still declare
draft 7). Is not: validation, or a full converter. Above: `listing.py`. Below: nothing.
"""

from pydantic import JsonValue

from toolrail_schemas import JsonObject

_OF_NAMES = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
"""Keywords whose keys are names, which may look like keywords."""
_DATA = frozenset({"enum", "const", "default", "examples"})


def as_current_draft(schema: JsonObject) -> JsonObject:
    """Return the schema in draft 2020-12, without a `$schema` of its own."""
    declared = schema.get("$schema")
    plain = {key: value for key, value in schema.items() if key != "$schema"}
    if declared is None or "2020-12" in str(declared):
        return plain
    return _object(plain)


def _any(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_any(item) for item in value]
    return _object(value) if isinstance(value, dict) else value


def _object(schema: JsonObject) -> JsonObject:
    rewritten: JsonObject = {}
    for key, value in schema.items():
        if key in _DATA:
            rewritten[key] = value
        elif key in _OF_NAMES and isinstance(value, dict):
            rewritten[key] = {name: _any(below) for name, below in value.items()}
        else:
            rewritten[key] = _any(value)
    if isinstance(rewritten.get("items"), list):
        # A tuple: positions moved to `prefixItems`, and what follows them to `items`.
        rewritten["prefixItems"] = rewritten.pop("items")
        if "additionalItems" in rewritten:
            rewritten["items"] = rewritten.pop("additionalItems")
    return rewritten
