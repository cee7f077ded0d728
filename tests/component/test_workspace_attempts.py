"""workspace.write_file when the disk is full, and when a call is attempted twice."""

import hashlib
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.component.workspaces import (
    Workspace,
    facts_of,
    refusal,
)
from toolrail.errors import SystemFailure
from toolrail_schemas import JsonObject
from toolrail_workers.builtin.files import claim_name
from toolrail_workers.builtin.paths import parse_path
from toolrail_workers.builtin.roots import Roots
from toolrail_workers.builtin.run_workspace import RunWorkspace, open_workspace
from toolrail_workers.builtin.versions import Mutation

STALE = "workspace.stale_file"
PATH = "output/f.txt"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def on_disk(workspace: Workspace, path: str = PATH) -> bytes:
    return (workspace.top / path).read_bytes()


def entries(workspace: Workspace, folder: str = "output") -> list[str]:
    """Return the names on disk, temp files included."""
    return sorted(os.listdir(workspace.top / folder))


@contextmanager
def opened(workspace: Workspace) -> Generator[RunWorkspace]:
    """Open the workspace below the tools."""
    with open_workspace(
        workspace.top, roots=Roots(), threads=workspace.threads, check_alive=lambda: None
    ) as run_workspace:
        yield run_workspace


# The disk


