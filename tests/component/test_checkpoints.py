"""Checkpoints: made after every change, kept once, pruned by age, gone back to."""

import json
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.component.workspaces import Workspace, code_of, facts_of, refusal
from tests.patching import envelope, update
from tests.waiting import wait_until
from toolrail.errors import SystemFailure
from toolrail.tools import ToolOutput
from toolrail_schemas import EventType, JsonObject, sha256_hex
from toolrail_workers.builtin.checkpointing import Restored, restore_checkpoint
from toolrail_workers.builtin.checkpoints import CheckpointLimits
from toolrail_workers.builtin.run_workspace import RunWorkspace, open_workspace

PATH = "output/a.txt"
BLOBS = ".toolrail/blobs"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


@contextmanager
def opened(workspace: Workspace) -> Generator[RunWorkspace]:
    """Open the workspace below the tools."""
    with open_workspace(
        workspace.top,
        roots=workspace.roots,
        threads=workspace.threads,
        check_alive=lambda: None,
        limits=workspace.limits,
    ) as run_workspace:
        yield run_workspace


def checkpoint(workspace: Workspace, **arguments: object) -> JsonObject:
    return facts_of(workspace.run("create_checkpoint", cast("JsonObject", arguments)))


def restored(workspace: Workspace, checkpoint_id: str) -> Restored:
    with opened(workspace) as run_workspace:
        return restore_checkpoint(run_workspace, checkpoint_id)


def ids(workspace: Workspace) -> list[str]:
    with opened(workspace) as run_workspace:
        return [one.checkpoint_id for one in run_workspace.checkpoints.every()]


def id_of(output: ToolOutput) -> str:
    return str(facts_of(output)["checkpoint_id"])


def blobs(workspace: Workspace) -> int:
    return len(os.listdir(workspace.top / BLOBS))


# Making


def test_every_change_makes_one_and_tells_the_journal_after_it(workspace: Workspace) -> None:
    """Of a write and of a patch: effect, its event, then that of the checkpoint."""
    written = workspace.write(PATH, "one\n")
    patched = workspace.patch(update("-one", "+two"))

    assert (id_of(written), id_of(patched)) == ("cp1", "cp2")
    assert [kind for kind, _ in patched.events] == [
        EventType.WORKSPACE_PATCH_APPLIED,
        EventType.CHECKPOINT_CREATED,
    ]
    assert patched.events[1][1] == {
        "checkpoint_id": "cp2",
        "seq": 2,
        "files": 1,
        "bytes": 4,
        "labels": [],
    }


def test_what_changes_nothing_makes_none(workspace: Workspace) -> None:
    """Neither a write of the same content, nor a dry run, nor a patch that does not fit."""
    workspace.write(PATH, "one\n")
    workspace.write(PATH, "one\n")
    workspace.patch(update("-one", "+two"), dry_run=True)
    refusal(lambda: workspace.patch(update("-none", "+two")))

    assert ids(workspace) == ["cp1"]


def test_the_same_state_is_not_kept_twice(workspace: Workspace) -> None:
    """A label goes to the checkpoint that stands for it; the end of a run uses it as well."""
    workspace.write(PATH, "one\n")
    named = checkpoint(workspace, label="first")
    finished = facts_of(workspace.finish())

    assert named == {
        "checkpoint_id": "cp1",
        "seq": 1,
        "files": 1,
        "bytes": 4,
        "reused": True,
        "labels": ["first"],
    }
    assert finished["checkpoint_id"] == "cp1"


def test_a_content_is_kept_once(workspace: Workspace) -> None:
    """However many files and checkpoints hold it."""
    for name in "abc":
        workspace.write(f"output/{name}", "same")
    workspace.write("output/a", "other")
    workspace.write("output/a", "same")

    assert blobs(workspace) == 2


def test_named_paths_alone_can_be_kept(workspace: Workspace) -> None:
    """Also of a folder that is read only; one that is missing means that nothing is made."""
    workspace.put("brief", "input/brief.md")
    workspace.write(PATH, "one\n")
    made = checkpoint(workspace, paths=["input/brief.md"])
    missing = code_of(lambda: checkpoint(workspace, paths=[PATH, "output/none"]))

    assert (made["files"], made["bytes"]) == (1, 5)
    assert missing == "workspace.file_not_found"
    assert ids(workspace) == ["cp1", "cp2"]


