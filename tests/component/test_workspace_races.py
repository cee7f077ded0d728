"""workspace.write_file among other writers, and against one who swaps what is there for links."""

import collections
import dataclasses
import hashlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.component.workspaces import (
    Workspace,
    code_of,
    text_of,
)
from tests.waiting import wait_until
from toolrail.errors import SystemFailure, ToolError
from toolrail_workers.builtin.locks import ThreadLocks
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


# Several writers


@contextmanager
def writers_waiting(workspace: Workspace, path: str) -> Generator[None]:
    """Hold the lock of `path`, so that everybody else gets no further than to its version."""
    with opened(workspace) as run_workspace, run_workspace.held(parse_path(path)):
        yield


@pytest.mark.parametrize("explicit", [True, False])
def test_of_concurrent_threads_exactly_one_wins(workspace: Workspace, *, explicit: bool) -> None:
    """All know the same version; the first changes it, the others are told that it is stale."""
    workspace.write(PATH, "start")
    version = {"expected_sha256": sha256(b"start")} if explicit else {}
    waiting: set[int] = set()

    def write(number: int) -> str:
        def note() -> bool:
            waiting.add(number)
            return False

        context = dataclasses.replace(workspace.context(f"{100 + number:016x}"), stopped=note)
        arguments = {"path": PATH, "content": f"{number}" * 10_000, **version}
        try:
            workspace.run("write_file", dict(arguments), context)
        except ToolError as error:
            return error.code
        return "ok"

    with ThreadPoolExecutor(8) as pool:
        with writers_waiting(workspace, PATH):
            futures = [pool.submit(write, number) for number in range(8)]
            wait_until(lambda: len(waiting) == 8, "all writers to wait")
        codes = [future.result() for future in futures]

    content = on_disk(workspace).decode()
    assert sorted(codes) == ["ok"] + [STALE] * 7
    assert content == str(codes.index("ok")) * 10_000
    assert entries(workspace) == ["f.txt"]


def test_of_concurrent_creators_exactly_one_wins(workspace: Workspace) -> None:
    """The name is taken once, also when nobody could lock anybody out."""
    strangers = [Workspace(workspace.top, threads=ThreadLocks(), calls=n * 10) for n in range(6)]
    barrier = threading.Barrier(6)

    def create(number: int) -> str:
        barrier.wait()
        try:
            strangers[number].write(PATH, str(number), mode="create")
        except ToolError as error:
            return error.code
        return "ok"

    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(create, range(6)))

    assert sorted(codes) == ["ok"] + ["workspace.already_exists"] * 5
    assert on_disk(workspace) == str(codes.index("ok")).encode()


def test_concurrent_appends_lose_nothing(workspace: Workspace) -> None:
    """Every addition is there once, whole, in some order."""
    barrier = threading.Barrier(6)

    def append(number: int) -> None:
        barrier.wait()
        for _ in range(5):
            workspace.write(PATH, f"{number}\n" * 100, mode="append", call_key=f"{next(keys):016x}")

    keys = itertools.count(1)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(append, range(6)))

    lines = on_disk(workspace).decode().split("\n")
    assert collections.Counter(lines) == {**{str(n): 500 for n in range(6)}, "": 1}


