"""Read the hunks of one file of a diff.

Is: where a hunk ends, by the prefixes of its lines; its counts only settle what prefixes leave
open, such as a removed line `-- a` that looks like the header of the next file. Is not: names.
Above: `unified.py`. Below: `headers.py`, `model.py`, `problems.py`.
"""

from collections.abc import Sequence

from toolrail_workers.builtin.patching.headers import Header, is_header, is_no_newline, read_header
from toolrail_workers.builtin.patching.model import Chunk, Line, Side
from toolrail_workers.builtin.patching.problems import malformed, shown
from toolrail_workers.builtin.patching.wrapping import Numbered

_PREFIXES = {side.value: side for side in Side}
_OUTSIDE = ("diff ", "Index: ", "=====", "From ", "Only in ")


def is_file_header(lines: Sequence[Numbered], at: int) -> bool:
    """Return whether `---` and `+++` lines stand here."""
    return (
        at + 1 < len(lines)
        and lines[at].text.startswith("--- ")
        and lines[at + 1].text.startswith("+++ ")
    )


class Hunks:
    """Reads hunks until a line that belongs to none."""

    def __init__(self, lines: Sequence[Numbered], at: int) -> None:
        self._lines = lines
        self.at = at
        """Index of the first line that was not read."""

    def read(self) -> tuple[Chunk, ...]:
        """Return the hunks that start here, none if there is none.

        Raises:
            PatchError: `patch.malformed`.
        """
        chunks: list[Chunk] = []
        while self.at < len(self._lines) and is_header(self._lines[self.at].text):
            start = self._lines[self.at]
            header = read_header(start)
            self.at += 1
            lines = self._body(header)
            if not any(line.side is not Side.CONTEXT for line in lines):
                raise malformed(start.number, "this hunk changes nothing.", "Add its changes.")
            chunks.append(
                Chunk(
                    index=len(chunks) + 1,
                    number=start.number,
                    lines=lines,
                    anchors=() if header.anchor is None else (header.anchor,),
                    hint=header.hint,
                    heading=header.heading,
                )
            )
        return tuple(chunks)

    def _body(self, header: Header) -> tuple[Line, ...]:
        left = _Counts(header)
        body: list[Line] = []
        while self.at < len(self._lines):
            line = self._lines[self.at]
            if self._ends(line, left):
                break
            self.at += 1
            if is_no_newline(line.text):
                if body:
                    last = body.pop()
                    body.append(Line(last.side, last.text, last.number, unterminated=True))
                continue
            side = Side.CONTEXT if not line.text else _PREFIXES.get(line.text[0])
            if side is None:
                raise malformed(
                    line.number,
                    f"a line of a hunk starts with a space, `-` or `+`, "
                    f"this is {shown(line.text)!r}.",
                    "Put a space before every line that stays as it is.",
                )
            left.take(side)
            body.append(Line(side, line.text[1:], line.number, blank=not line.text))
        return tuple(_without_padding(body, left))

    def _ends(self, line: Numbered, left: "_Counts") -> bool:
        text = line.text
        if is_header(text) or text.startswith(_OUTSIDE):
            return True
        if is_file_header(self._lines, self.at):
            follows = self.at + 2 < len(self._lines) and is_header(self._lines[self.at + 2].text)
            return left.spent or (follows and not left.expects_both)
        if is_no_newline(text):
            return False
        if text.rstrip() in ("--", "-- ") and (left.spent or self._signs(self.at)):
            return True
        return left.spent and bool(text) and text[0] not in _PREFIXES

    def _signs(self, at: int) -> bool:
        """Return whether the signature of a mail starts here: one line and the end follow."""
        rest = [line.text for line in self._lines[at + 1 :] if line.text.strip()]
        return len(rest) == 1 and rest[0][0] not in _PREFIXES


class _Counts:
    """How many lines a hunk still claims to have; a bare `@@` claims nothing."""

    def __init__(self, header: Header) -> None:
        self._claims = header.hint is not None
        self.old = 0 if header.hint is None else header.hint.count
        self.new = header.new_count or 0

    @property
    def spent(self) -> bool:
        """Whether all lines that were claimed have been read."""
        return self._claims and self.old <= 0 and self.new <= 0

    @property
    def expects_both(self) -> bool:
        """Whether a removed and an added line are still to come."""
        return self._claims and self.old > 0 and self.new > 0

    @property
    def too_many_old(self) -> bool:
        """Whether more old lines were read than claimed, or nothing was claimed."""
        return not self._claims or self.old < 0 or self.new < 0

    def take(self, side: Side) -> None:
        self.old -= side is not Side.ADDED
        self.new -= side is not Side.REMOVED

    def give_back(self) -> None:
        self.old += 1
        self.new += 1


def _without_padding(body: list[Line], left: _Counts) -> list[Line]:
    """Leave out the empty lines after a hunk that its counts do not claim."""
    while body and body[-1].blank and left.too_many_old:
        left.give_back()
        body.pop()
    return body
