"""The workspace tools on a real directory: list, read, finish. Writes have their own file."""

import hashlib
import json
import os
import unicodedata
from pathlib import Path
from typing import cast

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.component.workspaces import (
    Workspace,
    code_of,
    facts_of,
    paths_of,
    refusal,
    text_of,
)
from toolrail.errors import SystemFailure, ToolError
from toolrail.tokens import estimate_tokens
from toolrail_schemas import (
    FileRefBlock,
    Isolation,
    Permission,
    ResourceRefBlock,
    Rollback,
    SideEffect,
    parse_ref,
)
from toolrail_workers.builtin.roots import Roots
from toolrail_workers.builtin.workspace import TOOLS

ROOTS = ["input", "output", "persist", "plan", "scratch", "summaries"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# The declarations


def test_the_tools_are_declared_as_the_contract_says() -> None:
    """Names, effects, permission and isolation are policy inputs, so they are pinned."""
    declared = {
        tool.spec.name: (
            tool.spec.annotations.read_only,
            tool.spec.annotations.side_effect,
            tool.spec.annotations.rollback,
            tool.spec.annotations.destructive,
        )
        for tool in TOOLS
    }

    none, not_needed = SideEffect.NONE, Rollback.NOT_NEEDED
    assert declared == {
        "workspace.list_files": (True, none, not_needed, False),
        "workspace.read_file": (True, none, not_needed, False),
        "workspace.write_file": (False, SideEffect.WORKSPACE, Rollback.CHECKPOINT, False),
        "workspace.finish": (False, SideEffect.CONTROL, not_needed, False),
    }
    for tool in TOOLS:
        assert tool.spec.permission is Permission.ALWAYS_ALLOW
        assert tool.isolation is Isolation.THREAD
        assert tool.spec.annotations.retry_safe


def test_every_input_example_fits_its_schema() -> None:
    """A model is only shown calls that work."""
    for tool in TOOLS:
        validator = jsonschema_rs.Draft202012Validator(tool.spec.input_schema)
        assert tool.spec.surface_meta.input_examples
        for example in tool.spec.surface_meta.input_examples:
            validator.validate(example)


# workspace.list_files


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
        except ToolError:
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


# workspace.read_file


def put(workspace: Workspace, content: bytes, path: str = "output/f.txt") -> str:
    (workspace.top / path).write_bytes(content)
    return path


def test_a_whole_file_is_read_with_its_facts(workspace: Workspace) -> None:
    """Text with a header and numbers; facts for programs."""
    content = b"one\ntwo\nthree\n"
    output = workspace.read(put(workspace, content))

    assert facts_of(output) == {
        "path": "output/f.txt",
        "sha256": sha256(content),
        "bytes": 14,
        "total_lines": 3,
        "start_line": 1,
        "end_line": 3,
        "start_char": 0,
        "end_char": 14,
        "total_chars": 14,
        "full_read": True,
        "eol": "lf",
        "bom": False,
        "final_newline": True,
    }
    header, *lines = text_of(output).split("\n")
    assert "output/f.txt" in header
    assert "lines 1-3 of 3" in header
    assert sha256(content)[:12] in header
    assert lines == ["     1\tone", "     2\ttwo", "     3\tthree"]
    assert output.events == ()


@pytest.mark.parametrize(
    ("content", "lines", "eol", "final"),
    [
        (b"", 0, "none", False),
        (b"a", 1, "none", False),
        (b"a\n", 1, "lf", True),
        (b"\n", 1, "lf", True),
        (b"a\r\nb\r\n", 2, "crlf", True),
        (b"a\r\nb\n", 2, "mixed", True),
        (b"a\r\nb", 2, "crlf", False),
        (b"a\rb\r", 1, "none", False),
        ("a\x0cb\x0bc\x85d\u2028e\u2029f".encode(), 1, "none", False),
        (b"a\n\n\n", 3, "lf", True),
    ],
)
def test_lines_end_at_line_feeds_only(
    workspace: Workspace, content: bytes, lines: int, eol: str, *, final: bool
) -> None:
    """Form feed, NEL, U+2028 and a lone CR are content."""
    facts = facts_of(workspace.read(put(workspace, content)))

    assert (facts["total_lines"], facts["eol"], facts["final_newline"]) == (lines, eol, final)
    assert facts["full_read"] is True


def test_a_byte_order_mark_is_told_and_not_shown(workspace: Workspace) -> None:
    """Characters are counted without it, bytes with it."""
    output = workspace.read(put(workspace, b"\xef\xbb\xbfa\n"), line_numbers=False)

    facts = facts_of(output)
    assert (facts["bom"], facts["total_chars"], facts["bytes"]) == (True, 2, 5)
    assert text_of(output).split("\n")[1] == "a"


def test_a_range_of_lines(workspace: Workspace) -> None:
    """Lines are from 1; a count past the end is cut to the end."""
    path = put(workspace, b"".join(b"%d\n" % number for number in range(1, 11)))

    middle = workspace.read(path, start_line=4, line_count=2)
    tail = workspace.read(path, start_line=9, line_count=100)
    head = workspace.read(path, line_count=1)

    assert text_of(middle).split("\n")[1:] == ["     4\t4", "     5\t5"]
    assert (facts_of(middle)["start_line"], facts_of(middle)["end_line"]) == (4, 5)
    assert (facts_of(middle)["start_char"], facts_of(middle)["end_char"]) == (6, 10)
    assert facts_of(middle)["full_read"] is False
    assert facts_of(tail)["end_line"] == 10
    assert facts_of(head)["end_line"] == 1


def test_a_range_of_characters_never_splits_one(workspace: Workspace) -> None:
    """Positions count code points; the text is given as it is, without numbers."""
    path = put(workspace, "a😀\nßc\n".encode())

    output = workspace.read(path, start_char=1, max_chars=3)

    assert text_of(output).split("\n", 1)[1] == "😀\nß"
    assert (facts_of(output)["start_char"], facts_of(output)["end_char"]) == (1, 4)
    assert (facts_of(output)["start_line"], facts_of(output)["end_line"]) == (1, 2)
    assert facts_of(workspace.read(path, max_chars=100))["full_read"] is True


@pytest.mark.parametrize(
    ("content", "arguments", "code"),
    [
        (b"a\n", {"start_line": 2}, "workspace.invalid_range"),
        (b"a\n", {"start_char": 2}, "workspace.invalid_range"),
        (b"", {"start_line": 2}, "workspace.invalid_range"),
        (b"", {"start_char": 1}, "workspace.invalid_range"),
        (b"a", {"start_line": 1, "max_chars": 1}, "workspace.mixed_read_range"),
        (b"a", {"line_count": 1, "start_char": 0}, "workspace.mixed_read_range"),
        (b"a", {"start_line": 0}, "tool.invalid_arguments"),
        (b"a", {"line_count": 1201}, "tool.invalid_arguments"),
        (b"a", {"max_chars": 80_001}, "tool.invalid_arguments"),
        (b"a", {"start_char": -1}, "tool.invalid_arguments"),
    ],
)
def test_a_range_outside_is_an_error(
    workspace: Workspace, content: bytes, arguments: dict[str, JsonValue], code: str
) -> None:
    """The totals are told, so the next call can be right."""
    path = put(workspace, content)

    assert code_of(lambda: workspace.read(path, **arguments)) == code


@pytest.mark.parametrize("arguments", [{}, {"start_line": 1}, {"start_char": 0}])
def test_an_empty_file_reads_as_empty(
    workspace: Workspace, arguments: dict[str, JsonValue]
) -> None:
    """Line 1 of nothing is not past the end."""
    facts = facts_of(workspace.read(put(workspace, b""), **arguments))

    assert (facts["start_line"], facts["end_line"], facts["full_read"]) == (1, 0, True)


@pytest.mark.parametrize("content", [b"x" * (256 * 1024 + 1), b"\n" * 1201, b"a\n" * 1200 + b"b"])
def test_a_large_file_is_read_by_ranges_only(workspace: Workspace, content: bytes) -> None:
    """The error names the totals and the range style that works."""
    path = put(workspace, content)

    error = refusal(lambda: workspace.read(path))

    assert error.code == "workspace.read_too_large"
    assert isinstance(error, ToolError)
    assert isinstance(error.structured, dict)
    assert error.structured["bytes"] == len(content)
    assert "start_line" in str(error.next_action)
    assert facts_of(workspace.read(path, start_line=1, line_count=5))["full_read"] is False


def test_exactly_the_largest_full_read_is_allowed(workspace: Workspace) -> None:
    """256 KiB and 1200 lines are within."""
    line = b"x" * 217 + b"\n"
    content = line * 1200
    content += b"y" * (256 * 1024 - len(content) - 1)
    assert content.count(b"\n") == 1200
    content = content.replace(b"\n", b" ", 1)

    assert facts_of(workspace.read(put(workspace, content)))["total_lines"] == 1200


def test_what_a_model_is_not_shown_does_not_count_as_read(workspace: Workspace) -> None:
    """A cut falls between lines, says how to read on, and gives a ref to the rest."""
    path = put(workspace, (b"word " * 20 + b"\n") * 1100)

    output = workspace.read(path)

    facts = facts_of(output)
    assert facts["full_read"] is False
    end = facts["end_line"]
    assert isinstance(end, int)
    assert 0 < end < 1100
    assert f"start_line={end + 1}" in text_of(output)
    assert output.truncated
    ref = output.content[-1]
    assert isinstance(ref, ResourceRefBlock)
    assert ref.uri in output.resource_refs
    assert parse_ref(ref.uri).lines == (end, 1100)
    assert estimate_tokens(text_of(output)) <= 20_000
    assert len(text_of(output).encode()) <= 64 * 1024
    with_rest = workspace.read(path, start_line=end + 1)
    assert facts_of(with_rest)["start_char"] == facts["end_char"]


def test_one_endless_line_is_cut_inside(workspace: Workspace) -> None:
    """When not even one line fits, its start is delivered and read on by characters."""
    path = put(workspace, ("é" * 200_000 + "\nlast\n").encode())

    seen = ""
    output = workspace.read(path, start_line=1, line_count=1)
    assert facts_of(output)["full_read"] is False
    while True:
        facts = facts_of(output)
        start = facts["end_char"]
        assert isinstance(start, int)
        seen += text_of(output).split("\n", 1)[1].split("\n[cut")[0]
        if facts["end_char"] == facts["total_chars"]:
            break
        output = workspace.read(path, start_char=start)

    assert seen == "é" * 200_000 + "\nlast\n"


@pytest.mark.parametrize(
    ("content", "mime"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "image/png"),
        ("grüße".encode("latin-1"), "application/octet-stream"),
        ("中文".encode("gbk"), "application/octet-stream"),
        ("text".encode("utf-16"), "text/plain"),
        (b"a\x00b", "application/octet-stream"),
        (b"RIFF0000WEBP\xff", "image/webp"),
        (b"\xed\xa0\x80", "application/octet-stream"),
    ],
)
def test_what_is_not_text_is_answered_with_a_file_ref(
    workspace: Workspace, content: bytes, mime: str
) -> None:
    """Size, digest and kind let a model pass the file on without reading it."""
    output = workspace.read(put(workspace, content))

    assert output.is_error
    assert output.error_code == "workspace.not_text"
    block = output.content[-1]
    assert isinstance(block, FileRefBlock)
    assert (block.bytes, block.sha256, block.mime) == (len(content), sha256(content), mime)
    assert block.ref in output.resource_refs


