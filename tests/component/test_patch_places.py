"""workspace.apply_patch among links, devices, odd names and paths nobody may write."""

import os
import stat
from functools import partial
from pathlib import Path

import pytest

from tests.component.workspaces import Workspace, code_of, refusal
from tests.patching import envelope, update
from toolrail.errors import SystemFailure

PATH = "output/a.txt"
EDIT = update("-old", "+new")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def test_case_55_a_link_at_the_path_is_never_followed(workspace: Workspace) -> None:
    """Update and deletion are refused; what it leads to stays."""
    workspace.put("old\n", "output/real.txt")
    (workspace.top / PATH).symlink_to("real.txt")

    for patch in (EDIT, envelope(f"*** Delete File: {PATH}")):
        assert code_of(partial(workspace.patch, patch)) == "workspace.symlink_refused"
    assert workspace.tree()["output/real.txt"] == b"old\n"
    assert (workspace.top / PATH).is_symlink()


@pytest.mark.parametrize(
    "patch",
    [
        update("-old", "+new", path="output/link/a.txt"),
        envelope("*** Add File: output/link/b.txt", "+x"),
        envelope("*** Delete File: output/link/a.txt"),
        envelope(f"*** Update File: {PATH}", "*** Move to: output/link/c.txt"),
    ],
    ids=["update", "add", "delete", "move"],
)
def test_case_56_a_parent_that_links_outside_ends_the_run(
    workspace: Workspace, tmp_path: Path, patch: str
) -> None:
    """In every kind of section, and nothing outside is touched."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("old\n")
    (workspace.top / "output/link").symlink_to(outside)
    workspace.put("old\n")

    error = refusal(lambda: workspace.patch(patch))

    assert isinstance(error, SystemFailure)
    assert error.code == "workspace.path_escape"
    assert os.listdir(outside) == ["a.txt"]
    assert (outside / "a.txt").read_text() == "old\n"


def test_adding_at_a_dangling_link_is_told_by_where_it_leads(workspace: Workspace) -> None:
    """Outside ends the run, inside is something that exists, a loop is a link."""
    for name, target in (("out", "/nowhere/x"), ("in", "none"), ("loop", "loop")):
        (workspace.top / "output" / name).symlink_to(target)
    codes = [
        code_of(partial(workspace.patch, envelope(f"*** Add File: output/{name}", "+x")))
        for name in ("out", "in", "loop")
    ]
    assert codes == ["workspace.path_escape", "patch.target_exists", "workspace.symlink_refused"]


def test_case_57_another_name_of_the_file_keeps_the_old_content(
    workspace: Workspace, tmp_path: Path
) -> None:
    """A hard link from outside is never written through."""
    place = workspace.put("old\n")
    alias = tmp_path / "alias"
    os.link(place, alias)
    workspace.patch(EDIT)

    assert alias.read_text() == "old\n"
    assert place.read_text() == "new\n"


def test_case_58_mode_bits_are_kept(workspace: Workspace) -> None:
    """Through an update and through a move with one."""
    workspace.put("old\n").chmod(0o751)
    workspace.patch(EDIT)
    workspace.patch(
        envelope(f"*** Update File: {PATH}", "*** Move to: output/b.txt", "@@", "-new", "+newer")
    )
    assert stat.S_IMODE((workspace.top / "output/b.txt").stat().st_mode) == 0o751


@pytest.mark.parametrize("name", ["n" * 255, "名" * 85])
def test_case_59_the_longest_name_is_patched(workspace: Workspace, name: str) -> None:
    """The temporary name beside it is short whatever the name is."""
    path = f"output/{name}"
    workspace.patch(envelope(f"*** Add File: {path}", "+old"))
    workspace.patch(update("-old", "+new", path=path))

    assert workspace.tree()[path] == b"new\n"


def test_case_60_a_decomposed_name_is_found_kept_and_respelled(workspace: Workspace) -> None:
    """An update leaves the name on disk; a rename to the composed spelling changes it alone."""
    composed, decomposed = "caf\u00e9.txt", "cafe\u0301.txt"
    workspace.put("old\n", f"output/{decomposed}")
    workspace.patch(update("-old", "+new", path=f"output/{composed}"))
    assert os.listdir(workspace.top / "output") == [decomposed]

    workspace.patch(
        envelope(f"*** Update File: output/{decomposed}", f"*** Move to: output/{composed}")
    )

    assert os.listdir(workspace.top / "output") == [composed]
    assert workspace.tree()[f"output/{composed}"] == b"new\n"


@pytest.mark.parametrize("third", ["../x", "/etc/passwd", "output/../../x", "C:/x"])
def test_case_61_a_path_to_the_outside_in_the_third_section_comes_first(
    workspace: Workspace, third: str
) -> None:
    """The run ends before the first section, though the second would only be a wrong call."""
    workspace.put("old\n")
    before = workspace.tree()
    patch = envelope(
        f"*** Update File: {PATH}",
        "-old",
        "+new",
        "*** Delete File: output/com1.txt",
        f"*** Add File: {third}",
        "+x",
    )

    error = refusal(lambda: workspace.patch(patch))

    assert isinstance(error, SystemFailure)
    assert error.code == "workspace.path_escape"
    assert workspace.tree() == before


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("input/a.txt", "workspace.path_not_writable"),
        ("checkpoints/a.txt", "workspace.path_not_visible"),
        (".toolrail/a.txt", "workspace.path_not_visible"),
        ("output/com1.txt", "workspace.invalid_path"),
        ("output/a.txt/b", "workspace.not_a_directory"),
        ("output/fifo", "workspace.not_regular_file"),
    ],
)
def test_case_62_a_path_nobody_may_write_is_told(
    workspace: Workspace, path: str, code: str
) -> None:
    """Together with the other paths that cannot be; the file before it stays as it was."""
    workspace.put("old\n")
    workspace.put("old\n", "input/a.txt")
    os.mkfifo(workspace.top / "output/fifo")
    patch = envelope(f"*** Update File: {PATH}", "-old", "+new", f"*** Delete File: {path}")

    assert code_of(lambda: workspace.patch(patch)) == code
    assert workspace.tree()[PATH] == b"old\n"
