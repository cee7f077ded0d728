"""See a file as text by the rules of semantics 5.1: strict UTF-8, lines end at LF and nowhere else.

Is: `TextFile` and its facts (lines, endings, BOM), and what a file that is no text is called.
Is not: ranges or budgets (`reading.py`).
Above: `reading.py`, `writing.py`. Below: `run_workspace.py` for the bytes.
"""

import codecs
import io
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from toolrail.tools import ToolOutput
from toolrail_schemas import (
    ErrorClass,
    FileRefBlock,
    JsonObject,
    TextBlock,
    sha256_hex,
    workspace_ref,
)
from toolrail_workers.builtin.files import digest, read_start, read_whole
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.run_workspace import FILE_MAX_BYTES, RunWorkspace, too_large

_SNIFF_BYTES = 8 * 1024
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-executable"),
    (codecs.BOM_UTF16_LE, "text/plain"),
    (codecs.BOM_UTF16_BE, "text/plain"),
)


class Eol(StrEnum):
    """How the lines of a file end."""

    LF = "lf"
    CRLF = "crlf"
    MIXED = "mixed"
    NONE = "none"


@dataclass(frozen=True)
class TextFile:
    """A text file, read whole."""

    text: str
    """Without the byte order mark."""
    content: bytes
    """As on disk."""
    bom: bool

    @classmethod
    def of(cls, content: bytes) -> "TextFile | None":
        """Return the text that `content` is, or None if it is none."""
        bom = content.startswith(codecs.BOM_UTF8)
        if b"\x00" in content[:_SNIFF_BYTES]:
            return None
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            return None
        return cls(text[1:] if bom else text, content, bom)

    @property
    def size(self) -> int:
        """In bytes, as on disk."""
        return len(self.content)

    @cached_property
    def sha256(self) -> str:
        """The version of the file."""
        return sha256_hex(self.content)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their LF; a CR before it is content and stays."""
        lines = self.text.split("\n")
        if not lines[-1]:
            lines.pop()
        return lines

    @property
    def final_newline(self) -> bool:
        """Whether the last line ends with LF."""
        return self.text.endswith("\n")

    @cached_property
    def eol(self) -> Eol:
        """Which line endings occur."""
        every = self.text.count("\n")
        windows = self.text.count("\r\n")
        if every == 0:
            return Eol.NONE
        if windows == 0:
            return Eol.LF
        return Eol.CRLF if windows == every else Eol.MIXED


def load_text(workspace: RunWorkspace, path: LogicalPath) -> TextFile | ToolOutput:
    """Return the text at a resolved path, or the answer that it is not text.

    Raises:
        ToolError: By the path rules, or `workspace.read_too_large`.
    """
    with workspace.opened(path) as descriptor:
        start = read_start(descriptor, _SNIFF_BYTES)
        if b"\x00" not in start:
            content = read_whole(descriptor, limit_bytes=FILE_MAX_BYTES)
            if content is None:
                raise too_large(path)
            text = TextFile.of(content)
            if text is not None:
                return text
        found = digest(descriptor)
    return not_text(path, sha256=found.sha256, size=found.size, start=start)


def not_text(path: LogicalPath, *, sha256: str, size: int, start: bytes) -> ToolOutput:
    """Return the answer for a file that is not text: what it is instead, and a ref to it."""
    mime = _sniff(start)
    ref = workspace_ref(str(path), sha256=sha256)
    facts: JsonObject = {"path": str(path), "bytes": size, "sha256": sha256, "mime": mime}
    said = (
        f"{str(path)!r} is not UTF-8 text but {mime}, {size} bytes. "
        "Nothing was changed. Pass on its file reference, or choose a text file."
    )
    return ToolOutput(
        content=(
            TextBlock(text=said),
            FileRefBlock(ref=ref, path=str(path), bytes=size, sha256=sha256, mime=mime),
        ),
        structured=facts,
        is_error=True,
        error_code="workspace.not_text",
        error_class=ErrorClass.RECOVERABLE,
        resource_refs=(ref,),
    )


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their endings; only `\n` ends one."""
    return io.StringIO(text, newline="\n").readlines()


def count_lines(content: bytes) -> int:
    """Return how many lines the content has; an empty file has none."""
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


def _sniff(start: bytes) -> str:
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next(
        (mime for magic, mime in _MAGIC if start.startswith(magic)), "application/octet-stream"
    )
