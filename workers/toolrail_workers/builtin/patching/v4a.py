"""Parse the `*** Begin Patch` envelope (semantics 5.5.1).

Is: the grammar, with the line of every mistake. Is not: the path rules or what the files hold.
Above: `parsing.py`. Below: `model.py`, `headers.py`, `problems.py`.
"""

import re
from collections.abc import Sequence

from toolrail_workers.builtin.patching.headers import Header, is_header, is_no_newline, read_header
from toolrail_workers.builtin.patching.model import Anchor, Chunk, FileOp, Line, OpKind, Side
from toolrail_workers.builtin.patching.problems import PatchError, malformed, shown
from toolrail_workers.builtin.patching.wrapping import Numbered, trimmed

BEGIN = "*** Begin Patch"
END = "*** End Patch"
_EOF = "*** End of File"
_MOVE = "*** Move to:"
_SECTION = re.compile(r"\*\*\* (?P<kind>Add|Update|Delete) File:(?P<path>.*)", re.DOTALL)
_PREFIXES = {side.value: side for side in Side}


def parse_v4a(lines: Sequence[Numbered]) -> tuple[FileOp, ...]:
    """Return the operations between `BEGIN` and `END`, in order.

    Args:
        lines: Unwrapped.

    Raises:
        PatchError: `patch.malformed`, `truncated`, `empty` or `empty_update`.
    """
    lines = trimmed(lines, " \t\r")
    if not lines or lines[0].text.strip() != BEGIN:
        raise malformed(
            lines[0].number if lines else 1,
            f"a patch starts with `{BEGIN}`.",
            f"Send only the patch, from `{BEGIN}` to `{END}`, without anything around it.",
        )
    if lines[-1].text.strip() != END:
        ended = next((line for line in lines if line.text.rstrip() == END), None)
        if ended is not None:
            raise malformed(ended.number + 1, f"nothing may follow `{END}`.")
        raise truncated()
    return _Parser(lines[1:-1]).operations()


def truncated() -> PatchError:
    """Return the error for a patch without its end, which is never guessed."""
    return PatchError(
        "truncated",
        f"The patch has no `{END}`, so its end is missing. Nothing was changed.",
        next_action=f"Send the whole patch again, up to `{END}`, or split it into smaller ones.",
    )