@contextmanager
def full_disk(limit_bytes: int) -> Generator[None]:
    """Let every file end at so many bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_run_and_leaves_the_file_whole(workspace: Workspace) -> None:
    """The old content stays, the temp file is gone, and the next write works."""
    workspace.write(PATH, "old")

    with full_disk(64 * 1024):
        error = refusal(lambda: workspace.write(PATH, "x" * 500_000))

    assert isinstance(error, SystemFailure)
    assert error.code == "workspace.io_failed"
    assert str(workspace.top) not in error.message
    assert on_disk(workspace) == b"old"
    assert entries(workspace) == ["f.txt"]
    workspace.write(PATH, "new")
    assert on_disk(workspace) == b"new"


def test_a_full_disk_under_the_version_memory_stops_before_the_effect(workspace: Workspace) -> None:
    """What cannot be written down first is not done."""
    workspace.write(PATH, "old")

    with full_disk(8):
        error = refusal(lambda: workspace.write(PATH, "new"))

    assert error.code == "workspace.io_failed"
    assert on_disk(workspace) == b"old"


def test_an_unreadable_memory_refuses_every_change(workspace: Workspace) -> None:
    """To forget would be to do again what was done; the content on disk is untouched."""
    workspace.write(PATH, "a\n", mode="append", call_key="f" * 16)
    for record in (workspace.top / ".toolrail/versions").iterdir():
        record.write_bytes(record.read_bytes()[:-5])

    again = refusal(lambda: workspace.write(PATH, "a\n", mode="append", call_key="f" * 16))
    other = refusal(lambda: workspace.write(PATH, "new"))

    assert isinstance(again, SystemFailure)
    assert (again.code, other.code) == ("workspace.io_failed", "workspace.io_failed")
    assert on_disk(workspace) == b"a\n"


def test_an_effect_that_cannot_be_read_refuses_its_own_call_only(workspace: Workspace) -> None:
    """Nobody else needs it."""
    workspace.write(PATH, "a\n", mode="append", call_key="f" * 16)
    for record in (workspace.top / ".toolrail/versions").iterdir():
        if record.suffix != ".json":
            record.write_bytes(b"")

    again = refusal(lambda: workspace.write(PATH, "a\n", mode="append", call_key="f" * 16))
    workspace.write(PATH, "b\n", mode="append")

    assert again.code == "workspace.io_failed"
    assert on_disk(workspace) == b"a\nb\n"


def test_a_file_system_without_hard_links_still_never_replaces(tmp_path: Path) -> None:
    """The fallback claims the name by making it."""
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        claim_name(folder, "a")
        with pytest.raises(FileExistsError):
            claim_name(folder, "a")
    finally:
        os.close(folder)


# Repeated attempts


def test_a_second_attempt_of_an_append_does_not_append_again(workspace: Workspace) -> None:
    """The same call after a lost worker answers as the first would have, event included."""
    (workspace.top / PATH).write_bytes(b"a\n")
    first = workspace.write(PATH, "b\n", mode="append", call_key="f" * 16)
    workspace.write(PATH, "c\n", mode="append")

    second = workspace.write(PATH, "b\n", mode="append", call_key="f" * 16)

    assert on_disk(workspace) == b"a\nb\nc\n"
    assert second.structured == first.structured
    assert second.events == first.events


@pytest.mark.parametrize("mode", ["replace", "append"])
def test_a_second_attempt_may_come_after_any_number_of_others(
    workspace: Workspace, mode: str
) -> None:
    """What a call did is remembered as long as its run lives."""
    workspace.write(PATH, "0\n", mode=mode, call_key="f" * 16)
    for number in range(1, 41):
        workspace.write(PATH, f"{number}\n", mode="append", call_key=f"{number:016x}")
    before = on_disk(workspace)

    workspace.write(PATH, "0\n", mode=mode, call_key="f" * 16)

    assert on_disk(workspace) == before
    assert before.count(b"\n") == 41


@pytest.mark.parametrize("mode", ["create", "replace", "append"])
def test_a_worker_that_died_after_the_rename_is_not_repeated(
    workspace: Workspace, mode: str
) -> None:
    """The announced change is found in place and counted as done."""
    old = b"a" if mode == "append" else None
    if old is not None:
        (workspace.top / PATH).write_bytes(old)
    new = (old or b"") + b"b"
    with opened(workspace) as run_workspace:
        path = parse_path(PATH)
        facts: JsonObject = {
            "no_change": False,
            "sha256": sha256(new),
            "created": old is None,
            "mode": mode,
            "bytes": len(new),
            "total_lines": 1,
            "old_sha256": None,
        }
        mutation = Mutation(
            "f" * 16,
            None if old is None else sha256(old),
            sha256(new),
            facts=facts,
        )
        run_workspace.versions.announce(path, mutation)
    (workspace.top / PATH).write_bytes(new)

    output = workspace.write(PATH, "b", mode=mode, call_key="f" * 16)

    assert on_disk(workspace) == new
    assert facts_of(output)["sha256"] == sha256(new)


def test_a_worker_that_died_before_the_rename_is_repeated(workspace: Workspace) -> None:
    """An announced change that is not in place has not happened."""
    (workspace.top / PATH).write_bytes(b"a")
    with opened(workspace) as run_workspace:
        mutation = Mutation("f" * 16, sha256(b"a"), sha256(b"ab"), whole=False)
        run_workspace.versions.announce(parse_path(PATH), mutation)

    workspace.write(PATH, "b", mode="append", call_key="f" * 16)

    assert on_disk(workspace) == b"ab"


def test_an_unconfirmed_change_is_settled_by_the_next_writer(workspace: Workspace) -> None:
    """So a late second attempt recognises its effect under somebody else's."""
    (workspace.top / PATH).write_bytes(b"ab")
    with opened(workspace) as run_workspace:
        facts = facts_of(workspace.write("output/other", "x"))
        mutation = Mutation("f" * 16, sha256(b"a"), sha256(b"ab"), whole=False, facts=facts)
        run_workspace.versions.announce(parse_path(PATH), mutation)
    workspace.write(PATH, "c", mode="append")

    workspace.write(PATH, "b", mode="append", call_key="f" * 16)

    assert on_disk(workspace) == b"abc"


def test_a_change_without_a_call_settles_what_a_dead_call_announced(workspace: Workspace) -> None:
    """A team's own tool writes by its path alone; the effect of the dead call stays known."""
    (workspace.top / PATH).write_bytes(b"ab")
    with opened(workspace) as run_workspace:
        facts = facts_of(workspace.write("output/other", "x"))
        mutation = Mutation("f" * 16, sha256(b"a"), sha256(b"ab"), whole=False, facts=facts)
        run_workspace.versions.announce(parse_path(PATH), mutation)
        run_workspace.write_bytes(PATH, b"abc", expected_sha256=sha256(b"ab"))

    workspace.write(PATH, "b", mode="append", call_key="f" * 16)

    assert on_disk(workspace) == b"abc"
