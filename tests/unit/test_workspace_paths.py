"""Every row of the path table (semantics 5.1), on a real directory tree."""

import os
import socket
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.promises import promise
from tests.unit.path_table import (
    ESCAPE,
    INVALID,
    IRREGULAR,
    LINKS,
    MISSING,
    NOT_DIRECTORY,
    NOT_VISIBLE,
    NOT_WRITABLE,
    ROWS,
)
from toolrail.errors import SystemFailure, ToolError, ToolrailError
from toolrail_workers.builtin.locks import ThreadLocks
from toolrail_workers.builtin.paths import is_device_name, parse_path
from toolrail_workers.builtin.roots import Root, RootKind, Roots
from toolrail_workers.builtin.run_workspace import RunWorkspace, open_workspace

OUTSIDE = b"secret of the host"


def nothing() -> None:
    """Say that the call may go on."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with files, links of every kind, and a world outside of it."""
    base = tmp_path_factory.mktemp("host")
    outside = base / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_bytes(OUTSIDE)
    top = base / "ws"
    with open_workspace(top, roots=Roots(), threads=ThreadLocks(), check_alive=nothing):
        pass
    output = top / "output"
    (output / "file.txt").write_text("inside")
    (output / "dir").mkdir()
    (output / "dir" / "deep.txt").write_text("inside")
    (output / unicodedata.normalize("NFD", "café.txt")).write_text("inside")
    (top / "journal").mkdir()
    (top / "journal" / "0001").write_text("reserved")
    (top / "manifest.json").write_text("{}")
    for name, target in LINKS.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).symlink_to(target)
    os.mkfifo(output / "fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(output)
    try:
        listener.bind("sock")
    finally:
        os.chdir(here)
        listener.close()
    return top


@pytest.fixture
def workspace(place: Path) -> Iterator[RunWorkspace]:
    with open_workspace(place, roots=Roots(), threads=ThreadLocks(), check_alive=nothing) as opened:
        yield opened


def refusal_of(workspace: RunWorkspace, path: str, *, writing: bool) -> ToolrailError | None:
    """Return what a read, or a write of a version that nothing has, ends with."""
    try:
        if writing:
            workspace.write_bytes(path, b"x", expected_sha256="0" * 64)
        else:
            workspace.read_bytes(path)
    except (ToolError, SystemFailure) as error:
        return error
    return None


def code_of(workspace: RunWorkspace, path: str, *, writing: bool = False) -> str:
    """Return the code of the refusal, or ok; only an escape is a system failure."""
    refusal = refusal_of(workspace, path, writing=writing)
    if refusal is None:
        return "ok"
    assert isinstance(refusal, SystemFailure) == (refusal.code == ESCAPE)
    assert workspace.tree.host_paths[-1] not in str(refusal)
    return refusal.code


@pytest.mark.parametrize(("path", "expected"), ROWS)
@promise("workspace.no-escape")
def test_a_read_of_any_path_ends_as_the_table_says(
    workspace: RunWorkspace, place: Path, path: str, expected: str
) -> None:
    """One row of the table each; a well-formed path at which there is nothing is a missing file."""
    path = path.replace("{top}", str(place))

    code = code_of(workspace, path)

    assert code == (MISSING if expected in ("deep", "long", "odd") else expected)


@pytest.mark.parametrize(("path", "expected"), ROWS)
@promise("workspace.no-escape")
def test_a_write_of_any_path_ends_as_the_table_says(
    workspace: RunWorkspace, place: Path, path: str, expected: str
) -> None:
    """The same table for writes; a path that is fine gets as far as the version check."""
    path = path.replace("{top}", str(place))

    code = code_of(workspace, path, writing=True)

    assert code == (
        "workspace.stale_file" if expected in ("deep", "long", "odd", "ok") else expected
    )
    assert (place.parent / "outside" / "secret.txt").read_bytes() == OUTSIDE
    assert os.listdir(place.parent / "outside") == ["secret.txt"]


@pytest.mark.parametrize(
    ("path", "use"),
    [
        ("/workspace/output/file.txt", "output/file.txt"),
        ("\\workspace\\output\\.\\file.txt", "output/file.txt"),
        ("{top}//output/file.txt", "output/file.txt"),
    ],
)
def test_an_absolute_path_inside_is_answered_with_the_relative_one(
    workspace: RunWorkspace, place: Path, path: str, use: str
) -> None:
    """The model is told the path it meant, and no path of the host."""
    with pytest.raises(ToolError) as caught:
        workspace.resolve(path.replace("{top}", str(place)))

    assert caught.value.structured == {"use": use}
    assert use in str(caught.value.next_action)
    assert str(place) not in f"{caught.value.message} {caught.value.next_action}"


def test_a_workspace_reached_through_a_link_knows_both_its_paths(tmp_path: Path) -> None:
    """An operator may link the workspace root; both spellings are inside."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    with open_workspace(
        tmp_path / "link" / "ws", roots=Roots(), threads=ThreadLocks(), check_alive=nothing
    ) as opened:
        for base in ("link", "real"):
            assert code_of(opened, f"{tmp_path}/{base}/ws/output/x") == INVALID
        assert code_of(opened, f"{tmp_path}/link/other") == ESCAPE


def test_a_run_directory_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    """Whoever can plant a link in the workspace root gains nothing."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ws").symlink_to("elsewhere")

    with (
        pytest.raises(SystemFailure) as caught,
        open_workspace(tmp_path / "ws", roots=Roots(), threads=ThreadLocks(), check_alive=nothing),
    ):
        pass

    assert caught.value.code == "workspace.io_failed"
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_root_that_is_not_writable_is_readable_only(workspace: RunWorkspace, place: Path) -> None:
    """`input/` is given, not made."""
    (place / "input" / "brief.md").write_text("read me")

    assert code_of(workspace, "input/brief.md") == "ok"
    assert code_of(workspace, "input/brief.md", writing=True) == NOT_WRITABLE
    assert code_of(workspace, "input/new.md", writing=True) == NOT_WRITABLE


