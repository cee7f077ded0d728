"""workspace.write_file: versions, races, repeated attempts, and what the disk can do to it."""

import collections
import dataclasses
import hashlib
import itertools
import os
import resource
import stat
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.component.workspaces import (
    RUN_ID,
    Workspace,
    code_of,
    facts_of,
    refusal,
    text_of,
)
from tests.waiting import wait_until
from toolrail.errors import RedisUnavailable, SystemFailure, ToolError
from toolrail_schemas import DiffRefBlock, EventType, JsonObject
from toolrail_workers.builtin.files import claim_name
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


# The three modes


def test_create_makes_a_file_and_its_directories(workspace: Workspace) -> None:
    """The answer tells version, size and lines; the journal gets one event."""
    output = workspace.write("output/a/b.txt", "ä\nb", mode="create")

    content = "ä\nb".encode()
    assert facts_of(output) == {
        "path": "output/a/b.txt",
        "mode": "create",
        "created": True,
        "bytes": 4,
        "total_lines": 2,
        "sha256": sha256(content),
        "old_sha256": None,
        "checkpoint_id": None,
        "no_change": False,
    }
    assert output.events == (
        (
            EventType.WORKSPACE_FILE_WRITTEN,
            {
                "path": "output/a/b.txt",
                "sha256": sha256(content),
                "bytes": 4,
                "old_sha256": None,
            },
        ),
    )
    assert on_disk(workspace, "output/a/b.txt") == content
    assert entries(workspace, "output/a") == ["b.txt"]
    assert "Created output/a/b.txt" in text_of(output)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_create_never_replaces(workspace: Workspace, kind: str) -> None:
    """Whatever has the name keeps it."""
    target = workspace.top / PATH
    if kind == "file":
        target.write_bytes(b"old")
    elif kind == "directory":
        target.mkdir()
    else:
        target.symlink_to("elsewhere")

    code = code_of(lambda: workspace.write(PATH, "new", mode="create"))

    assert (
        code
        == {
            "file": "workspace.already_exists",
            "directory": "workspace.path_is_directory",
            "link": "workspace.symlink_refused",
        }[kind]
    )
    assert entries(workspace) == ["f.txt"]


def test_replace_needs_a_version(workspace: Workspace) -> None:
    """What this run has not seen is not overwritten; reading it, even in part, is enough."""
    (workspace.top / PATH).write_bytes(b"one\ntwo\n")

    assert code_of(lambda: workspace.write(PATH, "new")) == "workspace.write_requires_read"
    workspace.read(PATH, start_line=1, line_count=1)
    output = workspace.write(PATH, "new")

    assert on_disk(workspace) == b"new"
    assert facts_of(output)["old_sha256"] == sha256(b"one\ntwo\n")
    assert facts_of(output)["created"] is False


def test_replace_takes_the_version_it_is_given(workspace: Workspace) -> None:
    """An explicit version counts before the remembered one, right or wrong."""
    (workspace.top / PATH).write_bytes(b"old")

    error = refusal(lambda: workspace.write(PATH, "new", expected_sha256=sha256(b"other")))

    assert error.code == STALE
    assert isinstance(error, ToolError)
    assert error.structured == {"path": PATH, "current_sha256": sha256(b"old")}
    workspace.write(PATH, "new", expected_sha256=sha256(b"old"))
    assert on_disk(workspace) == b"new"