def test_a_file_that_has_not_changed_is_not_read_again(workspace: Workspace) -> None:
    """Its size, times and inode stand for it, once it is older than the clock is coarse."""
    workspace.put("one\n", "output/old.txt")
    seen = workspace.top / ".toolrail/checkpoints/seen.json"

    def remembered() -> bool:
        checkpoint(workspace)
        return seen.is_file() and "output/old.txt" in json.loads(seen.read_text())

    wait_until(remembered, "the file to be older than the clock is coarse")
    # Whoever reads it finds another content; whoever trusts the stamp does not look.
    workspace.write("output/x", "x")
    known = json.loads(seen.read_text())
    known["output/old.txt"][4] = sha256_hex(b"x")
    seen.write_text(json.dumps(known))
    workspace.write(PATH, "x")

    with opened(workspace) as run_workspace:
        manifest = run_workspace.checkpoints.manifest("cp3")
    assert manifest is not None
    assert manifest["output/old.txt"].sha256 == sha256_hex(b"x")


def test_a_change_of_the_same_size_at_the_same_time_is_seen(workspace: Workspace) -> None:
    """Right behind the first, with the time of the content set back: the inode's time tells."""
    place = workspace.put("one\n")
    first = str(checkpoint(workspace)["checkpoint_id"])
    times = place.stat()
    with place.open("r+b") as file:
        file.write(b"two\n")
    os.utime(place, ns=(times.st_atime_ns, times.st_mtime_ns))
    second = str(checkpoint(workspace)["checkpoint_id"])

    assert first != second
    restored(workspace, first)
    assert place.read_text() == "one\n"


def test_links_devices_and_our_own_files_are_no_part_of_it(
    workspace: Workspace, tmp_path: Path
) -> None:
    """Nothing outside is read through a link, and a fifo does not stop the run."""
    (tmp_path / "secret").write_text("SECRET")
    (workspace.top / "output/link").symlink_to(tmp_path / "secret")
    (workspace.top / "scratch").rmdir()
    (workspace.top / "scratch").symlink_to(tmp_path)
    os.mkfifo(workspace.top / "output/fifo")
    made = checkpoint(workspace)
    assert (made["files"], made["bytes"]) == (0, 0)


# Limits


def test_the_oldest_without_a_label_give_way(workspace: Workspace) -> None:
    """By number and by size; labels and the last one stay, and contents nobody holds go."""
    workspace.limits = CheckpointLimits(automatic=8)
    workspace.write(PATH, "0")
    checkpoint(workspace, label="keep")
    outputs = [workspace.write(PATH, str(number)) for number in range(1, 12)]
    pruned = [payload for output in outputs for _, payload in output.events if "pruned" in payload]

    kept = ids(workspace)
    assert kept[0] == "cp1"
    assert kept[-1] == "cp12"
    assert len(kept) <= 9
    assert pruned[0]["pruned"] == ["cp2", "cp3", "cp4"][: cast("int", pruned[0]["pruned_count"])]
    assert blobs(workspace) == len(kept)
    manifests = (workspace.top / ".toolrail/checkpoints").glob("cp*.json")
    assert {place.stem for place in manifests} == set(kept)


def test_the_bytes_of_a_run_are_limited(workspace: Workspace) -> None:
    """Old contents go so that a new one fits."""
    workspace.limits = CheckpointLimits(total_bytes=50_000)
    for number in range(20):
        workspace.write(PATH, str(number) * 4_000)
    size = sum(place.stat().st_size for place in (workspace.top / BLOBS).iterdir())

    assert size < 50_000
    assert len(ids(workspace)) < 20


