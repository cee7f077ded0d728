"""Parse a unified diff, plain or git's (semantics 5.5.7).

Is: sections, names and operations. Is not: the lines of a hunk (`hunks.py`) or the matching: line
counts are not trusted, and line numbers only decide between equals.
Above: `parsing.py`. Below: `hunks.py`, `diff_names.py`, `model.py`.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from toolrail_workers.builtin.patching.diff_names import git_names, header_name, strip_prefixes
from toolrail_workers.builtin.patching.headers import is_header
from toolrail_workers.builtin.patching.hunks import Hunks, is_file_header
from toolrail_workers.builtin.patching.model import Chunk, FileOp, Line, OpKind, Side
from toolrail_workers.builtin.patching.problems import PatchError, malformed
from toolrail_workers.builtin.patching.wrapping import Numbered

_GIT = "diff --git "
_UNSUPPORTED = re.compile(
    r"GIT binary patch|Binary files .* differ|copy (?:from|to) .*"
    r"|(?:new|old|deleted file|new file) mode 1[26]0000|index \S+ 1[26]0000"
)
_EXTENDED = re.compile(
    r"(?P<key>old mode|new mode|deleted file mode|new file mode|rename from|rename to"
    r"|similarity index|dissimilarity index|index) (?P<value>.*)"
)


@dataclass
class _Section:
    """What is known of one file while its headers are read."""

    number: int
    git: bool = False
    old: str | None = None
    """None: not said yet, or `/dev/null`."""
    new: str | None = None
    facts: dict[str, str] = field(default_factory=dict[str, str])
    chunks: tuple[Chunk, ...] = ()
    from_nothing: bool = False
    to_nothing: bool = False


def parse_unified(lines: Sequence[Numbered]) -> tuple[FileOp, ...]:
    """Return the operations of a diff, in order.

    What mail programs and version control write around it is passed over.

    Raises:
        PatchError: `patch.malformed`, `empty`, `unsupported` or `out_of_order`.
    """
    return _Parser(lines).operations()


class _Parser:
    """Walks over the lines of a diff once."""

    def __init__(self, lines: Sequence[Numbered]) -> None:
        self._lines = lines
        self._at = 0

    def operations(self) -> tuple[FileOp, ...]:
        ops: list[FileOp] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text.startswith(_GIT) or is_file_header(self._lines, self._at):
                ops.append(_operation(self._section(line)))
            elif is_header(line.text):
                raise malformed(
                    line.number,
                    "a hunk without the name of its file.",
                    "Put `--- a/path` and `+++ b/path` before the first hunk of a file.",
                )
            else:
                self._at += 1
        if not ops:
            raise PatchError("empty", "The diff has no file section: nothing was recognised.")
        return tuple(ops)

    def _section(self, line: Numbered) -> _Section:
        section = _Section(number=line.number)
        if line.text.startswith(_GIT):
            section.git = True
            self._at += 1
            section.old, section.new = git_names(line.text[len(_GIT) :].rstrip("\r"), line.number)
            self._extended(section)
        if is_file_header(self._lines, self._at):
            self._names(section)
        hunks = Hunks(self._lines, self._at)
        section.chunks = hunks.read()
        self._at = hunks.at
        return section

    def _extended(self, section: _Section) -> None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            text = line.text.rstrip()
            if _UNSUPPORTED.fullmatch(text):
                raise PatchError(
                    "unsupported",
                    f"Line {line.number} of the patch: links, submodules, copies and binary data "
                    "are not supported.",
                    facts={"patch_line": line.number},
                )
            found = _EXTENDED.fullmatch(text)
            if found is None:
                return
            section.facts[found["key"]] = found["value"]
            self._at += 1

    def _names(self, section: _Section) -> None:
        old = header_name(self._lines[self._at])
        new = header_name(self._lines[self._at + 1])
        self._at += 2
        section.from_nothing, section.to_nothing = old is None, new is None
        section.old, section.new = strip_prefixes(old, new)


def _operation(section: _Section) -> FileOp:
    renamed_to = section.facts.get("rename to")
    if section.from_nothing or "new file mode" in section.facts:
        return _addition(section)
    if section.to_nothing or "deleted file mode" in section.facts:
        return _deletion(section)
    if renamed_to is not None:
        source = section.facts.get("rename from") or section.old or ""
        return _update(section, source, move_to=renamed_to)
    if not section.chunks:
        raise _nothing(section)
    return _update(section, _same_name(section), move_to=None)


def _addition(section: _Section) -> FileOp:
    for chunk in section.chunks:
        if chunk.old:
            raise malformed(
                chunk.old[0].number,
                "a new file has only lines that start with `+`.",
                "Name the existing file in `---` to change it.",
            )
    content = tuple(line for chunk in section.chunks for line in chunk.lines)
    path = section.new or section.old or ""
    return FileOp(kind=OpKind.ADD, path=path, number=section.number, content=content)


def _deletion(section: _Section) -> FileOp:
    path = section.old or section.new or ""
    return FileOp(
        kind=OpKind.DELETE,
        path=path,
        number=section.number,
        chunks=section.chunks,
        explicit_endings=_spells_endings(section.chunks),
    )


def _update(section: _Section, path: str, *, move_to: str | None) -> FileOp:
    _refuse_disorder(section.chunks)
    return FileOp(
        kind=OpKind.UPDATE,
        path=path,
        number=section.number,
        move_to=move_to,
        chunks=section.chunks,
        explicit_endings=_spells_endings(section.chunks),
    )


def _nothing(section: _Section) -> PatchError:
    facts = {"patch_line": section.number}
    if "new mode" in section.facts:
        return PatchError("unsupported", "The patch only changes a file's mode.", facts={**facts})
    return PatchError(
        "malformed",
        f"The section at line {section.number} of the patch has no hunk.",
        next_action="Start each hunk with a line `@@`.",
        facts={**facts},
    )


def _same_name(section: _Section) -> str:
    old, new = section.old or "", section.new or ""
    if old == new or old in (f"{new}.orig", f"{new}~"):
        return new
    raise malformed(
        section.number,
        "`---` and `+++` name two files.",
        "Name the same file twice; to rename, use git's `rename from` and `rename to` lines.",
    )


def _refuse_disorder(chunks: Sequence[Chunk]) -> None:
    hinted = [(chunk, chunk.hint.start) for chunk in chunks if chunk.hint is not None]
    for (_, before), (chunk, start) in itertools.pairwise(hinted):
        if start < before:
            raise PatchError(
                "out_of_order",
                f"The hunk at line {chunk.number} of the patch starts before the one above it.",
                facts={"patch_line": chunk.number, "chunk": chunk.index},
            )


def _spells_endings(chunks: Sequence[Chunk]) -> bool:
    lines: list[Line] = [line for chunk in chunks for line in chunk.lines]
    return any(line.text.endswith("\r") for line in lines if line.side is not Side.ADDED) or (
        any(line.text.endswith("\r") for line in lines)
    )
