"""Explain why a chunk has no place: the closest one, and the first line that differs there.

Is: the errors of the matcher with their repair data (semantics 5.5.6). Is not: the search itself.
Above: `placing.py`. Below: `tiers.py`, `problems.py`.
"""

from collections import Counter
from collections.abc import Sequence

from pydantic import JsonValue

from toolrail_schemas import JsonObject
from toolrail_workers.builtin.patching.model import Anchor, Chunk, Side
from toolrail_workers.builtin.patching.problems import (
    CANDIDATES_MAX,
    EXCERPT_LINES,
    PatchError,
    excerpt,
    shown,
)
from toolrail_workers.builtin.patching.tiers import Index, Tier

_VOTES_PER_LINE = 64
"""A line that stands at more places than this says nothing about where a block belongs."""
_DOUBLED = ("-", "+")


def anchor_not_found(index: Index, chunk: Chunk, anchor: Anchor, cursor: int) -> PatchError:
    """Return the error for an anchor that is not in the rest of the file."""
    earlier = [at for at in index.places(Tier.INDENT, anchor.text) if at < cursor]
    where = ""
    if earlier:
        where = f" It stands at line {earlier[-1] + 1}, before the chunk above."
    return PatchError(
        "anchor_not_found",
        f"Chunk {chunk.index}: the anchor {shown(anchor.text)!r} is not in the file"
        f"{' from line ' + str(cursor + 1) + ' on' if cursor else ''}.{where}",
        next_action=_read_again(index, earlier[-1] if earlier else cursor),
        facts={
            **_where(chunk),
            "patch_line": anchor.number,
            "expected": shown(anchor.text),
            "candidates": _numbers(earlier),
            "excerpt": [*excerpt(index.lines, earlier[-1] if earlier else cursor)],
        },
    )


def ambiguous(index: Index, chunk: Chunk, places: Sequence[int]) -> PatchError:
    """Return the error for a chunk that fits several places."""
    numbers = _numbers(places)
    return PatchError(
        "ambiguous",
        f"Chunk {chunk.index} fits {len(places)} places: lines "
        f"{', '.join(str(number) for number in numbers)}.",
        next_action="Add more lines around the change, or a line `@@ ` with the line of the file "
        "under which it belongs.",
        facts={
            **_where(chunk),
            "candidates": numbers,
            "excerpt": [*excerpt(index.lines, places[0])],
        },
    )


def out_of_order(index: Index, chunk: Chunk, at: int) -> PatchError:
    """Return the error for a chunk that fits only above where the one before it ended."""
    return PatchError(
        "out_of_order",
        f"Chunk {chunk.index} fits at line {at + 1}, which is above its anchor or the chunk "
        "before it, or overlaps it.",
        next_action="Put the chunks in the order of the file, without overlap; an anchor is a "
        "line above the chunk, not its first line.",
        facts={**_where(chunk), "candidates": [at + 1], "excerpt": [*excerpt(index.lines, at)]},
    )


def not_at_the_end(index: Index, chunk: Chunk, how: str, places: Sequence[int] = ()) -> PatchError:
    """Return the error for a chunk that is bound to the end of the file, or lies behind it."""
    total = len(index.lines)
    return PatchError(
        "context_mismatch",
        f"Chunk {chunk.index} does not fit the end of the file: {how}.",
        next_action=_read_again(index, max(0, total - EXCERPT_LINES)),
        facts={
            **_where(chunk),
            "candidates": _numbers(places),
            "excerpt": [*excerpt(index.lines, total)],
        },
    )


def mismatch(
    index: Index, chunk: Chunk, old: Sequence[str], cursor: int, *, already: int | None
) -> PatchError:
    """Return the error for a chunk that fits nowhere, with the closest place.

    Args:
        index: The file.
        chunk: What was looked for.
        old: Its old lines, as they were compared.
        cursor: Index from which on it was looked for.
        already: Index at which the file has the chunk's new lines; None where it has not.
    """
    if already is not None:
        return PatchError(
            "already_applied",
            f"Chunk {chunk.index}: the file has the new lines already, at line {already + 1}.",
            facts={
                **_where(chunk),
                "candidates": [already + 1],
                "excerpt": [*excerpt(index.lines, already)],
            },
        )
    start = _closest(index, old, cursor)
    offset = _first_difference(index, old, start)
    at = start + offset
    expected, found = old[offset], index.lines[at] if at < len(index.lines) else None
    number = chunk.old[offset].number
    facts: JsonObject = {
        **_where(chunk),
        "patch_line": number,
        "expected": shown(expected),
        "found": None if found is None else shown(found),
        "at_line": at + 1,
        "excerpt": [*excerpt(index.lines, at)],
    }
    has = "the file has ended" if found is None else f"the file has {shown(found)!r}"
    return PatchError(
        "context_mismatch",
        f"Chunk {chunk.index} does not fit. At line {at + 1} of the file it expects "
        f"{shown(expected)!r} (line {number} of the patch), but {has}.{_hint(index, chunk)}",
        next_action=_read_again(index, start),
        facts=facts,
    )


def _closest(index: Index, old: Sequence[str], cursor: int) -> int:
    """Return where most lines of the block stand in order: each line votes for a start."""
    votes: Counter[int] = Counter()
    for offset, text in enumerate(old):
        if not text.strip():
            continue
        places = index.places(Tier.INDENT, text)
        if len(places) <= _VOTES_PER_LINE:
            votes.update(place - offset for place in places if place >= offset)
    if not votes:
        return min(cursor, max(0, len(index.lines) - 1))
    # Of equal ones the first from the cursor on: above it the chunk cannot go.
    return min(votes, key=lambda start: (-votes[start], start < cursor, start))


def _first_difference(index: Index, old: Sequence[str], start: int) -> int:
    tier = Tier.UNICODE
    lines = index.normal(tier)
    for offset, text in enumerate(old):
        at = start + offset
        if at >= len(lines) or lines[at] != tier.normal(text):
            return offset
    return len(old) - 1


def _hint(index: Index, chunk: Chunk) -> str:
    """Say of the commonest slip: a prefix that was written twice."""
    for line in chunk.lines:
        doubled = line.side is not Side.CONTEXT and line.text.startswith(_DOUBLED)
        if doubled and not index.places(Tier.EXACT, line.text):
            rest = line.text[1:]
            if line.side is Side.ADDED or index.places(Tier.TRAILING_WS, rest):
                return (
                    f" Line {line.number} of the patch seems to have its prefix twice: "
                    f"write {shown(line.side.value + rest)!r}."
                )
    for line in chunk.old:
        if line.side is Side.CONTEXT and line.text[:1] in _DOUBLED:
            rest = line.text[1:]
            if index.places(Tier.TRAILING_WS, rest) and not index.places(Tier.EXACT, line.text):
                return (
                    f" Line {line.number} of the patch has a space before its prefix: "
                    f"write {shown(line.text)!r}."
                )
    return ""


def _where(chunk: Chunk) -> JsonObject:
    return {"chunk": chunk.index, "patch_line": chunk.number}


def _numbers(places: Sequence[int]) -> list[JsonValue]:
    return [at + 1 for at in places[:CANDIDATES_MAX]]


def _read_again(index: Index, around: int) -> str:
    first = max(1, min(around - 4, len(index.lines)))
    return (
        f"Call workspace.read_file with start_line {first} and line_count 40, and build the chunk "
        "from the lines that are there."
    )
