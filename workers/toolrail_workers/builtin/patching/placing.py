"""Find the place of each chunk in a file, or say why there is none (semantics 5.5.2).

Is: anchors, tiers, and the choice between equal places; never a guess. Is not: the new content
(`rebuilding.py`) or the search for what comes closest (`diverging.py`).
Above: `rebuilding.py`. Below: `tiers.py`, `indents.py`, `diverging.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from toolrail_workers.builtin.patching.diverging import (
    ambiguous,
    anchor_not_found,
    mismatch,
    not_at_the_end,
    out_of_order,
)
from toolrail_workers.builtin.patching.indents import Shift, find_shift
from toolrail_workers.builtin.patching.model import Chunk, Line, Side
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.patching.tiers import TIERS_OF, Index, Match, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a chunk goes."""

    chunk: Chunk
    lines: tuple[Line, ...]
    """Those of the chunk that count; a sentinel for the final newline may be left out."""
    start: int
    """Index of its first line in the file, from 0."""
    tier: Tier = Tier.EXACT
    shift: Shift | None = None
    """With `Tier.INDENT`: how added lines are indented anew."""

    @property
    def stop(self) -> int:
        """Index behind its last old line."""
        return self.start + sum(line.side is not Side.ADDED for line in self.lines)


def place_chunks(index: Index, chunks: Sequence[Chunk], match: Match) -> tuple[Placement, ...]:
    """Return where each chunk goes, in the order of the file.

    Raises:
        PatchError: `patch.anchor_not_found`, `ambiguous`, `out_of_order`, `already_applied` or
            `context_mismatch`.
    """
    placements: list[Placement] = []
    cursor = 0
    for chunk in chunks:
        placement = _Search(index, chunk, match, cursor).place()
        placements.append(placement)
        cursor = placement.stop
    return tuple(placements)


class _Search:
    """The search for one chunk."""

    def __init__(self, index: Index, chunk: Chunk, match: Match, cursor: int) -> None:
        self._index = index
        self._chunk = chunk
        self._tiers = TIERS_OF[match]
        self._may_trim = match is not Match.STRICT
        self._cursor = cursor
        self._before = cursor
        """Where the search was before the anchors moved it."""

    def place(self) -> Placement:
        for anchor in self._chunk.anchors:
            at = self._anchor(anchor.text)
            if at is None:
                raise anchor_not_found(self._index, self._chunk, anchor, self._cursor)
            self._cursor = at + 1
        if not self._chunk.old:
            return self._insertion()
        for lines in _readings(self._chunk):
            found = self._block(lines)
            if found is not None:
                return found
        raise self._reason()

    def _anchor(self, text: str) -> int | None:
        tiers = (*self._tiers, Tier.INDENT) if self._may_trim else self._tiers
        for tier in dict.fromkeys(tiers):
            for at in self._index.places(tier, text):
                if at >= self._cursor:
                    return at
        return None

    def _insertion(self) -> Placement:
        """Place a chunk that only adds: after its anchor, at its line number, or at the end."""
        total = len(self._index.lines)
        hint = self._chunk.hint
        if self._chunk.pinned:
            at = total
        elif self._chunk.anchors:
            at = self._cursor
        elif hint is not None:
            at = hint.start if hint.count == 0 else hint.start - 1
            at = max(at, 0)
            if at > total:
                raise not_at_the_end(self._index, self._chunk, f"it has {total} lines")
            if at < self._cursor:
                raise out_of_order(self._index, self._chunk, at)
        else:
            at = total
        return Placement(chunk=self._chunk, lines=self._chunk.lines, start=at)

    def _block(self, lines: tuple[Line, ...]) -> Placement | None:
        old = [line.text for line in _seen_as(self._index, lines) if line.side is not Side.ADDED]
        for tier in self._tiers:
            places = [at for at in self._index.blocks(tier, old) if at >= self._cursor]
            if self._chunk.pinned:
                places = [at for at in places if at + len(old) == len(self._index.lines)]
            shifts = self._shifts(places, old) if tier is Tier.INDENT else {}
            if tier is Tier.INDENT:
                places = list(shifts)
            if places:
                at = self._choose(places, tier)
                return Placement(
                    chunk=self._chunk, lines=lines, start=at, tier=tier, shift=shifts.get(at)
                )
        return None

    def _shifts(self, places: Sequence[int], old: Sequence[str]) -> dict[int, Shift]:
        found: dict[int, Shift] = {}
        for at in places:
            shift = find_shift(old, self._index.lines[at : at + len(old)])
            if shift is not None:
                found[at] = shift
        return found

    def _choose(self, places: Sequence[int], tier: Tier) -> int:
        """Return the one place that is meant.

        A first lookalike would silently change the wrong block, so what nothing decides between
        is refused.
        """
        chunk = self._chunk
        if len(places) == 1:
            return places[0]
        if chunk.anchors and tier in (Tier.EXACT, Tier.TRAILING_WS):
            return places[0]
        hint = chunk.hint
        if hint is not None:
            distances = sorted((abs(at - (hint.start - 1)), at) for at in places)
            if distances[0][0] < distances[1][0]:
                return distances[0][1]
        heading = None if chunk.heading is None else self._anchor(chunk.heading)
        if heading is not None:
            below = [at for at in places if at > heading]
            if len(below) == 1:
                return below[0]
        raise ambiguous(self._index, chunk, places)

    def _reason(self) -> PatchError:
        """Say why nothing was found from the cursor on."""
        chunk = self._chunk
        lines = _seen_as(self._index, chunk.lines)
        old = [line.text for line in lines if line.side is not Side.ADDED]
        new = [line.text for line in lines if line.side is not Side.REMOVED]
        for tier in self._tiers:
            places = list(self._index.blocks(tier, old))
            if tier is Tier.INDENT:
                places = list(self._shifts(places, old))
            if chunk.pinned and places and places[-1] >= self._cursor:
                return not_at_the_end(self._index, chunk, "the lines stand elsewhere", places)
            if places:
                return out_of_order(self._index, chunk, places[-1])
        adds = any(line.side is Side.ADDED for line in lines)
        there = next((at for at in self._index.blocks(Tier.EXACT, new) if at >= self._before), None)
        return mismatch(self._index, chunk, old, self._cursor, already=there if adds else None)


def _readings(chunk: Chunk) -> tuple[tuple[Line, ...], ...]:
    """Return the ways to read a chunk: as it is, and without the empty lines at its end.

    Models write an empty last line for the final newline of a file, and padding before the next
    section.
    """
    readings = [chunk.lines]
    lines = list(chunk.lines)
    while lines:
        last = max((at for at, line in enumerate(lines) if line.side is not Side.ADDED), default=-1)
        if last < 0 or lines[last].side is Side.REMOVED or lines[last].text.rstrip("\r"):
            break
        padding = lines[last].blank
        del lines[last]
        if any(line.side is not Side.ADDED for line in lines):
            readings.append(tuple(lines))
        if not padding:
            break
    return tuple(readings)


def _seen_as(index: Index, lines: Sequence[Line]) -> Sequence[Line]:
    r"""Return the lines as they are compared: a `\r` at the end belongs to the file's ending."""
    if not any(line.text.endswith("\r") for line in lines):
        return lines
    return [
        Line(line.side, line.text.removesuffix("\r"), line.number, line.unterminated)
        for line in lines
    ]
