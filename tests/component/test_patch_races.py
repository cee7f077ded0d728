"""workspace.apply_patch among other writers, strangers without locks, and full disks.

Is: races that are brought about, not waited for. Is not: the death of a worker at any step
(`test_patch_faults.py`).
Above: nothing. Below: `workspaces.py`, `patch_faults.py`.
"""

import collections
import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.component import patch_faults
from tests.component.patch_counters import COUNTED
from tests.component.workspaces import Workspace, code_of, facts_of
from tests.patching import envelope, update
from tests.waiting import wait_until
from toolrail.errors import SystemFailure, ToolError
from toolrail_schemas import sha256_hex
from toolrail_workers.builtin.locks import ThreadLocks
from toolrail_workers.builtin.paths import parse_path
from toolrail_workers.builtin.roots import Roots
from toolrail_workers.builtin.run_workspace import open_workspace, stale_file
from toolrail_workers.builtin.transaction import Edit, Effect

ROOT = Path(__file__).parents[2]
PATH = "output/a.txt"
EDIT = update("-old", "+new")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def started(*words: str) -> subprocess.Popen[str]:
    """Start a module of this folder in a process of its own, as another worker would be."""
    return subprocess.Popen(
        [sys.executable, "-m", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


# Strangers, who take no locks


def edited(workspace: Workspace, edits: list[Edit]) -> None:
    """Make edits below the tool."""
    with (
        open_workspace(
            workspace.top, roots=Roots(), threads=workspace.threads, check_alive=lambda: None
        ) as opened,
        opened.holding([edit.path for edit in edits]),
    ):
        opened.changes.apply(
            edits,
            Effect(facts={}),
            check_alive=lambda: None,
            changed=lambda path: stale_file(path, None),
        )


def meanwhile(action: Callable[[], object]) -> Iterator[bytes]:
    """Yield the new content of a file, and do something while it is written beside it."""
    yield b"n"
    action()
    yield b"ew\n"


@pytest.mark.parametrize("stranger", ["writes", "removes", "makes the new one", "swaps for a link"])
def test_case_53_a_file_that_changes_between_reading_and_renaming_is_stale(
    workspace: Workspace, stranger: str
) -> None:
    """What the stranger did stays, and nothing of the patch is there."""
    first = workspace.put("old\n")
    other = workspace.top / "output/new/b.txt"

    def interfere() -> None:
        if stranger == "writes":
            first.write_text("stranger")
        elif stranger == "removes":
            first.unlink()
        elif stranger == "makes the new one":
            other.write_text("stranger")
        else:
            first.unlink()
            first.symlink_to("nothing")

    edits = [
        Edit(
            path=parse_path("output/new/b.txt"),
            before=None,
            after=sha256_hex(b"new\n"),
            content=meanwhile(interfere),
        ),
        Edit(
            path=parse_path(PATH),
            before=sha256_hex(b"old\n"),
            after=sha256_hex(b"new\n"),
            content=b"new\n",
        ),
    ]

    code = code_of(lambda: edited(workspace, edits))

    links = stranger == "swaps for a link"
    assert code == ("workspace.symlink_refused" if links else "workspace.stale_file")
    cases: dict[str, dict[str, bytes | None]] = {
        "writes": {PATH: b"stranger"},
        "removes": {},
        "makes the new one": {
            PATH: b"old\n",
            "output/new": None,
            "output/new/b.txt": b"stranger",
        },
        "swaps for a link": {PATH: None},
    }
    roots = dict.fromkeys(("input", "output", "scratch", "plan", "summaries", "persist"))
    assert workspace.tree() == {**roots, **cases[stranger]}


@pytest.mark.skipif(sys.platform != "linux", reason="needs renameat2 of Linux")
def test_swapping_a_directory_for_a_link_never_reaches_outside(
    workspace: Workspace, tmp_path: Path
) -> None:
    """However the race ends, nothing outside is read, changed, made or removed."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_bytes(b"0\n")
    folder = workspace.top / "output/d"
    folder.mkdir()
    (folder / "f.txt").write_bytes(b"0\n")
    outcomes: collections.Counter[str] = collections.Counter()
    swapper = started(
        "tests.component.workspaces", str(workspace.top), "swap", str(folder), str(outside)
    )
    try:
        for attempt in range(10_000):
            add = f"output/d/n{attempt}/x.txt"
            patch = envelope("*** Update File: output/d/f.txt", "+x", f"*** Add File: {add}", "+x")
            try:
                workspace.patch(patch)
            except (ToolError, SystemFailure) as error:
                outcomes[error.code] += 1
            else:
                outcomes["ok"] += 1
            if min(outcomes["ok"], outcomes["workspace.path_escape"]) > 20:
                break
    finally:
        swapper.kill()
        swapper.communicate()

    assert outcomes["ok"]
    assert outcomes["workspace.path_escape"]
    assert not outcomes["workspace.io_failed"]
    assert os.listdir(outside) == ["f.txt"]
    assert (outside / "f.txt").read_bytes() == b"0\n"


# Other workers


def test_case_54_eight_workers_lose_no_edit_of_one_file(workspace: Workspace) -> None:
    """Each patches a line of its own again and again; every step of each is there."""
    workspace.put("".join(f"{name}: 0\n" for name in "abcdefgh"))
    writers = started("tests.component.patch_counters", str(workspace.top), PATH, "abcdefgh")
    writers.communicate()

    assert writers.returncode == 0
    assert workspace.tree()[PATH] == "".join(f"{name}: {COUNTED}\n" for name in "abcdefgh").encode()


def test_one_who_waits_for_a_worker_that_dies_midway_takes_its_change_back(
    tmp_path: Path,
) -> None:
    """The lock is free at once, and what it guarded is whole before anybody looks at it."""
    workspace = patch_faults.prepare(tmp_path / "ws")
    old = workspace.tree()
    owner = started("tests.component.patch_faults", str(workspace.top), "stop")
    assert owner.stdout is not None
    assert owner.stdout.readline() == "stopped\n"
    assert workspace.tree() != old
    waiting = threading.Event()

    def note() -> bool:
        waiting.set()
        return False

    context = dataclasses.replace(workspace.context(), stopped=note)
    arguments = {"path": PATH, "content": "mine\n", "mode": "append"}
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(workspace.run, "write_file", dict(arguments), context)
        wait_until(waiting.is_set, "the writer to wait")
        owner.kill()
        owner.communicate()
        writing.result(timeout=20)

    assert workspace.tree() == {**old, PATH: b"a\nmine\n"}


def test_a_change_whose_owner_lives_is_left_alone(tmp_path: Path) -> None:
    """Who opens the workspace meanwhile neither waits nor repairs."""
    workspace = patch_faults.prepare(tmp_path / "ws")
    owner = started("tests.component.patch_faults", str(workspace.top), "stop")
    assert owner.stdout is not None
    assert owner.stdout.readline() == "stopped\n"
    midway = workspace.tree()

    workspace.list()

    assert workspace.tree() == midway
    owner.kill()
    owner.communicate()


def test_case_67_two_attempts_of_one_call_at_once_apply_it_once(workspace: Workspace) -> None:
    """A worker that lost its lease and the one that took over give the same answer."""
    workspace.put("old\n")
    barrier = threading.Barrier(4)
    patch = envelope(f"*** Update File: {PATH}", "+added")

    def attempt(_: int) -> object:
        mine = Workspace(workspace.top, threads=ThreadLocks())
        barrier.wait()
        return facts_of(mine.patch(patch, call_key="f" * 16))

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(attempt, range(4)))

    assert workspace.tree()[PATH] == b"old\nadded\n"
    assert answers == [answers[0]] * 4


def test_a_call_past_its_deadline_changes_nothing(workspace: Workspace) -> None:
    """The last question before the first name changes is whether there is still time."""
    workspace.put("old\n")
    before = workspace.tree()
    context = dataclasses.replace(workspace.context(), deadline=0.0)

    code = code_of(lambda: workspace.run("apply_patch", {"patch": EDIT}, context))

    assert code == "tool.timeout"
    assert workspace.tree() == before


# The disk


@contextmanager
def small_disk(place: Path) -> Generator[None]:
    """Mount a file system of 256 KiB there."""
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root can mount a small file system")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_ends_the_run_and_changes_nothing(tmp_path: Path) -> None:
    """A real one: what fits is not kept either, and with less the same workspace goes on."""
    with small_disk(tmp_path / "disk"):
        workspace = Workspace(tmp_path / "disk/ws")
        workspace.list()
        workspace.put("old\n")
        before = workspace.tree()
        large = [f"+{'x' * 99}" for _ in range(2_200)]
        patch = envelope(
            f"*** Update File: {PATH}", "-old", "+new", "*** Add File: output/b", *large
        )

        error_code = code_of(lambda: workspace.patch(patch))

        assert error_code == "workspace.io_failed"
        assert workspace.tree() == before
        workspace.patch(EDIT)
        assert workspace.tree()[PATH] == b"new\n"


def test_a_read_only_disk_ends_the_run(tmp_path: Path) -> None:
    """As the disk's failure, which no model can repair."""
    with small_disk(tmp_path / "disk"):
        workspace = Workspace(tmp_path / "disk/ws")
        workspace.list()
        workspace.put("old\n")
        remount = ["mount", "-o", "remount,ro", str(tmp_path / "disk")]
        subprocess.run(remount, check=True, capture_output=True)

        assert code_of(lambda: workspace.patch(EDIT)) == "workspace.io_failed"
        assert workspace.tree()[PATH] == b"old\n"
