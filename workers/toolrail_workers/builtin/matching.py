"""Find the lines that two texts share, in order, in a time that grows with the text alone.

Is: equal stretches taken as they come, and the place behind a difference where both go on alike.
Is not: the smallest diff there is; that one is looked for (difflib) only between two places that
are near each other.
Above: `diffs.py`. Below: difflib.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_STEP = 1024
"""Lines that are compared at once while all are equal."""
_WINDOW = 2000
"""Lines behind a difference among which a common one is looked for."""
_CLOSE = 500
"""Lines between two common places that are compared each with each."""


class Block(NamedTuple):
    """Lines that are the same on both sides."""

    old: int
    """Index of the first, from 0."""
    new: int
    size: int


def matching_blocks(old: Sequence[str], new: Sequence[str]) -> list[Block]:
    """Return the blocks, in order and without overlap."""
    return list(_blocks(old, new))


def _blocks(old: Sequence[str], new: Sequence[str]) -> Iterator[Block]:
    at = to = 0
    while True:
        size = _equal_from(old, at, new, to)
        if size:
            yield Block(at, to, size)
        at, to = at + size, to + size
        if at == len(old) or to == len(new):
            return
        met = _meeting(old[at : at + _WINDOW], new[to : to + _WINDOW])
        stop, end = (len(old), len(new)) if met is None else (at + met[0], to + met[1])
        yield from _between(old, new, (at, stop), (to, end))
        at, to = stop, end


def _equal_from(old: Sequence[str], at: int, new: Sequence[str], to: int) -> int:
    """Return how many lines are equal from here on."""
    size = 0
    most = min(len(old) - at, len(new) - to)
    step = _STEP
    while size < most:
        step = min(step, most - size)
        first, second = at + size, to + size
        if old[first : first + step] == new[second : second + step]:
            size += step
        elif step == 1:
            break
        else:
            step //= 2
    return size


def _meeting(old: Sequence[str], new: Sequence[str]) -> tuple[int, int] | None:
    """Return the nearest line that stands once on either side, as an index into each."""
    once = {line: at for at, line in _single(new)}
    places = [(at, once[line]) for at, line in _single(old) if line in once]
    return min(places, key=lambda place: (sum(place), place), default=None)


def _single(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    counts = Counter(lines)
    return ((at, line) for at, line in enumerate(lines) if counts[line] == 1)


def _between(
    old: Sequence[str], new: Sequence[str], olds: tuple[int, int], news: tuple[int, int]
) -> Iterator[Block]:
    tail = _equal_before(old, olds, new, news)
    olds, news = (olds[0], olds[1] - tail), (news[0], news[1] - tail)
    if max(olds[1] - olds[0], news[1] - news[0]) <= _CLOSE:
        first, second = old[slice(*olds)], new[slice(*news)]
        matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
        for block in matcher.get_matching_blocks():
            if block.size:
                yield Block(olds[0] + block.a, news[0] + block.b, block.size)
    if tail:
        yield Block(olds[1], news[1], tail)


def _equal_before(
    old: Sequence[str], olds: tuple[int, int], new: Sequence[str], news: tuple[int, int]
) -> int:
    """Return how many lines at the end of two stretches are equal."""
    most = min(olds[1] - olds[0], news[1] - news[0])
    size = 0
    while size < most and old[olds[1] - size - 1] == new[news[1] - size - 1]:
        size += 1
    return size
