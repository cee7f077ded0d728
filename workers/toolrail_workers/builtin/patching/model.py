"""Name the parts of a patch: operations on files, chunks and their lines.

Is: what both parsers produce and what the matcher and the planner read. Is not: a file on disk.
Above: `v4a.py`, `unified.py`, `placing.py`, `rebuilding.py`, `overlay.py`. Below: nothing.
"""

from dataclasses import dataclass
from enum import StrEnum

PATCH_MAX_BYTES = 256 * 1024
PATCH_MAX_LINES = 20_000
OPS_MAX = 50
CHUNKS_MAX = 200
"""Per file. These limits and those of `target.py` are semantics 5.5.1's."""


class Format(StrEnum):
    """How a patch is spelled."""

    V4A = "v4a"
    UNIFIED = "unified"


class Side(StrEnum):
    """On which side of a change a line stands; the value is its prefix."""

    CONTEXT = " "
    REMOVED = "-"
    ADDED = "+"


class OpKind(StrEnum):
    """What is done to a file."""

    ADD = "add"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a chunk, without its prefix."""

    side: Side
    text: str
    number: int
    """Line of the patch, from 1."""
    unterminated: bool = False
    """Whether the patch says that the file ends here without a newline."""
    blank: bool = False
    """Whether the patch has a wholly empty line here, without even a prefix."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line that must be found before the chunk."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class Hint:
    """The line numbers of a hunk header: believed only where nothing else decides."""

    start: int
    """First old line as written, from 1; with `count` 0 the line before the insertion."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One place of a file and what changes there."""

    index: int
    """From 1, within its operation."""
    number: int
    """Line of the patch at which it starts."""
    lines: tuple[Line, ...]
    anchors: tuple[Anchor, ...] = ()
    hint: Hint | None = None
    heading: str | None = None
    """What a hunk header quotes behind its numbers: a weak anchor."""
    end_of_file: bool = False

    @property
    def old(self) -> tuple[Line, ...]:
        """The lines the file has now: context and removed."""
        return tuple(line for line in self.lines if line.side is not Side.ADDED)

    @property
    def new(self) -> tuple[Line, ...]:
        """The lines the file shall have: context and added."""
        return tuple(line for line in self.lines if line.side is not Side.REMOVED)

    @property
    def pinned(self) -> bool:
        """Whether it must end at the last line of the file."""
        return self.end_of_file or any(line.unterminated for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOp:
    """What a patch does to one file."""

    kind: OpKind
    path: str
    """As written."""
    number: int
    """Line of the patch at which it starts."""
    move_to: str | None = None
    """Only with `UPDATE`: the new path, as written."""
    chunks: tuple[Chunk, ...] = ()
    content: tuple[Line, ...] = ()
    """Only with `ADD`: the lines of the new file."""
    explicit_endings: bool = False
    """Whether the body spells each line's ending, as a diff of a CRLF file does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A whole patch, understood."""

    format: Format
    ops: tuple[FileOp, ...]
    normalized: tuple[str, ...] = ()
    """What was tolerated in the input, in words."""