def start_process(workspace: Workspace, *words: str) -> subprocess.Popen[str]:
    """Start `workspaces.main` in a process of its own, as another worker would be."""
    return subprocess.Popen(  # our own interpreter and module
        [sys.executable, "-m", "tests.component.workspaces", str(workspace.top), *words],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_of_concurrent_processes_exactly_one_wins(workspace: Workspace) -> None:
    """Two workers on one file system keep to the same locks and the same memory."""
    workspace.write(PATH, "start")

    with writers_waiting(workspace, PATH):
        writers = [start_process(workspace, "write", PATH, str(number)) for number in range(3)]
        first = [_line(writer) for writer in writers]
    codes = [_line(writer) for writer in writers]
    for writer in writers:
        writer.communicate()

    assert first == ["waiting"] * 3
    assert sorted(codes) == ["ok", STALE, STALE]
    assert on_disk(workspace) == str(codes.index("ok")).encode()


def test_a_killed_worker_holds_no_lock(workspace: Workspace) -> None:
    """The kernel lets go of it; nobody waits for a lease."""
    holder = start_process(workspace, "hold", PATH)
    assert _line(holder) == "held"
    holder.kill()
    holder.communicate()

    workspace.write(PATH, "x")

    assert on_disk(workspace) == b"x"


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_call_that_waits_for_a_lock_can_be_cancelled(workspace: Workspace) -> None:
    """A thread cannot be killed, so it looks up; nothing is written."""
    stopped = threading.Event()
    context = dataclasses.replace(workspace.context(), stopped=stopped.is_set)

    with ThreadPoolExecutor(1) as pool, writers_waiting(workspace, PATH):
        writing = pool.submit(workspace.run, "write_file", {"path": PATH, "content": "x"}, context)
        stopped.set()
        error = writing.exception(timeout=5)

    assert isinstance(error, ToolError)
    assert error.code == "tool.cancelled"
    assert entries(workspace) == []


def test_a_call_past_its_deadline_has_no_effect(workspace: Workspace) -> None:
    """The last question before the rename is whether there is still time."""
    context = dataclasses.replace(workspace.context(), deadline=0.0)

    code = code_of(lambda: workspace.run("write_file", {"path": PATH, "content": "x"}, context))

    assert code == "tool.timeout"
    assert entries(workspace) == []


def test_a_stranger_that_takes_no_locks_is_noticed(workspace: Workspace) -> None:
    """Between reading and renaming, the content is compared once more."""
    workspace.write(PATH, "old")
    with opened(workspace) as run_workspace:
        path = parse_path(PATH)
        with run_workspace.held(path) as held:
            (workspace.top / PATH).write_bytes(b"stranger")
            mutation = Mutation("f" * 16, held.sha256, sha256(b"new"))
            code = code_of(
                lambda: run_workspace.publish(
                    held, b"new", mutation, changed=ToolError(STALE, "changed")
                )
            )

    assert code == STALE
    assert on_disk(workspace) == b"stranger"
    assert entries(workspace) == ["f.txt"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs renameat2 of Linux")
@pytest.mark.parametrize("swapped", ["directory", "file"])
def test_swapping_what_is_there_for_a_link_never_reaches_outside(
    workspace: Workspace, tmp_path: Path, swapped: str
) -> None:
    """However the race ends: nothing outside is read, listed, written or made."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.txt").write_bytes(b"SECRET")
    folder = workspace.top / "output/d"
    folder.mkdir()
    (folder / "f.txt").write_bytes(b"inside")
    outcomes: collections.Counter[str] = collections.Counter()
    name = "" if swapped == "directory" else "/f.txt"
    swapper = start_process(workspace, "swap", f"{folder}{name}", f"{outside}{name}")
    try:
        for attempt in range(20_000):
            # A write replaces a link that has the file's name, which would end the swapping.
            _touch(workspace, attempt if swapped == "directory" else 3, outcomes)
            if min(outcomes["ok"], outcomes["workspace.path_escape"]) > 300:
                break
    finally:
        swapper.kill()
        swapper.communicate()

    assert outcomes["ok"]
    assert outcomes["workspace.path_escape"]
    assert not outcomes["workspace.io_failed"]
    assert os.listdir(outside) == ["f.txt"]
    assert (outside / "f.txt").read_bytes() == b"SECRET"


def test_a_file_that_became_a_link_since_it_was_looked_at_is_not_opened(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The open itself refuses a link; what was seen before does not count."""
    (tmp_path / "secret").write_bytes(b"SECRET")
    workspace.write(PATH, "inside")

    with opened(workspace) as run_workspace, run_workspace.tree.entry(parse_path(PATH)) as entry:
        (workspace.top / PATH).unlink()
        (workspace.top / PATH).symlink_to(tmp_path / "secret")

        def read() -> None:
            with run_workspace.tree.file(entry):
                pass

        assert code_of(read) == "workspace.path_escape"


def _touch(workspace: Workspace, attempt: int, outcomes: "collections.Counter[str]") -> None:
    path = "output/d/f.txt"
    try:
        if attempt % 20 == 0:
            workspace.write(path, f"mine {attempt}", mode="append")
        elif attempt % 20 == 1:
            workspace.write(f"output/d/new{attempt}/x.txt", "mine", mode="create")
        elif attempt % 20 == 2:
            assert "SECRET" not in text_of(workspace.list(prefix="output", depth=4))
        else:
            assert "SECRET" not in text_of(workspace.read(path))
    except (ToolError, SystemFailure) as error:
        outcomes[error.code] += 1
    else:
        outcomes["ok"] += 1
