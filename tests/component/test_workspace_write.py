"""workspace.write_file: its modes and versions, what a rename keeps, the diff."""

import hashlib
import os
import stat
from collections.abc import Generator
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
from toolrail.errors import RedisUnavailable, ToolError
from toolrail_schemas import DiffRefBlock, EventType
from toolrail_workers.builtin.roots import Roots
from toolrail_workers.builtin.run_workspace import RunWorkspace, open_workspace

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
        "checkpoint_id": "cp1",
        "no_change": False,
    }
    assert output.events[:1] == (
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
        f"diff --git a/{PATH} b/{PATH}\n--- a/{PATH}\n+++ b/{PATH}\n"
        "@@ -1,2 +1,3 @@\n one\n-two\n+2\n+three\n"
    )


def test_a_path_longer_than_a_diff_may_name_is_written_all_the_same(workspace: Workspace) -> None:
    """A path has 512 bytes, a stored diff names a file in 256 characters: the end of it."""
    path = f"output/{'d' * 200}/{'f' * 200}"
    workspace.keep = lambda data, mime: sha256(data)

    output = workspace.write(path, "one\n")

    block = output.content[-1]
    assert isinstance(block, DiffRefBlock)
    assert block.files == ("…" + path[-255:],)


def test_a_diff_that_cannot_be_stored_is_left_out(workspace: Workspace) -> None:
    """The effect has happened; a convenience must not turn it into an error."""

    def keep(data: bytes, mime: str) -> str:
        raise RedisUnavailable

    workspace.keep = keep

    output = workspace.write(PATH, "one\n")

    assert len(output.content) == 1
    assert on_disk(workspace) == b"one\n"