def test_a_nul_late_in_the_file_is_text(workspace: Workspace) -> None:
    """Only the first 8 KiB are looked at for NUL, as the contract says."""
    path = put(workspace, b"a" * 9000 + b"\x00\n")

    assert facts_of(workspace.read(path))["full_read"] is True


def test_a_missing_file_is_told(workspace: Workspace) -> None:
    """A typing mistake does not end a run."""
    assert code_of(lambda: workspace.read("output/none.txt")) == "workspace.file_not_found"
    assert code_of(lambda: workspace.read("output/none/none.txt")) == "workspace.file_not_found"


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.text(alphabet="ab\n\ré😀\u2028", max_size=60),
    first=st.integers(1, 12),
    count=st.integers(1, 12),
    start=st.integers(0, 60),
    length=st.integers(1, 30),
)
def test_ranges_deliver_exactly_their_part(
    tmp_path_factory: pytest.TempPathFactory,
    text: str,
    first: int,
    count: int,
    start: int,
    length: int,
) -> None:
    """Against slicing: by lines and by characters, start and end name what was delivered."""
    workspace = Workspace(tmp_path_factory.mktemp("runs") / "ws")
    workspace.list()
    path = put(workspace, text.encode())
    lines = text.split("\n")[:-1] if text.endswith("\n") or not text else text.split("\n")

    try:
        output = workspace.read(path, start_line=first, line_count=count, line_numbers=False)
    except ToolError:
        assert first > max(1, len(lines))
    else:
        wanted = lines[first - 1 : first - 1 + count]
        facts = facts_of(output)
        assert text_of(output).split("\n", 1)[1] == "\n".join(wanted)
        assert facts["end_line"] == first - 1 + len(wanted)
        assert text[int(str(facts["start_char"])) : int(str(facts["end_char"]))].removesuffix(
            "\n"
        ) == "\n".join(wanted).removesuffix("\n")

    try:
        output = workspace.read(path, start_char=start, max_chars=length)
    except ToolError:
        assert start > 0
        assert start >= len(text)
    else:
        assert text_of(output).split("\n", 1)[1] == text[start : start + length]


