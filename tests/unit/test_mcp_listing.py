"""Tool specs made of an MCP listing: names, effects, limits, and how little is believed.

Is: `listing.py` and `drafts.py`. Is not: fetching or cleaning a listing. Above: nothing.
Below: `toolrail_workers.mcp`.
"""

import pytest
from mcp.types import Tool, ToolAnnotations
from pydantic import JsonValue

from toolrail_schemas import Permission, SideEffect, Source, ToolSpec
from toolrail_workers.mcp.config import ServerConfig, ServerOptions
from toolrail_workers.mcp.drafts import as_current_draft
from toolrail_workers.mcp.listing import Listing, build_listing
from toolrail_workers.mcp.sanitize import OUTPUT_SCHEMA_MARK

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
EMPTY: dict[str, JsonValue] = {"type": "object", "properties": {}}


def config(**options: object) -> ServerConfig:
    return ServerConfig(
        id="notes", command="x", options=ServerOptions.model_validate(options, strict=False)
    )


def tool(name: str = "read", **fields: object) -> Tool:
    return Tool.model_validate({"name": name, "inputSchema": EMPTY, **fields})


def hinted(annotations: ToolAnnotations, name: str = "read") -> Tool:
    return Tool(name=name, input_schema=EMPTY, annotations=annotations)


def listed(*tools: Tool, **options: object) -> Listing:
    return build_listing(tools, config=config(**options))


def spec_of(found: Tool, **options: object) -> ToolSpec:
    (spec,) = listed(found, **options).specs
    return spec


def test_a_tool_is_named_after_its_server_and_belongs_to_it() -> None:
    """The server's own name is kept beside it, never cut out of the canonical one."""
    listing = listed(tool("read.all"))
    (found,) = listing.tools

    assert found.spec.name == "mcp.notes.read.all"
    assert found.own_name == "read.all"
    assert found.spec.source is Source.MCP
    assert found.spec.source_ref is not None
    assert found.spec.source_ref.server == "notes"


def test_hints_of_an_untrusted_server_count_for_nothing() -> None:
    """A tool that calls itself read-only is still taken for the worst."""
    spec = spec_of(hinted(READS))

    assert not spec.annotations.read_only
    assert not spec.annotations.retry_safe
    assert spec.annotations.destructive
    assert spec.annotations.side_effect is SideEffect.EXTERNAL
    assert spec.permission is Permission.APPROVAL_REQUIRED


def test_hints_of_a_trusted_server_are_believed_but_permit_nothing() -> None:
    """Effects are known then; whether to ask is the operator's word."""
    spec = spec_of(hinted(READS), trusted=True)

    assert spec.annotations.read_only
    assert spec.annotations.retry_safe
    assert not spec.annotations.destructive
    assert spec.permission is Permission.APPROVAL_REQUIRED


def test_hints_that_contradict_each_other_mean_destructive() -> None:
    """The safe reading of the two."""
    both = ToolAnnotations(read_only_hint=True, destructive_hint=True)

    assert spec_of(hinted(both), trusted=True).annotations.destructive


def test_the_operator_may_vouch_for_single_tools() -> None:
    """Only for what he named: the server's other hints, and its tags, stay unbelieved."""
    own = tool(annotations={"openWorldHint": False}, _meta={"tool-surface": {"tags": ["safe"]}})
    spec = spec_of(own, idempotent_tools=["read"])

    assert spec.annotations.retry_safe
    assert spec.annotations.open_world
    assert spec.surface_meta.tags == ()


def test_the_operator_sets_permission_for_the_server_or_a_tool() -> None:
    """The tool outranks the server."""
    listing = listed(
        tool("read"),
        tool("drop"),
        permission=Permission.ALWAYS_ALLOW,
        tool_permission={"drop": Permission.DENY},
    )

    assert [spec.permission for spec in listing.specs] == [
        Permission.DENY,
        Permission.ALWAYS_ALLOW,
    ]