def test_a_profile_only_takes_away(place: Path) -> None:
    """A hidden root looks like one that does not exist; a read-only one says so."""
    roots = Roots().narrowed(hide=["plan", "input"], read_only=["output"])

    with open_workspace(
        place, roots=roots, threads=ThreadLocks(), check_alive=nothing
    ) as workspace:
        assert code_of(workspace, "plan/x") == NOT_VISIBLE
        assert code_of(workspace, "plan/x", writing=True) == NOT_VISIBLE
        assert code_of(workspace, "output/file.txt") == "ok"
        assert code_of(workspace, "output/file.txt", writing=True) == NOT_WRITABLE
        with pytest.raises(ToolError) as hidden:
            workspace.resolve("plan/x")
        assert "input/" not in str(hidden.value.next_action)
    assert Roots([Root(name="x", kind=RootKind.GENERATED, visible=False)]).narrowed().visible == []


def test_a_root_cannot_take_a_reserved_name() -> None:
    """The runtime's own directories are never given out."""
    with pytest.raises(ValueError, match="journal"):
        Roots([Root(name="journal", kind=RootKind.GENERATED)])


def test_a_name_in_another_unicode_form_is_the_same_file(
    workspace: RunWorkspace, place: Path
) -> None:
    """An NFD name on disk is found, replaced under its own name, and not doubled."""
    folder = place / "scratch"
    decomposed = unicodedata.normalize("NFD", "né.txt")
    (folder / decomposed).write_bytes(b"old")
    current = workspace.read_bytes("scratch/né.txt")
    with workspace.held(workspace.resolve("scratch/né.txt")) as held:
        before = held.sha256
    workspace.write_bytes("scratch/né.txt", b"new", expected_sha256=before)

    assert current == b"old"
    assert os.listdir(folder) == [decomposed]
    assert (folder / decomposed).read_bytes() == b"new"


