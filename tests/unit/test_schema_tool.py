"""A ToolSpec holds only what the rules of semantics 1.1 to 1.3 allow.

Is: names, schema limits, sources, budgets, hashes, each at its edge. Is not: effects
(`test_schema_annotations.py`). Above: nothing. Below: `toolrail_schemas.tool`.
"""

import pytest
from pydantic import ValidationError

from toolrail_schemas import (
    Annotations,
    Budget,
    HintedAnnotations,
    JsonObject,
    Permission,
    Rollback,
    Source,
    SourceRef,
    SurfaceMeta,
    ToolSpec,
    canonical_json,
    default_input_schema,
    extension_name,
    mcp_name,
    queue_of,
)
from toolrail_schemas._json_schema import SCHEMA_MAX_BYTES, SCHEMA_MAX_DEPTH

READS = Annotations.for_builtin(read_only=True)
SERVER = SourceRef(server="gh")
EXTENSION = SourceRef(extension="dice", version="1.0")


def spec(name: str = "notes.add", /, **changes: object) -> ToolSpec:
    """Return a reading builtin tool, with changes."""
    fields: dict[str, object] = {
        "name": name,
        "description": "Add a note.",
        "input_schema": {"type": "object"},
        "source": Source.BUILTIN,
        "annotations": READS,
    }
    return ToolSpec.model_validate({**fields, **changes})


def mcp(name: str, /, **changes: object) -> ToolSpec:
    """Return a tool of server `gh`, with the defaults of its source."""
    return spec(
        name,
        **{"source": Source.MCP, "source_ref": SERVER, "annotations": Annotations(), **changes},
    )


@pytest.mark.parametrize(
    "name",
    ["notes.add", "a.b", "notes.sub_group.add2", "tool_search", "n." + "x" * 126],
)
def test_a_native_tool_is_called_group_verb(name: str) -> None:
    """`tool_search` is the one bare word; 128 characters are the limit."""
    assert spec(name).name == name
    assert spec(name, source=Source.SKILL).name == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "notes",
        "Notes.add",
        "notes.Add",
        "notes.",
        ".add",
        "notes..add",
        "notes.add-line",
        "1notes.add",
        "notes.add\n",
        "mcp.gh.create",
        "ext.dice.roll",
        "n." + "x" * 127,
        "notes.\ud800",
    ],
)
@pytest.mark.parametrize("source", [Source.BUILTIN, Source.SKILL])
def test_a_native_tool_is_called_nothing_else(name: str, source: Source) -> None:
    """Above all it cannot pretend to come from a server or an extension."""
    with pytest.raises(ValidationError):
        spec(name, source=source)


@pytest.mark.parametrize(
    "tool", ["create_issue", "Create.Issue", "über", "a b", "mcp.x.y", "x" * 121]
)
def test_the_tool_part_of_a_server_is_kept_as_it_is(tool: str) -> None:
    """Nothing ever parses it back, so anything printable may stand there."""
    assert mcp(mcp_name("gh", tool)).name == f"mcp.gh.{tool}"


@pytest.mark.parametrize(
    "name", ["mcp.gh.", "mcp.other.x", "gh.x", "mcp.ghx.y", "mcp.gh.a\x00", "mcp.gh." + "x" * 122]
)
def test_a_server_cannot_use_a_name_of_others(name: str) -> None:
    """The prefix is the server that source_ref names."""
    with pytest.raises(ValidationError):
        mcp(name)


def test_an_extension_tool_is_named_after_its_extension() -> None:
    """Both name and version of the extension are kept."""
    roll = spec(
        extension_name("dice", "roll"),
        source=Source.EXTENSION,
        source_ref=EXTENSION,
        annotations=Annotations(),
    )

    assert roll.name == "ext.dice.roll"
    with pytest.raises(ValidationError):
        spec("ext.cards.draw", source=Source.EXTENSION, source_ref=EXTENSION)


