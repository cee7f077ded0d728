"""The workspace tools as they are declared, and workspace.finish."""

import json
from pathlib import Path
from typing import cast

import jsonschema_rs
import pytest
from pydantic import JsonValue

from tests.component.workspaces import (
    Workspace,
    code_of,
    facts_of,
    refusal,
)
from toolrail.errors import SystemFailure, ToolError
from toolrail_schemas import (
    Isolation,
    Permission,
    Rollback,
    SideEffect,
)
from toolrail_workers.builtin.workspace import TOOLS


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def put(workspace: Workspace, content: bytes, path: str = "output/f.txt") -> str:
    (workspace.top / path).write_bytes(content)
    return path


def test_the_tools_are_declared_as_the_contract_says() -> None:
    """Names, effects, permission and isolation are policy inputs, so they are pinned."""
    declared = {
        tool.spec.name: (
            tool.spec.annotations.read_only,
            tool.spec.annotations.side_effect,
            tool.spec.annotations.rollback,
            tool.spec.annotations.destructive,
        )
        for tool in TOOLS
    }

    none, not_needed = SideEffect.NONE, Rollback.NOT_NEEDED
    assert declared == {
        "workspace.list_files": (True, none, not_needed, False),
        "workspace.read_file": (True, none, not_needed, False),
        "workspace.write_file": (False, SideEffect.WORKSPACE, Rollback.CHECKPOINT, False),
        "workspace.apply_patch": (False, SideEffect.WORKSPACE, Rollback.CHECKPOINT, False),
        "workspace.create_checkpoint": (False, SideEffect.CONTROL, not_needed, False),
        "workspace.finish": (False, SideEffect.CONTROL, not_needed, False),
    }
    for tool in TOOLS:
        assert tool.spec.permission is Permission.ALWAYS_ALLOW
        assert tool.isolation is Isolation.THREAD
        assert tool.spec.annotations.retry_safe


def test_every_input_example_fits_its_schema() -> None:
    """A model is only shown calls that work."""
    for tool in TOOLS:
        validator = jsonschema_rs.Draft202012Validator(tool.spec.input_schema)
        assert tool.spec.surface_meta.input_examples
        for example in tool.spec.surface_meta.input_examples:
            validator.validate(example)


def manifest(workspace: Workspace, *required: JsonValue) -> None:
    (workspace.top / "manifest.json").write_text(json.dumps({"required": required, "other": 1}))


def test_finish_without_a_manifest_is_accepted(workspace: Workspace) -> None:
    """The reason comes back as data."""
    output = workspace.finish(reason="all done")

    assert facts_of(output) == {"reason": "all done", "artifacts": [], "checkpoint_id": "cp1"}
    assert not output.is_error
    assert code_of(lambda: workspace.finish(reason="x" * 501)) == "tool.invalid_arguments"


def test_finish_lists_everything_that_is_missing(workspace: Workspace) -> None:
    """One answer names all of it, so one more turn is enough."""
    manifest(
        workspace,
        {"path": "output/none.md"},
        {"path": "output/empty.md"},
        {"path": "output/bad.json", "kind": "json"},
        {"path": "output/long.md", "kind": "markdown", "max_bytes": 3},
        {"path": "output/binary.md"},
        {"path": "output/link.md"},
        {"path": "output/fine.json", "kind": "json"},
    )
    for name, content in {
        "empty.md": b" \n",
        "bad.json": b"{",
        "long.md": b"1234",
        "binary.md": b"\xff",
        "fine.json": b"{}",
    }.items():
        put(workspace, content, f"output/{name}")
    (workspace.top / "output/link.md").symlink_to("fine.json")

    error = refusal(workspace.finish)

    assert error.code == "workspace.manifest_incomplete"
    assert isinstance(error, ToolError)
    repair = cast("dict[str, list[dict[str, str]]]", error.structured)
    assert [item["path"] for item in repair["missing"]] == [
        f"output/{name}"
        for name in ("none.md", "empty.md", "bad.json", "long.md", "binary.md", "link.md")
    ]
    for name in ("none.md", "bad.json"):
        assert name in error.message


def test_finish_accepts_a_complete_manifest(workspace: Workspace) -> None:
    """Non-empty, of its kind, within its size."""
    manifest(workspace, {"path": "output/a.md", "kind": "markdown", "max_bytes": 10})
    put(workspace, b"# fine\n", "output/a.md")

    assert facts_of(workspace.finish())["artifacts"] == ["output/a.md"]


def test_a_broken_manifest_is_not_the_models_fault(workspace: Workspace) -> None:
    """It cannot correct what the runtime wrote."""
    (workspace.top / "manifest.json").write_text("{")

    assert isinstance(refusal(workspace.finish), SystemFailure)
