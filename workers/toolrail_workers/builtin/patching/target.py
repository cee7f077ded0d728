"""See a text file as lines with their endings, and put it together again byte for byte.

Is: `Target`. Is not: what is text and what is not (`texts.py`).
Above: `placing.py`, `rebuilding.py`. Below: `texts.py`.
"""

import codecs
import itertools
from dataclasses import dataclass

from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.texts import Eol, TextFile

TARGET_MAX_BYTES = 2 * 1024 * 1024
TARGET_MAX_LINES = 50_000


@dataclass(frozen=True, slots=True)
class Target:
    """The lines of a file; only the last may be without an ending."""

    lines: tuple[str, ...]
    endings: tuple[str, ...]
    r"""Per line `\n`, `\r\n` or nothing."""
    bom: bool = False

    @classmethod
    def of(cls, file: TextFile) -> "Target":
        r"""Return the lines of a text; only `\n` ends one, and a `\r` before it belongs to it.

        Raises:
            PatchError: `patch.too_large`.
        """
        if file.size > TARGET_MAX_BYTES:
            raise _too_large(f"{file.size} bytes, the limit is {TARGET_MAX_BYTES}.")
        if len(file.lines) > TARGET_MAX_LINES:
            raise _too_large(f"{len(file.lines)} lines, the limit is {TARGET_MAX_LINES}.")
        if file.eol not in (Eol.CRLF, Eol.MIXED):
            return cls(tuple(file.lines), _ended(len(file.lines), file), file.bom)
        last = len(file.lines) - 1
        lines: list[str] = []
        endings: list[str] = []
        for index, line in enumerate(file.lines):
            ended = index < last or file.final_newline
            windows = ended and line.endswith("\r")
            lines.append(line[:-1] if windows else line)
            endings.append(("\r\n" if windows else "\n") if ended else "")
        return cls(tuple(lines), tuple(endings), file.bom)

    @property
    def first_ending(self) -> str:
        """What ends the first line; LF where nothing does."""
        return next(filter(None, self.endings), "\n")

    @property
    def has_crlf(self) -> bool:
        """Whether any line ends as on Windows."""
        return "\r\n" in self.endings

    @property
    def ends_open(self) -> bool:
        """Whether there is a last line and it has no newline."""
        return bool(self.endings) and not self.endings[-1]

    def encode(self) -> bytes:
        """Return the bytes of the file."""
        pieces = itertools.chain.from_iterable(zip(self.lines, self.endings, strict=True))
        return (codecs.BOM_UTF8 if self.bom else b"") + "".join(pieces).encode()


def _ended(count: int, file: TextFile) -> tuple[str, ...]:
    """Return the endings of lines that all end with LF, but for a last one that does not end."""
    if not count or file.final_newline:
        return ("\n",) * count
    return (*("\n",) * (count - 1), "")


def _too_large(how: str) -> PatchError:
    return PatchError(
        "too_large",
        f"The file is too large to patch: {how}",
        next_action="Write the part you need to another file, or replace the file as a whole.",
    )
