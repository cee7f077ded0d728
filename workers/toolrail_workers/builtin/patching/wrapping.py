"""Take a patch out of what models put around it: blank lines, a heredoc, a Markdown fence.

Is: `unwrap`, which reports all it removes. Is not: the grammar inside (`v4a.py`, `unified.py`).
Above: `parsing.py`. Below: `problems.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from toolrail_workers.builtin.patching.problems import malformed

_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})[\w.+-]*\s*")
_HEREDOC = re.compile(
    r"(?:(?:apply_patch|cat)\s+)?<<-?\s*(?P<quote>['\"]?)(?P<word>\S+?)(?P=quote)\s*"
)


@dataclass(frozen=True, slots=True)
class Numbered:
    """A line of the patch and where it stands, from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """The lines inside, and what was around them."""

    lines: tuple[Numbered, ...]
    normalized: tuple[str, ...]


def unwrap(patch: str) -> Unwrapped:
    r"""Return the lines of a patch without its wrapper.

    A `\r` at the end of every line is taken off; where only some lines have one it is content.

    Raises:
        PatchError: `patch.malformed`, a wrapper that is opened and not closed.
    """
    texts = patch.split("\n")
    normalized: list[str] = []
    if any(texts) and all(text.endswith("\r") for text in _without_last_empty(texts)):
        texts = [text.removesuffix("\r") for text in texts]
        normalized.append("CRLF line endings of the patch")
    lines = [Numbered(number, text) for number, text in enumerate(texts, 1)]
    lines = trimmed(lines)
    for _ in range(2):
        for name, closing in (("heredoc", _heredoc_end), ("Markdown fence", _fence_end)):
            end = closing(lines[0].text) if lines and name not in normalized else None
            if end is None:
                continue
            lines = trimmed(_inside(lines, end, name))
            normalized.append(name)
    return Unwrapped(tuple(lines), tuple(normalized))


def _without_last_empty(texts: list[str]) -> list[str]:
    return texts[:-1] if not texts[-1] else texts


def trimmed(lines: Sequence[Numbered], blank: str = "\r") -> list[Numbered]:
    """Return the lines without those around them that are empty but for `blank` characters.

    A line with a space is context in a diff, so it is not taken off by default.
    """
    start, stop = 0, len(lines)
    while start < stop and not lines[start].text.strip(blank):
        start += 1
    while stop > start and not lines[stop - 1].text.strip(blank):
        stop -= 1
    return list(lines[start:stop])


def _heredoc_end(text: str) -> str | None:
    found = _HEREDOC.fullmatch(text.strip())
    return None if found is None else found["word"]


def _fence_end(text: str) -> str | None:
    found = _FENCE.fullmatch(text.strip())
    return None if found is None else found["fence"]


def _inside(lines: list[Numbered], end: str, name: str) -> list[Numbered]:
    if len(lines) < 2 or lines[-1].text.strip() != end:
        raise malformed(
            lines[0].number,
            f"a {name} is opened here and {end!r} does not close it at the end.",
            "Send only the patch, without anything around it.",
        )
    return lines[1:-1]
