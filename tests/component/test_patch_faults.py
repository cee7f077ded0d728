"""A patch that breaks at any step leaves everything old or everything new, never a mixture.

Is: the judgement over what `patch_faults.py` has left behind. Is not: the cases of a patch that
works (`test_patch_disk.py`).
Above: nothing. Below: `patch_faults.py`.
"""

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.component.patch_faults import CALL, PATCH, prepare
from tests.component.workspaces import Workspace, facts_of

Tree = dict[str, bytes | None]


@dataclass(frozen=True)
class Broken:
    """A workspace after a fault."""

    step: int
    workspace: Workspace
    told: str
    """The code of the error, `ok`, or nothing by one who was killed."""


def broken(folder: Path, kind: str) -> list[Broken]:
    """Break a patch at every step and return what is left, in order."""
    subprocess.run(
        [sys.executable, "-m", "tests.component.patch_faults", str(folder), kind],
        cwd=Path(__file__).parents[2],
        check=True,
    )
    steps = sorted(int(place.name) for place in folder.iterdir())
    assert len(steps) > 30
    return [
        Broken(step, Workspace(folder / str(step) / "ws"), (folder / f"{step}/told").read_text())
        for step in steps
    ]


@pytest.fixture
def states(tmp_path: Path) -> tuple[Tree, Tree]:
    """What is there before the patch, and after it."""
    workspace = prepare(tmp_path / "example" / "ws")
    old = workspace.tree()
    workspace.patch(PATCH)
    return old, workspace.tree()


def leftovers(workspace: Workspace) -> list[str]:
    """Return what the run's own directory still holds of changes, and all temp files."""
    intents = os.listdir(workspace.top / ".toolrail/intents")
    return [*intents, *(place.name for place in workspace.top.rglob(".tr-*.tmp"))]


def pending(workspace: Workspace) -> list[str]:
    """Return the changes that are not settled."""
    return [name for name in leftovers(workspace) if not name.endswith(".tmp")]


def test_cases_52_and_67_a_worker_that_dies_anywhere_leaves_old_or_new(
    tmp_path: Path, states: tuple[Tree, Tree]
) -> None:
    """Who opens the workspace next finds one of both, and the same call again makes it new, once.

    Every third time the one who recovers dies on the way, too.
    """
    old, new = states
    seen: set[str] = set()
    for case in broken(tmp_path / "cases", "kill"):
        case.workspace.list()
        found = case.workspace.tree()
        assert found in (old, new), case.step
        seen.add("old" if found == old else "new")
        assert pending(case.workspace) == [], case.step

        again = case.workspace.patch(PATCH, call_key=CALL)

        assert case.workspace.tree() == new, case.step
        assert leftovers(case.workspace) == [], case.step
        mode = (case.workspace.top / "output/a.txt").stat().st_mode
        assert stat.S_IMODE(mode) == 0o750
        once_more = case.workspace.patch(PATCH, call_key=CALL)
        assert facts_of(once_more) == facts_of(again)
        assert once_more.events == again.events
    assert seen == {"old", "new"}


@pytest.mark.parametrize("kind", ["once", "full"])
def test_a_disk_that_fails_at_any_step_leaves_old_or_new(
    tmp_path: Path, states: tuple[Tree, Tree], kind: str
) -> None:
    """At once, without anybody who recovers; the run is told that its disk failed, and whether
    that was after the change.
    """
    old, new = states
    told: set[str] = set()
    for case in broken(tmp_path / "cases", kind):
        found = case.workspace.tree()
        told.add(case.told)
        if case.told in ("ok", "checkpoint.create_failed"):
            assert found == new, case.step
        else:
            assert found in (old, new), (case.step, kind)
        case.workspace.patch(PATCH, call_key=CALL)
        assert case.workspace.tree() == new, case.step
        assert leftovers(case.workspace) == []
    assert told == {"ok", "workspace.io_failed", "checkpoint.create_failed"}


def test_what_could_not_be_taken_back_is_taken_back_later(
    tmp_path: Path, states: tuple[Tree, Tree]
) -> None:
    """A disk that dies in the middle and comes back: the run is told, the next one repairs."""
    old, new = states
    told: set[str] = set()
    for case in broken(tmp_path / "cases", "dead"):
        told.add(case.told)
        case.workspace.list()
        assert case.workspace.tree() in (old, new), case.step
        assert pending(case.workspace) == [], case.step
    assert told == {
        "ok",
        "workspace.io_failed",
        "workspace.rollback_failed",
        "checkpoint.create_failed",
    }