def test_the_operator_sets_timeout_and_concurrency() -> None:
    """They become the tool's own budget, which policy may cut further."""
    spec = spec_of(tool(), call_timeout_s=2.5, max_concurrency=9)

    assert spec.budget.timeout_ms == 2_500
    assert spec.budget.max_concurrency == 9
    assert spec_of(tool()).effective_budget.timeout_ms == 30_000


def test_surface_metadata_is_resolved_and_leaves_the_schema() -> None:
    """Nothing downstream reads the raw keys again."""
    schema: JsonValue = {**EMPTY, "x-tool-surface": {"deferred_loading": True}}
    spec = spec_of(tool(inputSchema=schema), tool_surface={"read": {"tags": ["notes"]}})

    assert spec.surface_meta.deferred_loading is True
    assert spec.surface_meta.tags == ("notes",)
    assert spec.input_schema == EMPTY


def test_a_long_description_is_cut_with_a_mark() -> None:
    """Never refused, and never longer than the limit."""
    listing = listed(tool(description="d" * 5_000))
    (spec,) = listing.specs

    assert len(spec.description) == 4_096
    assert spec.description.endswith("[description cut]")
    assert "cut from 5000" in listing.warnings[0]


@pytest.mark.parametrize("said", [None, "", "  "])
def test_a_tool_that_describes_nothing_is_said_to(said: str | None) -> None:
    """A spec has a description, and a model should know that there is none."""
    assert "describes nothing" in spec_of(tool(description=said)).description


def test_the_first_of_two_tools_of_one_name_is_kept() -> None:
    """With a warning; the second could be an attempt to stand in for the first."""
    listing = listed(tool(description="first"), tool(description="second"))

    assert [spec.description for spec in listing.specs] == ["first"]
    assert "twice" in listing.warnings[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "$ref": "http://example.test/x.json"},
        {"type": "object", "properties": {"a": {"type": "nonsense"}}},
        {"type": "object", "description": "x" * 40_000},
        {"type": "object", "$ref": "#/nowhere"},
    ],
)
def test_a_schema_nobody_could_validate_against_drops_its_tool(schema: JsonValue) -> None:
    """And only that tool."""
    listing = listed(tool("bad", inputSchema=schema), tool("good"))

    assert [spec.name for spec in listing.specs] == ["mcp.notes.good"]
    assert listing.warnings[0].startswith("bad: ")


def test_a_name_too_long_for_us_drops_its_tool() -> None:
    """A cut name could be another tool's."""
    assert listed(tool("x" * 128)).specs == ()


def test_an_output_schema_is_enforced_when_it_is_usable() -> None:
    """An unusable one costs only itself."""
    usable = tool(_meta={OUTPUT_SCHEMA_MARK: {"type": "object"}})
    broken = listed(tool(_meta={OUTPUT_SCHEMA_MARK: {"type": "nonsense"}}))

    assert spec_of(usable).output_schema == {"type": "object"}
    assert broken.specs[0].output_schema is None
    assert "not enforced" in broken.warnings[0]


def test_the_order_of_a_listing_does_not_matter() -> None:
    """A server that shuffles must not look changed."""
    assert listed(tool("a"), tool("b")).specs == listed(tool("b"), tool("a")).specs


def test_a_changed_description_changes_the_hash_that_decisions_bind_to() -> None:
    """An approval does not carry over to other words."""
    before, after = spec_of(tool(description="reads")), spec_of(tool(description="reads all"))

    assert before.spec_hash != after.spec_hash


def test_a_tuple_of_an_older_draft_keeps_its_meaning() -> None:
    """Draft 7 said `items` for positions; parameters of that name are left alone."""
    schema: dict[str, JsonValue] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        },
        "default": {"items": [1]},
    }

    assert as_current_draft(schema) == {
        "type": "object",
        "properties": {
            "items": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
        },
        "default": {"items": [1]},
    }