# workspace.finish


def manifest(workspace: Workspace, *required: JsonValue) -> None:
    (workspace.top / "manifest.json").write_text(json.dumps({"required": required, "other": 1}))


def test_finish_without_a_manifest_is_accepted(workspace: Workspace) -> None:
    """The reason comes back as data."""
    output = workspace.finish(reason="all done")

    assert facts_of(output) == {"reason": "all done", "artifacts": []}
    assert not output.is_error
    assert code_of(lambda: workspace.finish(reason="x" * 501)) == "tool.invalid_arguments"


def test_finish_lists_everything_that_is_missing(workspace: Workspace) -> None:
    """One answer names all of it, so one more turn is enough."""
    manifest(
        workspace,
        {"path": "output/none.md"},
        {"path": "output/empty.md"},
        {"path": "output/bad.json", "kind": "json"},
        {"path": "output/long.md", "kind": "markdown", "max_bytes": 3},
        {"path": "output/binary.md"},
        {"path": "output/link.md"},
        {"path": "output/fine.json", "kind": "json"},
    )
    for name, content in {
        "empty.md": b" \n",
        "bad.json": b"{",
        "long.md": b"1234",
        "binary.md": b"\xff",
        "fine.json": b"{}",
    }.items():
        put(workspace, content, f"output/{name}")
    (workspace.top / "output/link.md").symlink_to("fine.json")

    error = refusal(workspace.finish)

    assert error.code == "workspace.manifest_incomplete"
    assert isinstance(error, ToolError)
    repair = cast("dict[str, list[dict[str, str]]]", error.structured)
    assert [item["path"] for item in repair["missing"]] == [
        f"output/{name}"
        for name in ("none.md", "empty.md", "bad.json", "long.md", "binary.md", "link.md")
    ]
    for name in ("none.md", "bad.json"):
        assert name in error.message


def test_finish_accepts_a_complete_manifest(workspace: Workspace) -> None:
    """Non-empty, of its kind, within its size."""
    manifest(workspace, {"path": "output/a.md", "kind": "markdown", "max_bytes": 10})
    put(workspace, b"# fine\n", "output/a.md")

    assert facts_of(workspace.finish())["artifacts"] == ["output/a.md"]


def test_a_broken_manifest_is_not_the_models_fault(workspace: Workspace) -> None:
    """It cannot correct what the runtime wrote."""
    (workspace.top / "manifest.json").write_text("{")

    assert isinstance(refusal(workspace.finish), SystemFailure)