class _Parser:
    """Walks over the lines of an envelope once."""

    def __init__(self, lines: Sequence[Numbered]) -> None:
        self._lines = lines
        self._at = 0

    def operations(self) -> tuple[FileOp, ...]:
        ops: list[FileOp] = []
        while (line := self._peek()) is not None:
            if line.text.strip():
                ops.append(self._section(line))
            else:
                self._at += 1
        if not ops:
            raise PatchError("empty", "The patch has no section.")
        return tuple(ops)

    def _peek(self) -> Numbered | None:
        return self._lines[self._at] if self._at < len(self._lines) else None

    def _section(self, line: Numbered) -> FileOp:
        found = _SECTION.fullmatch(line.text.rstrip())
        if found is None:
            raise malformed(
                line.number,
                f"{shown(line.text)!r} is no section.",
                "A section starts with `*** Add File: `, `*** Update File: ` or "
                "`*** Delete File: ` and a path.",
            )
        self._at += 1
        path = found["path"].removeprefix(" ")
        if found["kind"] == "Add":
            return FileOp(kind=OpKind.ADD, path=path, number=line.number, content=self._added())
        if found["kind"] == "Delete":
            return FileOp(kind=OpKind.DELETE, path=path, number=line.number)
        return self._update(path, line.number)

    def _added(self) -> tuple[Line, ...]:
        content: list[Line] = []
        blanks: list[Line] = []
        while (line := self._peek()) is not None and not _is_section(line.text):
            self._at += 1
            if not line.text.rstrip("\r"):
                # A lone `+` that was lost on the way, if a plus line follows; else padding.
                blanks.append(Line(Side.ADDED, "", line.number, blank=True))
            elif is_no_newline(line.text) and content and not blanks:
                content[-1] = _unterminated(content[-1])
            elif line.text.startswith("+"):
                content += [*blanks, Line(Side.ADDED, line.text[1:], line.number)]
                blanks.clear()
            else:
                raise malformed(
                    line.number,
                    f"every line of an added file starts with `+`, this is {shown(line.text)!r}.",
                    "Put a `+` before every line of the new file, empty ones included.",
                )
        return tuple(content)

    def _update(self, path: str, number: int) -> FileOp:
        move_to: str | None = None
        line = self._peek()
        if line is not None and line.text.startswith(_MOVE):
            move_to = line.text[len(_MOVE) :].rstrip().removeprefix(" ")
            self._at += 1
        chunks: list[Chunk] = []
        while (line := self._peek()) is not None and not _is_section(line.text):
            if self._skip_padding():
                continue
            if chunks and not is_header(line.text):
                raise malformed(
                    line.number, "a chunk after the first starts with `@@`.", "Add a line `@@`."
                )
            chunks.append(self._chunk(len(chunks) + 1))
        if not chunks and move_to is None:
            raise PatchError(
                "empty_update",
                f"The section at line {number} of the patch has no chunk.",
                facts={"patch_line": number, "path": path},
            )
        return FileOp(
            kind=OpKind.UPDATE, path=path, number=number, move_to=move_to, chunks=tuple(chunks)
        )

    def _skip_padding(self) -> bool:
        """Pass over empty lines between chunks, before a header or the end of the section."""
        at = self._at
        while at < len(self._lines) and not self._lines[at].text.rstrip("\r"):
            at += 1
        ends = at == len(self._lines)
        if at == self._at or not (ends or _starts_something(self._lines[at].text)):
            return False
        self._at = at
        return True

    def _chunk(self, index: int) -> Chunk:
        number = self._lines[self._at].number
        headers = self._headers()
        lines: list[Line] = []
        end_of_file = False
        while (line := self._peek()) is not None and not _starts_something(line.text):
            self._at += 1
            if line.text.rstrip() == _EOF:
                end_of_file = True
                break
            self._take(line, lines)
        if not lines:
            raise malformed(number, "this chunk has no lines.", "Add the lines that change.")
        hinted = next((header for header in reversed(headers) if header.hint), Header())
        return Chunk(
            index=index,
            number=number,
            lines=tuple(lines),
            anchors=_anchors(headers),
            hint=hinted.hint,
            heading=hinted.heading,
            end_of_file=end_of_file,
        )

    def _headers(self) -> list[Header]:
        headers: list[Header] = []
        while (line := self._peek()) is not None and is_header(line.text):
            headers.append(read_header(line))
            self._at += 1
        return headers

    @staticmethod
    def _take(line: Numbered, lines: list[Line]) -> None:
        if not line.text.rstrip("\r"):
            lines.append(Line(Side.CONTEXT, line.text, line.number, blank=True))
        elif is_no_newline(line.text) and lines:
            lines[-1] = _unterminated(lines[-1])
        elif (side := _PREFIXES.get(line.text[0])) is not None:
            lines.append(Line(side, line.text[1:], line.number))
        else:
            raise malformed(
                line.number,
                f"a line of a chunk starts with a space, `-` or `+`, this is {shown(line.text)!r}.",
                "Put a space before every line that stays as it is.",
            )


def _is_section(text: str) -> bool:
    return text.startswith("*** ") and text.rstrip() != _EOF


def _starts_something(text: str) -> bool:
    return is_header(text) or _is_section(text)


def _unterminated(line: Line) -> Line:
    return Line(line.side, line.text, line.number, unterminated=True)


def _anchors(headers: Sequence[Header]) -> tuple[Anchor, ...]:
    return tuple(header.anchor for header in headers if header.anchor is not None)