def test_an_exact_name_wins_and_two_inexact_ones_are_a_miss(
    workspace: RunWorkspace, place: Path
) -> None:
    """A lookup never guesses between two files."""
    folder = place / "summaries"
    both = "\u1e9b\u0323"  # its NFC is itself; two other spellings follow
    one, two = unicodedata.normalize("NFD", both), "\u017f\u0307\u0323"
    assert unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", two) == both
    (folder / one).write_bytes(b"one")
    (folder / two).write_bytes(b"two")

    assert code_of(workspace, f"summaries/{both}") == MISSING
    (folder / both).write_bytes(b"exact")
    assert workspace.read_bytes(f"summaries/{both}") == b"exact"


def test_a_write_that_is_refused_makes_no_directories(workspace: RunWorkspace, place: Path) -> None:
    """A failed call leaves nothing behind."""
    assert code_of(workspace, "plan/a/b/c.txt", writing=True) == "workspace.stale_file"
    assert os.listdir(place / "plan") == []


def test_a_new_name_is_stored_composed(workspace: RunWorkspace, place: Path) -> None:
    """Whatever form a model sends, one form reaches the disk."""
    path = unicodedata.normalize("NFD", "persist/ö/ü.txt")

    workspace.write_bytes(path, b"x", expected_sha256=None)

    assert os.listdir(place / "persist") == [unicodedata.normalize("NFC", "ö")]
    assert os.listdir(place / "persist" / "ö") == [unicodedata.normalize("NFC", "ü.txt")]


SEGMENTS = st.one_of(
    st.sampled_from(
        [
            *(name.rsplit("/", 1)[-1] for name in LINKS),
            *("output", "input", "dir", "file.txt", "deep.txt", "journal", "outside", "secret.txt"),
            *(
                "..",
                ".",
                "",
                "~",
                "C:",
                "file:",
                "workspace",
                "ws",
                "etc",
                "passwd",
                "fifo",
                "sock",
            ),
        ]
    ),
    st.text(max_size=4),
)


@settings(
    max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    parts=st.lists(SEGMENTS, max_size=8),
    slash=st.sampled_from(["/", "\\"]),
    start=st.sampled_from(["", "output/", "output/dir/", "/", "//", "{top}/", "C:\\"]),
    writing=st.booleans(),
)
@promise("workspace.no-escape")
def test_no_path_reaches_outside(
    workspace: RunWorkspace, place: Path, parts: list[str], slash: str, start: str, *, writing: bool
) -> None:
    """Against realpath: what resolves outside never succeeds, and through a link ends the run."""
    raw = start.replace("{top}", str(place)) + slash.join(parts)
    outside = place.parent / "outside"

    code = code_of(workspace, raw, writing=writing)

    assert os.listdir(outside) == ["secret.txt"]
    assert (outside / "secret.txt").read_bytes() == OUTSIDE
    plain = raw.replace("\\", "/")
    if "\x00" in plain or any(0xD800 <= ord(char) < 0xE000 for char in plain):
        assert code != "ok"
        return
    real = os.path.realpath(place / plain.lstrip("/") if start != "{top}/" else plain)
    inside = real == str(place) or real.startswith(f"{place}{os.sep}")
    relative = not plain.startswith("/") and ":" not in plain
    if relative and not inside:
        assert code in (ESCAPE, INVALID, NOT_DIRECTORY, IRREGULAR, NOT_VISIBLE)
    if code == "ok":
        assert inside
        assert real == str(place / os.path.normpath(plain))


@settings(max_examples=300, deadline=None)
@given(raw=st.text(max_size=60) | st.lists(SEGMENTS, max_size=6).map("/".join))
def test_a_parsed_path_is_clean_and_parses_to_itself(raw: str) -> None:
    """What the grammar accepts is relative, composed, within its limits, and stable."""
    try:
        path = parse_path(raw)
    except (ToolError, SystemFailure) as error:
        # Any other code would be a bug of the grammar, and no path is only an outcome.
        assume(error.code not in (INVALID, ESCAPE))
        raise

    assert parse_path(str(path)) == path
    assert unicodedata.is_normalized("NFC", str(path))
    assert not {"", ".", ".."} & set(path.segments)
    assert not any(map(is_device_name, path.segments))
    assert len(str(path).encode()) <= 512
