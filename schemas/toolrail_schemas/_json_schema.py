"""Check the JSON Schema of a tool without evaluating it: root, size, depth, references.

Is: structural limits on a schema document (semantics 1.1). Is not: validation of arguments
(`toolrail/validation.py`) or of the schema's own keywords, which needs a JSON Schema library.
Above: `tool.py`. Below: `_base.py`.
"""

from pydantic import JsonValue

from toolrail_schemas._base import KIB, JsonObject, check_json

SCHEMA_MAX_BYTES = 32 * KIB
SCHEMA_MAX_DEPTH = 16
DRAFT_2020_12 = "https://json-schema.org/draft/2020-12/schema"

_REFERENCE_KEYS = ("$ref", "$dynamicRef")


def default_input_schema(schema: JsonObject | None) -> JsonObject:
    """Return `schema`, or the schema of "no arguments" where an MCP server sent none."""
    return {"type": "object", "properties": {}} if schema is None else schema


def check_tool_schema(schema: JsonObject, *, what: str, object_root: bool) -> None:
    """Refuse a schema that is too large, too deep, of another draft, or that refers elsewhere.

    Args:
        schema: The document.
        what: Its name in the message, such as `input_schema`.
        object_root: Whether the root must be `type: object` (arguments always are).

    Raises:
        ValueError: One of the limits of semantics 1.1 is broken.
    """
    check_json(schema, limit_bytes=SCHEMA_MAX_BYTES, what=what)
    if object_root and schema.get("type") != "object":
        raise ValueError(f"{what} must have type: object at its root")
    draft = schema.get("$schema", DRAFT_2020_12)
    if not isinstance(draft, str) or draft.rstrip("#") != DRAFT_2020_12:
        raise ValueError(f"{what} must be JSON Schema draft 2020-12")
    _walk(schema, what=what)


def _walk(root: JsonValue, *, what: str) -> None:
    # Level by level instead of recursive: a hostile document must not reach Python's own limit.
    level: list[JsonValue] = [root]
    for _ in range(SCHEMA_MAX_DEPTH):
        if not level:
            return
        below: list[JsonValue] = []
        for node in level:
            if isinstance(node, dict):
                _check_references(node, what=what)
                below.extend(child for child in node.values() if isinstance(child, dict | list))
            elif isinstance(node, list):
                below.extend(child for child in node if isinstance(child, dict | list))
        level = below
    if level:
        raise ValueError(f"{what} is nested deeper than {SCHEMA_MAX_DEPTH} levels")


def _check_references(node: JsonObject, *, what: str) -> None:
    for key in _REFERENCE_KEYS:
        target = node.get(key)
        if isinstance(target, str) and not target.startswith("#"):
            raise ValueError(f"{what} refers to another document: {target[:100]!r}")