@pytest.mark.parametrize(
    ("source", "name", "ref"),
    [
        (Source.MCP, "mcp.gh.x", None),
        (Source.MCP, "mcp.gh.x", EXTENSION),
        (Source.EXTENSION, "ext.dice.roll", None),
        (Source.EXTENSION, "ext.dice.roll", SERVER),
        (Source.BUILTIN, "notes.add", SERVER),
        (Source.SKILL, "skill.read", EXTENSION),
    ],
)
def test_a_source_ref_fits_its_source(source: Source, name: str, ref: SourceRef | None) -> None:
    """A tool names its owner exactly when it has one."""
    with pytest.raises(ValidationError):
        spec(name, source=source, source_ref=ref, annotations=Annotations())


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"server": "a", "skill": "b"},
        {"extension": "a"},
        {"server": "a", "version": "1"},
        {"server": "a.b"},
        {"server": "a/b"},
        {"server": ""},
        {"server": "x" * 65},
        {"skill": "a\x00"},
    ],
)
def test_a_source_ref_names_one_owner(fields: dict[str, str]) -> None:
    """A dot in a server's name would let two servers share a tool name."""
    with pytest.raises(ValidationError):
        SourceRef.model_validate(fields)


def nested(levels: int) -> JsonObject:
    """Return a schema of so many levels."""
    schema: JsonObject = {"type": "string"}
    for _ in range(levels - 1):
        schema = {"not": schema}
    return {**schema, "type": "object"}


def padded(size: int) -> JsonObject:
    """Return a schema of so many bytes of JSON."""
    empty: JsonObject = {"type": "object", "description": ""}
    return {**empty, "description": "x" * (size - len(canonical_json(empty)))}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}},
        {"type": "object", "properties": {"$ref": {"type": "string"}}},
        nested(SCHEMA_MAX_DEPTH),
        padded(SCHEMA_MAX_BYTES),
    ],
)
def test_an_input_schema_within_the_limits_is_taken(schema: JsonObject) -> None:
    """Local references and the very edge of size and depth are fine."""
    assert spec(input_schema=schema).input_schema == schema


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "array"},
        {"type": ["object", "null"]},
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"type": "object", "$schema": 7},
        {"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}},
        {"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"type": "object", "allOf": [{"$dynamicRef": "other.json#x"}]},
        {"type": "object", "description": "\ud800"},
        {"type": "object", "\udfff": 1},
        {"type": "object", "default": float("nan")},
        nested(SCHEMA_MAX_DEPTH + 1),
        padded(SCHEMA_MAX_BYTES + 1),
    ],
)
def test_an_input_schema_beyond_the_limits_is_refused(schema: JsonObject) -> None:
    """Semantics 1.1: object root, 2020-12, 32 KiB, 16 levels, nothing fetched."""
    with pytest.raises(ValidationError):
        spec(input_schema=schema)


def test_an_output_schema_may_have_any_root() -> None:
    """Only arguments are always an object; the other limits hold."""
    assert spec(output_schema={"type": "array"}).output_schema == {"type": "array"}
    with pytest.raises(ValidationError):
        spec(output_schema=nested(SCHEMA_MAX_DEPTH + 1))


def test_a_missing_schema_of_a_server_means_no_arguments() -> None:
    """The default is a schema a model can be shown."""
    assert default_input_schema(None) == {"type": "object", "properties": {}}
    assert default_input_schema({"type": "object"}) == {"type": "object"}


@pytest.mark.parametrize(("field", "limit"), [("title", 80), ("description", 4096)])
def test_words_have_a_limit(field: str, limit: int) -> None:
    """1 to the limit, in characters."""
    assert getattr(spec(**{field: "ü" * limit}), field)
    for bad in ("", "x" * (limit + 1), "\ud800", None):
        with pytest.raises(ValidationError):
            spec(**{field: bad})