def test_a_file_changed_behind_our_back_is_stale(workspace: Workspace) -> None:
    """The same length and the same mtime do not hide a change: content is compared."""
    workspace.write(PATH, "aaa")
    times = (workspace.top / PATH).stat()
    (workspace.top / PATH).write_bytes(b"bbb")
    os.utime(workspace.top / PATH, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert code_of(lambda: workspace.write(PATH, "ccc")) == STALE
    assert on_disk(workspace) == b"bbb"
    workspace.read(PATH)
    workspace.write(PATH, "ccc")
    assert on_disk(workspace) == b"ccc"


def test_what_the_run_wrote_it_may_replace(workspace: Workspace) -> None:
    """A written version is a known one; the memory survives the process."""
    workspace.write(PATH, "one")
    later = Workspace(workspace.top, calls=100)

    later.write(PATH, "two")

    assert on_disk(workspace) == b"two"


def test_replace_of_a_missing_file_creates_it(workspace: Workspace) -> None:
    """Nothing unseen is lost; but a version that was asked for must be there."""
    assert code_of(lambda: workspace.write(PATH, "x", expected_sha256=sha256(b"x"))) == STALE
    assert facts_of(workspace.write(PATH, "x"))["created"] is True
    (workspace.top / PATH).unlink()
    assert facts_of(workspace.write(PATH, "y"))["created"] is True


def test_append_adds_exactly_what_is_given(workspace: Workspace) -> None:
    """No newline is added, no ending converted; a missing file is made."""
    workspace.write(PATH, "a", mode="append")
    workspace.write(PATH, "b\n", mode="append")
    (workspace.top / "output/crlf.txt").write_bytes(b"a\r\n")

    workspace.write("output/crlf.txt", "b\n", mode="append")

    assert on_disk(workspace) == b"ab\n"
    assert on_disk(workspace, "output/crlf.txt") == b"a\r\nb\n"


def test_append_refuses_what_is_not_text(workspace: Workspace) -> None:
    """A picture is not damaged by a line of text."""
    (workspace.top / PATH).write_bytes(b"\x89PNG\r\n\x1a\n\x00")

    output = workspace.write(PATH, "x", mode="append")

    assert output.error_code == "workspace.not_text"
    assert on_disk(workspace) == b"\x89PNG\r\n\x1a\n\x00"


def test_append_with_a_version_checks_it(workspace: Workspace) -> None:
    """Without one, an addition loses nothing and needs none."""
    (workspace.top / PATH).write_bytes(b"a")

    wrong = code_of(lambda: workspace.write(PATH, "b", mode="append", expected_sha256="0" * 64))

    assert wrong == STALE
    workspace.write(PATH, "b", mode="append", expected_sha256=sha256(b"a"))
    assert on_disk(workspace) == b"ab"


def test_unchanged_content_is_a_success_without_an_event(workspace: Workspace) -> None:
    """The file is not touched, and the run knows its version afterwards."""
    (workspace.top / PATH).write_bytes(b"same")
    before = (workspace.top / PATH).stat()

    output = workspace.write(PATH, "same")

    assert facts_of(output)["no_change"] is True
    assert output.events == ()
    assert (workspace.top / PATH).stat().st_ino == before.st_ino
    workspace.write(PATH, "other")
    assert on_disk(workspace) == b"other"


@pytest.mark.parametrize("content", ["", "\ufeffa", "a\r\nb", "a\x00b", "😀", "\u2028"])
def test_content_is_written_exactly_as_given(workspace: Workspace, content: str) -> None:
    """No byte order mark is added or removed, no ending changed; empty has no lines."""
    (workspace.top / PATH).write_bytes(b"\xef\xbb\xbfold\r\n")
    workspace.read(PATH)

    facts = facts_of(workspace.write(PATH, content))

    assert on_disk(workspace) == content.encode()
    assert facts["total_lines"] == (0 if not content else content.count("\n") + 1)


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ({"mode": "create", "expected_sha256": "0" * 64}, "x"),
        ({"mode": "other"}, "x"),
        ({"expected_sha256": "abc"}, "x"),
        ({}, "é" * (256 * 1024 + 1)),
        ({}, "x" * (512 * 1024 + 1)),
        ({}, "\ud800"),
    ],
)
def test_wrong_arguments_change_nothing(
    workspace: Workspace, arguments: dict[str, str], content: str
) -> None:
    """Too long, contradictory or not Unicode: told before anything is touched."""
    code = code_of(lambda: workspace.write(PATH, content, **arguments))

    assert code == "tool.invalid_arguments"
    assert entries(workspace) == []


def test_the_largest_content_is_written(workspace: Workspace) -> None:
    """512 KiB are within."""
    assert facts_of(workspace.write(PATH, "x" * 512 * 1024))["bytes"] == 512 * 1024


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("input/x", "workspace.path_not_writable"),
        ("journal/x", "workspace.path_not_visible"),
        ("manifest.json", "workspace.path_not_visible"),
        ("x.txt", "workspace.path_not_visible"),
        ("output", "workspace.path_is_directory"),
        ("output/", "workspace.invalid_path"),
        ("../x", "workspace.path_escape"),
    ],
)
def test_paths_are_judged_before_anything_else(workspace: Workspace, path: str, code: str) -> None:
    """The path rules hold for writes; `test_workspace_paths.py` has the whole table."""
    assert code_of(lambda: workspace.write(path, "x")) == code


