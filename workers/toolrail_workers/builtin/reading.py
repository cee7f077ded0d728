"""Answer workspace.read_file: a range of a text, cut to what a model is shown, and remembered.

Is: the two range styles of semantics 5.3, the cut, the facts. Is not: the tool's declaration
(`workspace.py`) or the meaning of text (`texts.py`).
Above: `workspace.py`. Below: `texts.py`, `run_workspace.py`, `toolrail.tokens`.
"""

from dataclasses import dataclass

from toolrail.errors import ToolError
from toolrail.tokens import cut_at_tokens
from toolrail.tools import ToolOutput
from toolrail_schemas import JsonObject, ResourceRefBlock, TextBlock, workspace_ref
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.run_workspace import RunWorkspace
from toolrail_workers.builtin.texts import TextFile, load_text

FULL_READ_MAX_BYTES = 256 * 1024
LINES_MAX = 1200
CHARS_MAX = 80_000
INLINE_MAX_BYTES = 64 * 1024
"""What a result shows of one text; what is cut here is not counted as read."""
_ROOM_TOKENS = 200
_ROOM_BYTES = 2 * 1024
"""Kept free for the lines before and after the content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What was asked for; at most one of the two styles has values."""

    start_line: int | None = None
    line_count: int | None = None
    start_char: int | None = None
    max_chars: int | None = None
    line_numbers: bool = True

    @property
    def by_chars(self) -> bool:
        """Whether characters were asked for."""
        return self.start_char is not None or self.max_chars is not None

    @property
    def by_lines(self) -> bool:
        """Whether lines were asked for."""
        return self.start_line is not None or self.line_count is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice:
    """A part of a text, by characters, and how it is shown."""

    start: int
    end: int
    shown: str
    cut: bool = False


