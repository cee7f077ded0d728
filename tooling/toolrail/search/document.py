"""Say what of a tool is searched, and how much each part of it weighs.

Is: `Document`, made of a spec or of a plain definition. Is not: the index over many (`index.py`).
Above: `index.py`, `toolrail search`. Below: `toolrail_schemas`, `names.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

from toolrail_schemas import JsonObject, SourceRef, ToolSpec
from toolrail_schemas.names import extension_name, humanise, mcp_name

_DEPTH_MAX = 4
"""Levels of a schema whose parameters are searched; deeper ones say little about the tool."""


class Part(StrEnum):
    """A part of a tool, as it is weighed."""

    NAME = "name"
    TITLE = "title"
    TAGS = "tags"
    ALIASES = "aliases"
    OWNER = "owner"
    PARAMETERS = "parameters"
    DESCRIPTION = "description"
    PARAMETER_DESCRIPTIONS = "parameter_descriptions"


WEIGHTS: Mapping[Part, float] = {
    Part.NAME: 5.0,
    Part.TITLE: 3.0,
    Part.TAGS: 3.0,
    Part.ALIASES: 3.0,
    Part.OWNER: 2.0,
    Part.PARAMETERS: 2.0,
    Part.DESCRIPTION: 1.0,
    Part.PARAMETER_DESCRIPTIONS: 0.5,
}
"""Source: semantics 4.8."""
PROSE = frozenset({Part.DESCRIPTION, Part.PARAMETER_DESCRIPTIONS})
"""Parts whose length says little, so that a long one must not win by being long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One tool, as it is searched."""

    name: str
    """Canonical."""
    parts: Mapping[Part, str]
    aliases: tuple[str, ...] = ()
    """Other names it may be called by, the model-facing one included."""
    key: str = ""
    """Changes whenever the tool does; its `spec_hash`."""
    shown: JsonObject = field(default_factory=dict[str, JsonValue])
    """What is told of a hit besides its name."""

    @classmethod
    def of_spec(cls, spec: ToolSpec, *, aliases: Sequence[str] = ()) -> "Document":
        """Return the document of a registered tool."""
        ref = spec.source_ref
        owner = "" if ref is None else ref.server or ref.extension or ref.skill or ""
        parts = _parts(
            name=spec.name.removeprefix(_prefix_of(ref)),
            title=spec.title,
            description=spec.description,
            input_schema=spec.input_schema,
            tags=spec.surface_meta.tags,
            aliases=aliases,
            owner=owner,
        )
        return cls(name=spec.name, parts=parts, aliases=tuple(aliases), key=spec.spec_hash)

    @classmethod
    def of_definition(
        cls,
        name: str,
        *,
        description: str = "",
        title: str | None = None,
        input_schema: JsonObject | None = None,
        tags: Sequence[str] = (),
    ) -> "Document":
        """Return the document of a tool that is only described, by a catalog file."""
        parts = _parts(
            name=name,
            title=title or humanise(name),
            description=description,
            input_schema=input_schema or {},
            tags=tags,
            aliases=(),
            owner="",
        )
        return cls(name=name, parts=parts)


def _prefix_of(ref: SourceRef | None) -> str:
    """Return what stands before a tool's own name; the owner is a part of its own."""
    if ref is None:
        return ""
    if ref.server is not None:
        return mcp_name(ref.server, "")
    return "" if ref.extension is None else extension_name(ref.extension, "")


def _parts(
    *,
    name: str,
    title: str,
    description: str,
    input_schema: JsonObject,
    tags: Sequence[str],
    aliases: Sequence[str],
    owner: str,
) -> Mapping[Part, str]:
    parameters = list(_parameters(input_schema, 0))
    return {
        Part.NAME: name,
        Part.TITLE: title,
        Part.TAGS: " ".join(tags),
        Part.ALIASES: " ".join(aliases),
        Part.OWNER: owner,
        Part.PARAMETERS: " ".join(parameter for parameter, _ in parameters),
        Part.DESCRIPTION: description,
        Part.PARAMETER_DESCRIPTIONS: " ".join(said for _, said in parameters),
    }


def _parameters(schema: JsonValue, depth: int) -> Iterator[tuple[str, str]]:
    """Yield name and description of each parameter, nested ones included; follows no reference."""
    if not isinstance(schema, dict) or depth == _DEPTH_MAX:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        said = inner.get("description") if isinstance(inner, dict) else None
        yield name, said if isinstance(said, str) else ""
        yield from _parameters(inner, depth + 1)
    yield from _parameters(schema.get("items"), depth + 1)