# What a rename keeps and what it leaves alone


def test_mode_bits_stay_and_dangerous_ones_go(workspace: Workspace) -> None:
    """An executable stays one; set-user-id content is not written by a model."""
    workspace.write(PATH, "one")
    (workspace.top / PATH).chmod(0o4751)

    workspace.write(PATH, "two")

    assert stat.S_IMODE((workspace.top / PATH).stat().st_mode) == 0o751


def test_a_private_file_stays_private_and_a_new_one_follows_the_umask(workspace: Workspace) -> None:
    """No copy of it is readable for others, not even for a moment."""
    workspace.write(PATH, "one")
    assert stat.S_IMODE((workspace.top / PATH).stat().st_mode) & 0o600 == 0o600
    (workspace.top / PATH).chmod(0o600)

    workspace.write(PATH, "two")

    assert stat.S_IMODE((workspace.top / PATH).stat().st_mode) == 0o600


def test_another_name_of_the_file_keeps_the_old_content(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A hard link from outside is never written through."""
    alias = tmp_path / "alias"
    alias.write_bytes(b"outside")
    os.link(alias, workspace.top / PATH)
    workspace.read(PATH)

    workspace.write(PATH, "inside")

    assert alias.read_bytes() == b"outside"
    assert on_disk(workspace) == b"inside"


def test_the_longest_name_can_be_written(workspace: Workspace) -> None:
    """The temp name has a fixed length and does not overflow."""
    name = "n" * 251 + ".txt"

    workspace.write(f"output/{name}", "one")
    workspace.write(f"output/{name}", "two")

    assert entries(workspace) == [name]


def test_a_temp_file_of_a_killed_worker_is_taken_over(workspace: Workspace) -> None:
    """Leftovers are invisible, the next write removes them, and a planted link is not followed."""
    workspace.write(PATH, "one")
    temp = f".tr-{hashlib.sha256(PATH.encode()).hexdigest()[:16]}.tmp"
    (workspace.top / "output" / temp).symlink_to(workspace.top / "input" / "planted")
    listed = workspace.list(prefix="output", include_hidden=True)

    workspace.write(PATH, "two")

    assert temp not in text_of(listed)
    assert entries(workspace) == ["f.txt"]
    assert not (workspace.top / "input" / "planted").exists()


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


def test_an_unreadable_version_memory_forgets_but_never_guesses(workspace: Workspace) -> None:
    """Half a record counts as none: the model has to read again."""
    workspace.write(PATH, "old")
    for record in (workspace.top / ".toolrail/versions").iterdir():
        record.write_bytes(record.read_bytes()[:-5])

    assert code_of(lambda: workspace.write(PATH, "new")) == "workspace.write_requires_read"
    workspace.read(PATH)
    workspace.write(PATH, "new")
    assert on_disk(workspace) == b"new"


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


# The diff


def test_a_change_comes_with_its_diff(workspace: Workspace) -> None:
    """The text of the diff is stored; the answer refers to it and counts its lines."""
    stored: dict[str, bytes] = {}

    def keep(data: bytes, mime: str) -> str:
        assert mime == "text/x-diff"
        stored[sha256(data)] = data
        return sha256(data)

    workspace.keep = keep
    workspace.write(PATH, "one\ntwo\n")

    output = workspace.write(PATH, "one\n2\nthree\n")

    block = output.content[-1]
    assert isinstance(block, DiffRefBlock)
    assert (block.added, block.removed, block.files) == (2, 1, (PATH,))
    assert block.ref in output.resource_refs
    digest = block.ref.removeprefix(f"artifact:{RUN_ID}/")
    assert stored[digest].decode() == (
        f"--- a/{PATH}\n+++ b/{PATH}\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+three\n"
    )


def test_a_diff_that_cannot_be_stored_is_left_out(workspace: Workspace) -> None:
    """The effect has happened; a convenience must not turn it into an error."""

    def keep(data: bytes, mime: str) -> str:
        raise RedisUnavailable

    workspace.keep = keep

    output = workspace.write(PATH, "one\n")

    assert len(output.content) == 1
    assert on_disk(workspace) == b"one\n"
