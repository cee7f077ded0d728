"""Make tool specs of what one MCP server lists, believing no more of it than allowed.

Is: names, texts, schemas, effects, permission, budget and surface of each tool.
Is not: fetching the listing (`connection.py`), or deciding over its tools (policy).
Above: `server.py`. Below: `toolrail.metadata`, `sanitize.py`, `drafts.py`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from mcp.types import Tool
from pydantic import JsonValue

from toolrail.metadata import resolve_surface, without_containers
from toolrail.validation import validator_for
from toolrail_schemas import (
    Annotations,
    Budget,
    HintedAnnotations,
    JsonObject,
    Source,
    SourceRef,
    SurfaceMeta,
    ToolSpec,
    mcp_name,
)
from toolrail_schemas.names import humanise
from toolrail_workers.mcp.config import ServerConfig
from toolrail_workers.mcp.drafts import as_current_draft
from toolrail_workers.mcp.sanitize import OUTPUT_SCHEMA_MARK

DESCRIPTION_CHARS = 4096
CUT_MARK = " [description cut]"
TITLE_CHARS = 80
WARNINGS_KEPT = 50


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool as we offer it, and the name its server knows it by."""

    spec: ToolSpec
    own_name: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers now."""

    tools: tuple[ListedTool, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The specs, by name."""
        return tuple(tool.spec for tool in self.tools)


def build_listing(
    tools: Iterable[Tool], *, config: ServerConfig, dropped: Iterable[str] = ()
) -> Listing:
    """Return the specs of a server's tools; one that is unusable harms no other.

    Args:
        tools: What the server listed, all pages.
        config: What the operator says of the server.
        dropped: What was dropped before, one sentence each.
    """
    warnings = list(dropped)
    listed: dict[str, ListedTool] = {}
    for tool in tools:
        if tool.name in listed:
            warnings.append(f"{tool.name[:80]}: listed twice, the first is kept")
            continue
        try:
            listed[tool.name] = ListedTool(_spec(tool, config, warnings), tool.name)
        except ValueError as error:
            # Pydantic's message would repeat the server's input; the first line names the rule.
            warnings.append(f"{tool.name[:80]}: {_reason(error)}")
    ordered = sorted(listed.values(), key=lambda found: found.spec.name)
    return Listing(tuple(ordered), tuple(warnings[:WARNINGS_KEPT]))


def _spec(tool: Tool, config: ServerConfig, warnings: list[str]) -> ToolSpec:
    options = config.options
    raw_schema = cast(JsonObject, tool.input_schema)
    schema = as_current_draft(without_containers(raw_schema))
    validator_for(schema)
    annotations = _annotations(tool, config)
    return ToolSpec(
        name=mcp_name(config.id, tool.name),
        title=_title(tool),
        description=_description(tool, config, warnings),
        input_schema=schema,
        output_schema=_output_schema(tool, warnings),
        annotations=annotations,
        permission=options.tool_permission.get(tool.name, options.permission),
        budget=_budget(config),
        source=Source.MCP,
        source_ref=SourceRef(server=config.id),
        surface_meta=_surface(tool, raw_schema, config, annotations, warnings),
    )


def _annotations(tool: Tool, config: ServerConfig) -> Annotations:
    """Return the effects: the operator's word, else a trusted server's hints, else the worst."""
    options = config.options
    hints = tool.annotations
    # A server's cancellation is a notice it may ignore, so no MCP tool counts as cancellable.
    said = (
        HintedAnnotations(
            read_only=hints.read_only_hint,
            destructive=hints.destructive_hint,
            idempotent=hints.idempotent_hint,
            open_world=hints.open_world_hint,
        )
        if hints is not None and options.trusted
        else HintedAnnotations()
    )
    words: dict[str, bool] = {}
    if tool.name in options.read_only_tools:
        words.update(read_only=True, destructive=False)
    if tool.name in options.idempotent_tools:
        words.update(idempotent=True)
    if words:
        said = said.model_copy(update=words)
    return Annotations.worst_case(said, trusted=options.trusted or bool(words))


def _surface(
    tool: Tool,
    schema: JsonObject,
    config: ServerConfig,
    annotations: Annotations,
    warnings: list[str],
) -> SurfaceMeta:
    options = config.options
    override = options.tool_surface.get(tool.name)
    resolved = resolve_surface(
        schema=schema,
        meta=cast(Mapping[str, JsonValue] | None, tool.meta),
        override=override,
        default=options.surface,
        trusted=options.trusted,
    )
    warnings.extend(f"{tool.name[:80]}: {warning}" for warning in resolved.warnings)
    surface = resolved.surface
    if annotations.trusted and not options.trusted and resolved.origins.get("tags") == "tool":
        # The operator vouched for the effects, not for the server's tags, which policy would
        # then match as trusted.
        return surface.model_copy(update={"tags": ()})
    return surface


def _budget(config: ServerConfig) -> Budget:
    timeout_s = config.options.call_timeout_s
    return Budget(
        timeout_ms=None if timeout_s is None else int(timeout_s * 1000),
        max_concurrency=config.options.max_concurrency,
    )


def _title(tool: Tool) -> str:
    hinted = tool.annotations.title if tool.annotations is not None else None
    given = (tool.title or "").strip() or (hinted or "").strip()
    return (given or humanise(tool.name))[:TITLE_CHARS]


def _description(tool: Tool, config: ServerConfig, warnings: list[str]) -> str:
    text = (tool.description or "").strip()
    if not text:
        return f"The tool {tool.name} of the MCP server {config.id}; it describes nothing."
    if len(text) <= DESCRIPTION_CHARS:
        return text
    warnings.append(f"{tool.name[:80]}: description cut from {len(text)} characters")
    return text[: DESCRIPTION_CHARS - len(CUT_MARK)] + CUT_MARK


def _output_schema(tool: Tool, warnings: list[str]) -> JsonObject | None:
    raw: object = (tool.meta or {}).get(OUTPUT_SCHEMA_MARK)
    if raw is None:
        return None
    try:
        if not isinstance(raw, dict):
            raise ValueError("not an object")
        schema = as_current_draft(cast(JsonObject, raw))
        validator_for(schema)
    except ValueError:
        warnings.append(f"{tool.name[:80]}: its output schema is unusable and not enforced")
        return None
    return schema


def _reason(error: ValueError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = next((line for line in lines if line.startswith("Value error")), lines[0])
    return found.removeprefix("Value error, ").split(" [type=")[0][:200]
