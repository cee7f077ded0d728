"""Make the new content of a file from its old one and its chunks (semantics 5.5.3).

Is: which bytes stay, which go, and how an added line ends. Is not: the search (`placing.py`).
Above: `overlay.py`. Below: `placing.py`, `target.py`.

Context keeps the bytes of the file, whatever the patch writes for it. An added line ends as the
line it replaces, else as the line above it, else as the first line of the file, else with LF.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolrail_workers.builtin.patching.model import FileOp, Format, Line, Side
from toolrail_workers.builtin.patching.placing import Placement, place_chunks
from toolrail_workers.builtin.patching.target import Target
from toolrail_workers.builtin.patching.tiers import Index, Match, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReport:
    """Where a chunk went."""

    index: int
    at_line: int
    """Line of the file as it was, from 1."""
    matched_with: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """A file after its chunks."""

    target: Target
    chunks: tuple[ChunkReport, ...]
    added: int
    removed: int


def rebuild(target: Target, op: FileOp, form: Format, match: Match) -> Rebuilt:
    """Return the file that an update makes of `target`.

    Args:
        target: The file as it is.
        op: An update, or a deletion with hunks.
        form: Of the patch: a unified diff says on both sides whether the file ends with a newline.
        match: How lenient chunks are matched.

    Raises:
        PatchError: See `place_chunks`.
    """
    placements = place_chunks(Index(target.lines), op.chunks, match)
    builder = _Builder(target, explicit=op.explicit_endings)
    for placement in placements:
        builder.change(placement)
    builder.finish()
    new = Target(*builder.terminated(form), bom=target.bom)
    lines = [line for chunk in op.chunks for line in chunk.lines]
    return Rebuilt(
        target=new,
        chunks=tuple(_report(placement) for placement in placements),
        added=sum(line.side is Side.ADDED for line in lines),
        removed=sum(line.side is Side.REMOVED for line in lines),
    )


def new_file(content: Sequence[Line]) -> Target:
    """Return the file that consists of added lines; it ends with a newline unless told not to."""
    lines: list[str] = []
    endings: list[str] = []
    for line in content:
        windows = line.text.endswith("\r") and not line.unterminated
        lines.append(line.text[:-1] if windows else line.text)
        endings.append("\r\n" if windows else "\n")
    if content and content[-1].unterminated:
        endings[-1] = ""
    return Target(tuple(lines), tuple(endings))


def _report(placement: Placement) -> ChunkReport:
    return ChunkReport(
        index=placement.chunk.index, at_line=placement.start + 1, matched_with=placement.tier
    )


class _Builder:
    """The new lines, while they are put together."""

    def __init__(self, target: Target, *, explicit: bool) -> None:
        self._target = target
        self._explicit = explicit
        self._lines: list[str] = []
        self._endings: list[str] = []
        self._at = 0
        """Index of the next old line."""
        self._replaced: list[str] = []
        """Endings of removed lines that no added line has taken yet."""
        self._last: Line | None = None
        """The line of the patch that the last new line comes from; None: from the file."""
        self._last_removed: Line | None = None
        """The line that removed the last line of the file."""
        self._said_open = False
        """Whether an old side said that the file ends without a newline."""

    def change(self, placement: Placement) -> None:
        """Copy what lies above a chunk, then apply it."""
        self._copy_to(placement.start)
        for line in placement.lines:
            self._said_open |= line.unterminated and line.side is not Side.ADDED
            if line.side is Side.CONTEXT:
                self._keep()
                if self._at == len(self._target.lines):
                    self._last = line
            elif line.side is Side.REMOVED:
                self._drop(line)
            else:
                self._add(line, placement)
        self._replaced.clear()

    def finish(self) -> None:
        """Copy what lies below the last chunk."""
        self._copy_to(len(self._target.lines))

    def terminated(self, form: Format) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return lines and endings, the last one ended as the rules say."""
        endings = self._endings
        while "" in endings[:-1]:
            # What was the last line of the file is not any more.
            at = endings.index("")
            endings[at] = (endings[at - 1] if at else "") or self._default
        if endings:
            open_end = self._ends_open(form)
            endings[-1] = "" if open_end else endings[-1] or self._usual_ending()
        return tuple(self._lines), tuple(endings)

    def _ends_open(self, form: Format) -> bool:
        """Return whether the new file ends without a newline."""
        last = self._last
        if last is not None and last.unterminated:
            return last.side is Side.ADDED or self._target.ends_open
        if form is Format.UNIFIED and self._said_open:
            return False
        if not self._target.ends_open:
            return False
        # Additions below the last line are lines of their own; a last line that was changed or
        # that moved up is left as the last line was.
        return last is None or last.side is Side.CONTEXT or self._last_removed is not None

    @property
    def _default(self) -> str:
        return self._target.first_ending

    def _usual_ending(self) -> str:
        above = self._endings[-2] if len(self._endings) > 1 else ""
        return above or self._default

    def _copy_to(self, index: int) -> None:
        if index > self._at:
            self._lines += self._target.lines[self._at : index]
            self._endings += self._target.endings[self._at : index]
            self._at = index
            self._last = None

    def _keep(self) -> None:
        self._replaced.clear()
        self._copy_to(self._at + 1)

    def _drop(self, line: Line) -> None:
        self._replaced.append(self._target.endings[self._at])
        self._at += 1
        if self._at == len(self._target.lines):
            self._last_removed = line

    def _add(self, line: Line, placement: Placement) -> None:
        text = line.text if placement.shift is None else placement.shift.apply(line.text)
        replaced = self._replaced.pop(0) if self._replaced else ""
        if text.endswith("\r") and not line.unterminated:
            text, ending = text[:-1], "\r\n"
        elif self._explicit:
            ending = "\n"
        else:
            ending = replaced or (self._endings[-1] if self._endings else "") or self._default
        self._lines.append(text)
        self._endings.append(ending)
        self._last = line
