"""workspace.list_files: what is visible, in one order, page by page."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.component.workspaces import (
    Workspace,
    code_of,
    facts_of,
    paths_of,
    text_of,
)
from toolrail.errors import SystemFailure, ToolError
from toolrail_workers.builtin.roots import Roots

ROOTS = ["input", "output", "persist", "plan", "scratch", "summaries"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def test_an_empty_workspace_lists_its_roots_and_nothing_else(workspace: Workspace) -> None:
    """Locks, versions and other reserved entries are invisible."""
    output = workspace.list(include_hidden=True)

    assert paths_of(output) == ROOTS
    assert facts_of(output)["truncated"] is False
    assert facts_of(output)["next_cursor"] is None
    assert text_of(output).splitlines() == [f"{root}/" for root in ROOTS]


def test_an_empty_or_missing_root_is_an_empty_listing(workspace: Workspace) -> None:
    """A visible root exists even when its directory does not."""
    (workspace.top / "plan").rmdir()

    assert paths_of(workspace.list(prefix="output")) == []
    assert paths_of(workspace.list(prefix="plan")) == []
    assert text_of(workspace.list(prefix="plan")) == "(no entries)"


def test_entries_are_in_byte_order_of_whole_paths(workspace: Workspace) -> None:
    """`a-b` and `a.txt` sort before what is inside `a`, as their bytes do."""
    for path in ("a/x", "a-b", "a.txt", "a0", "B", "ä"):
        target = workspace.top / "output" / path
        target.parent.mkdir(exist_ok=True)
        target.write_text("x")

    paths = paths_of(workspace.list(prefix="output"))

    names = ["B", "a", "a-b", "a.txt", "a/x", "a0", "ä"]
    assert paths == [f"output/{name}" for name in names]
    assert paths == sorted(paths, key=str.encode)


def test_depth_counts_from_the_prefix(workspace: Workspace) -> None:
    """The prefix itself is no entry, and directories carry no slash."""
    (workspace.top / "output/a/b/c").mkdir(parents=True)

    assert paths_of(workspace.list(prefix="output", depth=1)) == ["output/a"]
    assert paths_of(workspace.list(prefix="output/a/", depth=2)) == ["output/a/b", "output/a/b/c"]
    assert "output/a" in paths_of(workspace.list())
    assert "output/a/b" not in paths_of(workspace.list())


def test_entries_tell_kind_size_and_writability(workspace: Workspace) -> None:
    """Links are listed as such, not followed, and their target is not shown."""
    (workspace.top / "input" / "brief.md").write_text("12345")
    (workspace.top / "output" / "dir").mkdir()
    (workspace.top / "output" / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace.top / "output" / "fifo")

    entries = facts_of(workspace.list(depth=2))["entries"]

    assert isinstance(entries, list)
    assert {"path": "input/brief.md", "kind": "file", "bytes": 5, "writable": False} in entries
    assert {"path": "output/dir", "kind": "dir", "writable": True} in entries
    assert {"path": "output/link", "kind": "symlink", "writable": False} in entries
    assert {"path": "output/fifo", "kind": "other", "writable": False} in entries
    assert "passwd" not in text_of(workspace.list())


def test_a_file_prefix_is_one_entry_and_a_missing_one_is_an_error(workspace: Workspace) -> None:
    """What is named is listed, or the model is told."""
    (workspace.top / "output" / "a.txt").write_text("x")

    assert paths_of(workspace.list(prefix="output/a.txt")) == ["output/a.txt"]
    assert code_of(lambda: workspace.list(prefix="output/b")) == "workspace.file_not_found"
    assert code_of(lambda: workspace.list(prefix="journal")) == "workspace.path_not_visible"
    assert code_of(lambda: workspace.list(prefix="")) == "workspace.invalid_path"


def test_hidden_names_need_to_be_asked_for(workspace: Workspace) -> None:
    """By the flag, or by naming them."""
    (workspace.top / "output/.git").mkdir()
    (workspace.top / "output/.git/config").write_text("x")

    assert paths_of(workspace.list(prefix="output")) == []
    assert paths_of(workspace.list(prefix="output", include_hidden=True)) == [
        "output/.git",
        "output/.git/config",
    ]
    assert paths_of(workspace.list(prefix="output/.git")) == ["output/.git/config"]


def test_invisible_entries_do_not_use_up_the_limit(tmp_path: Path) -> None:
    """What is filtered neither counts nor shows through `truncated`."""
    hidden = Workspace(tmp_path / "ws", roots=Roots().narrowed(hide=["input", "output", "plan"]))
    hidden.list()
    (hidden.top / ".hidden").write_text("x")
    (hidden.top / "stray.txt").write_text("x")

    output = hidden.list(limit=3, depth=1)

    assert paths_of(output) == ["persist", "scratch", "summaries"]
    assert facts_of(output)["truncated"] is False


def test_a_name_that_no_path_can_spell_is_shown_and_is_no_file(workspace: Workspace) -> None:
    """Broken UTF-8, control characters and backslashes cannot break the listing or the text."""
    folder = os.fsencode(workspace.top / "output")
    for name in (b"bad\xff", b"new\nline", b"back\\slash"):
        (Path(os.fsdecode(folder + b"/" + name))).write_text("x")

    output = workspace.list(prefix="output")

    assert paths_of(output) == [
        "output/back\ufffdslash",
        "output/bad\ufffd",
        "output/new\ufffdline",
    ]
    entries = facts_of(output)["entries"]
    assert isinstance(entries, list)
    assert all(isinstance(entry, dict) and entry["kind"] == "other" for entry in entries)
    assert len(text_of(output).splitlines()) == 3


def test_a_decomposed_name_is_listed_composed_and_readable(workspace: Workspace) -> None:
    """The path that is shown is the path that works."""
    (workspace.top / "output" / unicodedata.normalize("NFD", "é.txt")).write_text("x")

    (path,) = paths_of(workspace.list(prefix="output"))

    assert path == "output/é.txt"
    assert facts_of(workspace.read(path))["bytes"] == 1


def test_a_directory_that_becomes_a_link_does_not_fail_the_listing(workspace: Workspace) -> None:
    """A link to the outside inside the tree is one entry, whatever it points to."""
    (workspace.top / "output" / "out").symlink_to("/")

    assert paths_of(workspace.list(depth=8)) == [*ROOTS[:2], "output/out", *ROOTS[2:]]


def test_a_cursor_belongs_to_its_listing(workspace: Workspace) -> None:
    """Garbage, and a cursor of another prefix, are told as wrong arguments."""
    for name in "abc":
        (workspace.top / "output" / name).write_text("x")
    cursor = facts_of(workspace.list(prefix="output", limit=1))["next_cursor"]

    wrong: list[JsonValue] = ["x", "", "!!!", "bnVsbA", cursor]
    for value in wrong:
        assert code_of(lambda value=value: workspace.list(prefix="plan", cursor=value)) == (  # type: ignore[misc]
            "tool.invalid_arguments"
        )
    assert paths_of(workspace.list(prefix="output", cursor=cursor)) == ["output/b", "output/c"]


NAMES = st.text(alphabet="ab-./0é", min_size=1, max_size=8)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    names=st.sets(NAMES, max_size=12),
    limit=st.integers(1, 5),
    depth=st.integers(1, 8),
    hidden=st.booleans(),
)
def test_pages_tile_the_listing(
    tmp_path_factory: pytest.TempPathFactory,
    names: set[str],
    limit: int,
    depth: int,
    *,
    hidden: bool,
) -> None:
    """Whatever the page size, the pages put together are the one big page."""
    workspace = Workspace(tmp_path_factory.mktemp("runs") / "ws")
    for name in names:
        try:
            workspace.write(f"scratch/{name}", "x", mode="create")
        except (ToolError, SystemFailure):
            # No name of a file, or one that climbs out of the workspace.
            continue
    asked: dict[str, JsonValue] = {"depth": depth, "include_hidden": hidden}
    whole = paths_of(workspace.list(limit=500, **asked))

    seen: list[str] = []
    cursor: JsonValue = None
    while True:
        page = workspace.list(limit=limit, cursor=cursor, **asked)
        seen += paths_of(page)
        cursor = facts_of(page)["next_cursor"]
        assert facts_of(page)["truncated"] == (cursor is not None)
        if cursor is None:
            break

    assert seen == whole == sorted(set(whole), key=str.encode)


def test_the_text_shows_a_tree_even_across_pages(workspace: Workspace) -> None:
    """An entry whose directory is on another page has its whole path."""
    (workspace.top / "output/a").mkdir()
    for name in ("x", "y"):
        (workspace.top / "output/a" / name).write_text("x")

    first = workspace.list(prefix="output", limit=2)
    rest = workspace.list(prefix="output", cursor=facts_of(first)["next_cursor"])

    assert text_of(first).splitlines()[:2] == ["output/a/", "  x"]
    assert "cursor=" in text_of(first)
    assert text_of(rest) == "output/a/y"
