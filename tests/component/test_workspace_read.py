"""workspace.read_file: ranges, facts, and what does not count as read."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.component.workspaces import (
    Workspace,
    code_of,
    facts_of,
    refusal,
    text_of,
)
from toolrail.errors import ToolError
from toolrail.tokens import estimate_tokens
from toolrail_schemas import (
    FileRefBlock,
    ResourceRefBlock,
    parse_ref,
)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A fresh run with its usual roots."""
    made = Workspace(tmp_path / "runs" / "ws")
    made.list()
    return made


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


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
        delivered = text[int(str(facts["start_char"])) : int(str(facts["end_char"]))]
        assert delivered in ("\n".join(wanted), "\n".join(wanted) + "\n")

    try:
        output = workspace.read(path, start_char=start, max_chars=length)
    except ToolError:
        assert start > 0
        assert start >= len(text)
    else:
        assert text_of(output).split("\n", 1)[1] == text[start : start + length]