@pytest.mark.parametrize(
    ("name", "title"), [("notes.add_line", "Add line"), ("tool_search", "Tool search")]
)
def test_a_title_is_made_from_the_name(name: str, title: str) -> None:
    """So that no tool is nameless in an approval."""
    assert spec(name).title == title


def test_a_third_party_tool_without_annotations_is_the_worst_case() -> None:
    """And asks for approval."""
    create = ToolSpec(
        name="mcp.gh.create",
        description="x",
        input_schema={"type": "object"},
        source=Source.MCP,
        source_ref=SERVER,
    )

    assert create.annotations == Annotations.worst_case()
    assert create.permission is Permission.APPROVAL_REQUIRED


def test_an_unmarked_builtin_asks_and_a_skill_does_not() -> None:
    """Skill tools only read local files."""
    fields: dict[str, object] = {"description": "x", "input_schema": {"type": "object"}}
    plain = ToolSpec.model_validate({**fields, "name": "a.b", "source": "builtin"})
    skill = ToolSpec.model_validate({**fields, "name": "skill.read", "source": "skill"})

    assert plain.annotations.destructive
    assert plain.permission is Permission.APPROVAL_REQUIRED
    assert skill.annotations.read_only
    assert skill.permission is Permission.ALWAYS_ALLOW


def test_an_extension_is_never_trusted() -> None:
    """Not even when somebody says so."""
    trusted = Annotations.worst_case(HintedAnnotations(), trusted=True)

    with pytest.raises(ValidationError, match="never trusted"):
        spec(
            "ext.dice.roll",
            source=Source.EXTENSION,
            source_ref=EXTENSION,
            annotations=trusted,
        )


def test_a_tools_own_budget_goes_over_the_default() -> None:
    """An unset field is the source's."""
    budget = spec(budget=Budget(timeout_ms=500)).effective_budget

    assert budget.timeout_ms == 500
    assert budget.max_output_tokens == 8000


def test_the_hash_of_a_spec_covers_every_field() -> None:
    """So that a changed definition cannot ride on an old approval."""
    base = spec()
    changed: dict[str, object] = {
        "name": "notes.other",
        "title": "Other",
        "description": "Other.",
        "input_schema": {"type": "object", "title": "x"},
        "output_schema": {"type": "object"},
        "source": Source.SKILL,
        "source_ref": SourceRef(skill="x"),
        "annotations": Annotations.for_builtin(rollback=Rollback.CHECKPOINT),
        "visibility": "user_only",
        "permission": "deny",
        "budget": Budget(timeout_ms=101),
        "surface_meta": SurfaceMeta(tags=("x",)),
    }

    hashes = {spec(**{field: value}).spec_hash for field, value in changed.items()}

    assert set(changed) == set(ToolSpec.model_fields)
    assert len(hashes | {base.spec_hash}) == len(changed) + 1


def test_the_hash_of_a_spec_survives_the_wire_and_not_a_change() -> None:
    """A copy with another description has another hash, though the first was cached."""
    base = spec(input_schema={"type": "object", "b": 1, "a": 2})

    assert ToolSpec.model_validate_json(base.model_dump_json()).spec_hash == base.spec_hash
    assert spec(input_schema={"a": 2, "b": 1, "type": "object"}).spec_hash == base.spec_hash
    assert base.model_copy(update={"description": "y"}).spec_hash != base.spec_hash
    assert base.model_copy().spec_hash == base.spec_hash


def test_skill_tools_run_on_the_builtin_queue() -> None:
    """Four sources, three queues."""
    assert [queue_of(source) for source in Source] == ["builtin", "mcp", "extension", "builtin"]
    assert [source.value for source in Source] == ["builtin", "mcp", "extension", "skill"]


@pytest.mark.parametrize("source", [None, "builtin", [], {}, 3])
def test_an_unknown_source_is_refused(source: object) -> None:
    """Whatever its type."""
    with pytest.raises(ValidationError):
        ToolSpec.model_validate(
            {"name": "a.b", "description": "x", "input_schema": {}, "source": source}
        )
