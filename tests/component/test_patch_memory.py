"""What a run knows of the files that it patches, and what it is told when that fails."""

from pathlib import Path
from typing import cast

import pytest

from tests.component.workspaces import Workspace, code_of, refusal
from tests.patching import envelope, update
from toolrail.errors import ToolError
from toolrail_schemas import JsonObject, sha256_hex

PATH = "output/a.txt"
EDIT = update("-old", "+new")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def test_the_run_may_replace_what_it_has_patched(workspace: Workspace) -> None:
    """Each new version is known; one that is gone is not."""
    workspace.put("old\n")
    workspace.patch(EDIT)
    workspace.write(PATH, "whole")
    workspace.patch(envelope(f"*** Delete File: {PATH}"))
    workspace.put("somebody else's")

    assert code_of(lambda: workspace.write(PATH, "mine")) == "workspace.write_requires_read"


def test_after_three_failures_the_file_must_be_read_whole(workspace: Workspace) -> None:
    """Reading a part is not enough; reading all of it is, even in parts."""
    workspace.put("one\ntwo\nthree\n")
    workspace.read(PATH)
    for _ in range(3):
        assert code_of(lambda: workspace.patch(EDIT)) == "patch.context_mismatch"
    good = update("-two", "+2")
    assert code_of(lambda: workspace.patch(good)) == "patch.requires_full_read"
    workspace.read(PATH, start_line=1, line_count=2)
    assert code_of(lambda: workspace.patch(good)) == "patch.requires_full_read"

    workspace.read(PATH, start_line=3, line_count=1)
    workspace.patch(good)

    assert workspace.tree()[PATH] == b"one\n2\nthree\n"


def test_a_success_forgives_earlier_failures(workspace: Workspace) -> None:
    """Only failures in a row count, and a repeated attempt of one call counts once."""
    workspace.put("old\n")
    wrong = update("-other", "+x")
    for _ in range(5):
        assert code_of(lambda: workspace.patch(wrong, call_key="f" * 16)) == (
            "patch.context_mismatch"
        )
    refusal(lambda: workspace.patch(wrong))
    workspace.patch(EDIT)
    for _ in range(2):
        refusal(lambda: workspace.patch(wrong))

    workspace.patch(update("-new", "+newer"))


def test_an_error_shows_the_model_what_to_repair(workspace: Workspace) -> None:
    """Place, version, the lines around and what to do next, in at most 2000 characters."""
    lines = [f"line {number} {'x' * 300}" for number in range(1, 60)]
    workspace.put("\n".join(lines))
    error = refusal(lambda: workspace.patch(update(f" {lines[29]}", "-line 31", "+x")))

    assert isinstance(error, ToolError)
    facts = cast("JsonObject", error.structured)
    assert (facts["op"], facts["chunk"], facts["path"]) == (1, 1, PATH)
    assert facts["current_sha256"] == sha256_hex("\n".join(lines).encode())
    assert len(error.message) <= 2000
    assert "31: line 31" in error.message
    assert "workspace.read_file with start_line" in error.message