@pytest.mark.parametrize("limits", [CheckpointLimits(files=1), CheckpointLimits(total_bytes=100)])
def test_what_cannot_be_kept_ends_the_run_after_the_change(
    workspace: Workspace, limits: CheckpointLimits
) -> None:
    """The change stands, and the run is told that no checkpoint could be made of it."""
    workspace.put("x" * 60, "output/b")
    workspace.limits = limits
    error = refusal(lambda: workspace.write(PATH, "y" * 60))

    assert isinstance(error, SystemFailure)
    assert error.code == "checkpoint.create_failed"
    assert workspace.tree()[PATH] == b"y" * 60


def test_a_damaged_index_ends_the_run(workspace: Workspace) -> None:
    """To begin anew would be to forget what could be gone back to."""
    workspace.write(PATH, "one")
    (workspace.top / ".toolrail/checkpoints/index.json").write_text("{")

    assert code_of(lambda: workspace.write(PATH, "two")) == "checkpoint.create_failed"


# Going back


def test_going_back_makes_every_file_what_it_was(workspace: Workspace) -> None:
    """Contents, modes and deletions; and the way back from there is kept."""
    workspace.put("a\n").chmod(0o750)
    workspace.put(b"\x00binary", "persist/b.bin")
    first = str(checkpoint(workspace)["checkpoint_id"])
    old = workspace.tree()
    workspace.patch(
        envelope(
            f"*** Update File: {PATH}",
            "-a",
            "+b",
            "*** Add File: scratch/deep/new.txt",
            "+new",
            "*** Delete File: persist/b.bin",
        )
    )
    (workspace.top / PATH).chmod(0o600)
    new = workspace.tree()

    done = restored(workspace, first)

    assert {**workspace.tree(), "scratch/deep": None} == {**old, "scratch/deep": None}
    assert stat.S_IMODE((workspace.top / PATH).stat().st_mode) == 0o750
    assert (done.written, done.removed) == ((PATH, "persist/b.bin"), ("scratch/deep/new.txt",))
    assert done.events[-1][0] is EventType.CHECKPOINT_RESTORED

    restored(workspace, done.undo.checkpoint_id)

    assert workspace.tree() == new
    assert stat.S_IMODE((workspace.top / PATH).stat().st_mode) == 0o600


def test_going_back_to_named_paths_leaves_the_others(workspace: Workspace) -> None:
    """What such a checkpoint does not hold was not looked at, so it is not removed."""
    workspace.write(PATH, "one")
    part = str(checkpoint(workspace, paths=[PATH])["checkpoint_id"])
    workspace.write(PATH, "two")
    workspace.write("output/b.txt", "b")

    restored(workspace, part)

    assert workspace.tree()[PATH] == b"one"
    assert workspace.tree()["output/b.txt"] == b"b"


def test_the_run_must_read_again_what_somebody_has_restored(workspace: Workspace) -> None:
    """It knew another version, and nobody told it."""
    first = id_of(workspace.write(PATH, "one"))
    workspace.write(PATH, "two")
    restored(workspace, first)
    workspace.read(PATH)
    workspace.write(PATH, "three")

    assert workspace.tree()[PATH] == b"three"


def test_a_damaged_content_is_not_restored(workspace: Workspace) -> None:
    """Everything stays as it is, the other files of the checkpoint too."""
    first = id_of(workspace.write(PATH, "one"))
    workspace.write("output/b.txt", "b")
    workspace.write(PATH, "two")
    before = workspace.tree()
    for blob in (workspace.top / BLOBS).iterdir():
        if blob.read_bytes() == b"one":
            blob.write_bytes(b"0ne")

    error = refusal(lambda: restored(workspace, first))

    assert isinstance(error, SystemFailure)
    assert workspace.tree() == before
    assert code_of(lambda: restored(workspace, "cp99")) == "workspace.file_not_found"


def test_a_second_attempt_answers_the_checkpoint_of_the_first(workspace: Workspace) -> None:
    """Though others have changed files since."""
    first = workspace.write(PATH, "a\n", mode="append", call_key="f" * 16)
    workspace.write(PATH, "b\n", mode="append")
    again = workspace.write(PATH, "a\n", mode="append", call_key="f" * 16)

    assert id_of(again) == id_of(first) == "cp1"
    assert again.events == first.events
