"""Make the root of a schema an object with properties, as every provider wants it.

Is: the second step of adapting: `allOf` merged, alternatives flattened into one set of properties.
Is not: what happens below the root (`fit.py`). Above: `adapting.py`. Below: `merging.py`.
"""

from collections.abc import Sequence

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Schema
from toolrail.providers.schema.merging import merged
from toolrail.providers.schema.notes import Notes, describe, shown

_KEPT = frozenset(
    {"properties", "required", "additionalProperties", "patternProperties", "propertyNames"}
    | {"dependentRequired", "dependentSchemas", "minProperties", "maxProperties"}
    | {"description", "title", "default", "examples"}
)
_REFUSED = ("not", "if", "then", "else", "enum", "const", "unevaluatedProperties")
"""Keywords no provider takes at the root."""


def object_root(node: Schema, notes: Notes, path: str = "") -> Schema:
    """Return a plain object schema that takes every object the node takes."""
    out: Schema = {key: value for key, value in node.items() if key in _KEPT}
    out["type"] = "object"
    out.setdefault("properties", {})
    kind = node.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        notes.opened(path, "root type")
    for inner in _schemas(node.get("allOf")):
        part = object_root(inner, notes, path)
        if isinstance(apart := part.pop("allOf", None), list):
            _drop(out, path, "allOf", apart, notes)
        del part["type"]
        out = merged(out, part, path, notes)
    for keyword in ("anyOf", "oneOf"):
        branches = [object_root(inner, notes, path) for inner in _schemas(node.get(keyword))]
        if branches:
            _flatten(out, keyword, branches, path, notes)
    for keyword in _REFUSED:
        if keyword in node:
            _drop(out, path, keyword, node[keyword], notes)
    if "allOf" in out:
        _drop(out, path, "allOf", out.pop("allOf"), notes)
    if not out.get("required"):
        out.pop("required", None)
    return out


def _drop(out: Schema, path: str, keyword: str, value: JsonValue, notes: Notes) -> None:
    describe(out, f"Constraint ({keyword}): {shown(value)}")
    notes.opened(path, f"root {keyword}")


def _flatten(
    out: Schema, keyword: str, branches: Sequence[Schema], path: str, notes: Notes
) -> None:
    """The properties of all alternatives are properties of the root; which go together is told."""
    declared: dict[str, list[JsonValue]] = {}
    for branch in branches:
        for name, inner in _mapping(branch["properties"]).items():
            if inner not in (known := declared.setdefault(name, [])):
                known.append(inner)
    own = _mapping(out["properties"])
    flat: Schema = dict(own)
    for name, several in declared.items():
        if not own.get(name):
            flat[name] = several[0] if len(several) == 1 else {"anyOf": several}
            if any(name not in _mapping(branch["properties"]) for branch in branches):
                notes.narrowed(f"{path}/properties/{name}", f"root {keyword}")
    out["properties"] = flat
    needed = [_names(branch.get("required")) for branch in branches]
    common = [name for name in needed[0] if all(name in names for names in needed)]
    out["required"] = list(dict.fromkeys([*_names(out.get("required")), *common]))
    if out.get("additionalProperties") is not None and any(name not in own for name in declared):
        notes.limit(path, "additionalProperties")
    sets = " | ".join(
        "{" + ", ".join(_names(branch.get("required")) or _mapping(branch["properties"])) + "}"
        for branch in branches
    )
    how = "exactly one" if keyword == "oneOf" else "at least one"
    describe(out, f"Give {how} of these argument sets: {sets}.")
    notes.opened(path, f"root {keyword}")


def _schemas(value: JsonValue) -> list[Schema]:
    return [inner for inner in value if isinstance(inner, dict)] if isinstance(value, list) else []


def _mapping(value: JsonValue) -> Schema:
    return value if isinstance(value, dict) else {}


def _names(value: JsonValue) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
