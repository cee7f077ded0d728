"""The JSON Schema files say what the models say.

Is: the files of `schemas/json` against the models. Is not: the models' own rules. Above: nothing.
Below: `toolrail_schemas.generate`.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema_rs
import pytest
from pydantic import JsonValue

from tests.sources import ROOT
from toolrail_schemas import (
    Annotations,
    Doorbell,
    JsonObject,
    TextBlock,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from toolrail_schemas.generate import COMMAND, json_schemas, main

FOLDER = ROOT / "schemas" / "json"


def test_the_files_are_in_step_with_the_models() -> None:
    """If this fails, run the command in the message and commit what it writes."""
    stored = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}

    assert stored == json_schemas(), f"run: {COMMAND}"


def test_generating_removes_what_no_model_stands_behind(tmp_path: Path) -> None:
    """And writes the same bytes each time."""
    (tmp_path / "gone.json").write_text("{}", encoding="utf-8")
    (tmp_path / "notes.md").write_text("kept", encoding="utf-8")

    main([str(tmp_path)])
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    main([str(tmp_path)])

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    assert set(first) == {*json_schemas(), "notes.md"}


@pytest.mark.parametrize("name", json_schemas())
def test_a_file_is_a_valid_schema_of_its_draft(name: str) -> None:
    """Other languages read it with any library."""
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))

    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(schema)


def strings(node: JsonValue) -> Iterator[JsonObject]:
    """Yield every subschema of a string."""
    if isinstance(node, dict):
        if node.get("type") == "string":
            yield node
        for child in node.values():
            yield from strings(child)
    elif isinstance(node, list):
        for child in node:
            yield from strings(child)


@pytest.mark.parametrize("name", json_schemas())
def test_no_string_of_the_wire_is_without_a_rule(name: str) -> None:
    """pydantic lets lone surrogates into strings that have no constraint at all."""
    ruled = {"minLength", "maxLength", "pattern", "enum", "const"}

    for node in strings(json.loads(json_schemas()[name])):
        assert ruled & node.keys(), node


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tool_call.json", ToolCall(id="c1", name="a.b").model_dump_json()),
        (
            "tool_spec.json",
            ToolSpec(
                name="a.b",
                description="x",
                input_schema={"type": "object"},
                source="builtin",  # type: ignore[arg-type]  # as a TOML file spells it
                annotations=Annotations.for_builtin(read_only=True),
            ).model_dump_json(),
        ),
        (
            "tool_result.json",
            ToolResult(call_id="c1", name="a.b", content=(TextBlock(text="x"),)).model_dump_json(),
        ),
        (
            "doorbell.json",
            Doorbell.ring(
                b"s",
                run_id="run_01JDXAMP0E0000000000000000",
                call_key="0123456789abcdef",
                attempt=1,
            ).model_dump_json(),
        ),
    ],
)
def test_what_a_model_writes_its_file_accepts(name: str, text: str) -> None:
    """And refuses with a field nobody knows."""
    schema = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    validator = jsonschema_rs.validator_for(schema)
    value = json.loads(text)

    assert validator.is_valid(value)
    assert not validator.is_valid({**value, "unknown": 1})
