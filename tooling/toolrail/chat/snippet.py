"""Show where in a message a query was found.

Is: the densest part of a text, cut on code points; whether a phrase really stands in it. Is not: a
search.
Above: `chat.search`, `postgres.py`. Below: `query.py`, `toolrail.search.terms`.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from toolrail.chat.query import Unit
from toolrail.search.terms import is_run, words

SNIPPET_MAX_CHARS = 240
_LEAD_CHARS = 40
"""Shown before the first match where there is room."""
_HITS_MAX = 2_000
"""Matches in one message that are weighed; more say nothing new."""
_BLANKS = re.compile(r"\s+")


def snippet(text: str, units: Sequence[Unit], *, max_chars: int = SNIPPET_MAX_CHARS) -> str:
    """Return at most `max_chars` of the text around its densest matches, on one line.

    Whitespace becomes single blanks; an ellipsis stands where something was left out.
    """
    plain = _BLANKS.sub(" ", unicodedata.normalize("NFC", text)).strip()
    if len(plain) <= max_chars:
        return plain
    room = max_chars - 2
    start = _start(plain, units, room)
    end = min(start + room, len(plain))
    start = max(end - room, 0)
    start, end = _whole(plain, start), _whole(plain, end)
    return ("…" if start else "") + plain[start:end].strip() + ("…" if end < len(plain) else "")


def holds(text: str, unit: Unit) -> bool:
    """Return whether the words of a unit stand together in the text."""
    found, wanted = words(text), list(unit.words)
    size = len(wanted)
    for at in range(len(found) - size + 1):
        if found[at : at + size - 1] != wanted[:-1]:
            continue
        last = found[at + size - 1]
        if last == wanted[-1] or (unit.is_prefix and last.startswith(wanted[-1])):
            return True
    return False


def _start(plain: str, units: Sequence[Unit], room: int) -> int:
    """Return where the part begins that shows the most different units."""
    hits = _hits(plain, units)
    if not hits:
        return 0
    best, best_at = (0, 0), hits[0][0]
    first = 0
    for last, (end_at, _) in enumerate(hits):
        while end_at - hits[first][0] > room - _LEAD_CHARS:
            first += 1
        kinds = len({kind for _, kind in hits[first : last + 1]})
        if (kinds, last - first) > best:
            best, best_at = (kinds, last - first), hits[first][0]
    return max(best_at - _LEAD_CHARS, 0)


def _hits(plain: str, units: Sequence[Unit]) -> list[tuple[int, int]]:
    """Return where units begin in the text, each with the unit's number, in order."""
    hits: list[tuple[int, int]] = []
    for kind, unit in enumerate(units):
        for hit in _pattern(unit).finditer(plain):
            hits.append((hit.start(), kind))
            if len(hits) >= _HITS_MAX:
                break
    return sorted(hits)


@lru_cache(maxsize=1_024)
def _pattern(unit: Unit) -> re.Pattern[str]:
    """Return what finds the unit in a text that was not folded: near enough to show a place."""
    parts = [re.escape(word[0] if is_run(word) else word) for word in unit.words[:-1]]
    parts.append(re.escape(unit.words[-1]))
    joined = r"[\W_]*".join(parts)
    edge = "" if is_run(unit.words[0]) else r"(?<![^\W_])"
    return re.compile(edge + joined, re.IGNORECASE)


def _whole(plain: str, at: int) -> int:
    """Move a cut back to before a letter with its combining marks, at most a few characters."""
    while 0 < at < len(plain) and unicodedata.combining(plain[at]):
        at -= 1
    return at