def read_text(
    workspace: RunWorkspace, raw_path: str, wanted: Range, *, max_tokens: int
) -> ToolOutput:
    """Return what was asked for of a file, and remember what was delivered.

    Raises:
        ToolError: By the path rules; `workspace.mixed_read_range`, `read_too_large` or
            `invalid_range`.
    """
    if wanted.by_chars and wanted.by_lines:
        raise ToolError(
            "workspace.mixed_read_range",
            "Line and character ranges were mixed.",
            next_action="Use start_line and line_count, or start_char and max_chars, not both.",
        )
    path = workspace.resolve(raw_path)
    file = load_text(workspace, path)
    if isinstance(file, ToolOutput):
        return file
    part = _slice(file, path, wanted, max_tokens=max(max_tokens - _ROOM_TOKENS, max_tokens // 2))
    delivered = _whole_lines(file, part)
    workspace.observe(path, file.sha256, total_lines=len(file.lines), lines=delivered)
    return _output(path, file, part)


def _slice(file: TextFile, path: LogicalPath, wanted: Range, *, max_tokens: int) -> _Slice:
    if wanted.by_chars:
        return _by_chars(file, wanted, max_tokens)
    if not wanted.by_lines:
        _refuse_large(file, path)
    return _by_lines(file, wanted, max_tokens)


def _refuse_large(file: TextFile, path: LogicalPath) -> None:
    lines = len(file.lines)
    if file.size <= FULL_READ_MAX_BYTES and lines <= LINES_MAX:
        return
    raise ToolError(
        "workspace.read_too_large",
        f"{str(path)!r} has {file.size} bytes, {lines} lines and {len(file.text)} characters; "
        f"at most {FULL_READ_MAX_BYTES} bytes and {LINES_MAX} lines are read at once.",
        next_action=f"Read a range, for example start_line=1 and line_count={LINES_MAX}.",
        structured={
            "path": str(path),
            "bytes": file.size,
            "total_lines": lines,
            "total_chars": len(file.text),
            "sha256": file.sha256,
        },
    )


def _by_lines(file: TextFile, wanted: Range, max_tokens: int) -> _Slice:
    first = wanted.start_line or 1
    total = len(file.lines)
    if first > max(total, 1):
        raise _past_end(f"start_line={first}", f"{total} lines")
    lines = file.lines[first - 1 : first - 1 + (wanted.line_count or LINES_MAX)]
    start = sum(map(len, file.lines[: first - 1])) + first - 1
    shown = _numbered(lines, first) if wanted.line_numbers else "\n".join(lines)
    fits = _fitting(shown, max_tokens)
    if fits == len(shown):
        return _Slice(start=start, end=_end_of(file, start, lines), shown=shown)
    kept = shown.count("\n", 0, fits)
    if shown[fits] == "\n":
        # The cut falls exactly on the end of a line, which is then whole.
        kept += 1
    if kept == 0:
        # Not even one line fits; its start is better than nothing, read on by characters.
        text = lines[0][: _fitting(lines[0], max_tokens)]
        return _Slice(start=start, end=start + len(text), shown=text, cut=True)
    shown = "\n".join(shown.split("\n")[:kept])
    return _Slice(start=start, end=_end_of(file, start, lines[:kept]), shown=shown, cut=True)


def _by_chars(file: TextFile, wanted: Range, max_tokens: int) -> _Slice:
    start = wanted.start_char or 0
    total = len(file.text)
    if start > 0 and start >= total:
        raise _past_end(f"start_char={start}", f"{total} characters")
    text = file.text[start : start + (wanted.max_chars or CHARS_MAX)]
    fits = _fitting(text, max_tokens)
    if fits < len(text):
        boundary = text.rfind("\n", 0, fits) + 1
        text = text[: boundary or fits]
        return _Slice(start=start, end=start + len(text), shown=text, cut=True)
    return _Slice(start=start, end=start + len(text), shown=text)


def _fitting(shown: str, max_tokens: int) -> int:
    """Return how many characters can be shown within the limits of tokens and bytes."""
    fits = cut_at_tokens(shown, max_tokens)
    room = INLINE_MAX_BYTES - _ROOM_BYTES
    if len(shown[:fits].encode()) <= room:
        return fits
    # Cutting bytes may split a code point; the broken one at the end is dropped.
    return len(shown[:fits].encode()[:room].decode("utf-8", "ignore"))


def _end_of(file: TextFile, start: int, lines: list[str]) -> int:
    """Return the position after the lines, their last LF included where there is one."""
    return min(start + sum(map(len, lines)) + len(lines), len(file.text))


def _numbered(lines: list[str], first: int) -> str:
    return "\n".join(f"{first + index:>6}\t{line}" for index, line in enumerate(lines))


def _line_of(file: TextFile, position: int) -> int:
    return file.text.count("\n", 0, position) + 1


def _whole_lines(file: TextFile, part: _Slice) -> tuple[int, int] | None:
    """Return the first and last line of which every character was delivered."""
    text = file.text
    first = _line_of(file, part.start)
    if part.start > 0 and text[part.start - 1] != "\n":
        first += 1
    last = text.count("\n", 0, part.end)
    if part.end == len(text) and not file.final_newline:
        last += 1
    return (first, last) if part.end > part.start and first <= last else None


def _output(path: LogicalPath, file: TextFile, part: _Slice) -> ToolOutput:
    total_lines, total_chars = len(file.lines), len(file.text)
    first = _line_of(file, part.start)
    last = _line_of(file, part.end - 1) if part.end > part.start else first - 1
    full = part.start == 0 and part.end == total_chars
    facts: JsonObject = {
        "path": str(path),
        "sha256": file.sha256,
        "bytes": file.size,
        "total_lines": total_lines,
        "start_line": first,
        "end_line": last,
        "start_char": part.start,
        "end_char": part.end,
        "total_chars": total_chars,
        "full_read": full,
        "eol": file.eol.value,
        "bom": file.bom,
        "final_newline": file.final_newline,
    }
    header = (
        f"{path} lines {first}-{last} of {total_lines}, chars {part.start}-{part.end} of "
        f"{total_chars}, {file.size} bytes, sha256 {file.sha256[:12]}, eol {file.eol.value}"
        f"{', BOM' if file.bom else ''}"
        f"{', no final newline' if total_chars and not file.final_newline else ''}"
    )
    if not part.cut:
        text = f"{header}\n{part.shown}"
        return ToolOutput(content=(TextBlock(text=text),), structured=facts)
    whole = file.text[part.end - 1 : part.end] == "\n"
    on = f"start_line={last + 1}" if whole else f"start_char={part.end}"
    text = f"{header}\n{part.shown}\n[cut at the output limit; read on with {on}]"
    uri = workspace_ref(str(path), sha256=file.sha256, lines=(max(last, 1), max(total_lines, 1)))
    rest = ResourceRefBlock(uri=uri, title="The rest of the file")
    return ToolOutput(
        content=(TextBlock(text=text), rest),
        structured=facts,
        resource_refs=(uri,),
        truncated=True,
    )


def _past_end(asked: str, total: str) -> ToolError:
    return ToolError(
        "workspace.invalid_range",
        f"{asked} is past the end; the file has {total}.",
        next_action="Use a range inside the file.",
    )
