"""What a measurement is asked for and what it gives.

Is: how many calls and rounds, and the median of rounds. Is not: a measurement. Above: all of them.
Below: nothing.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tests.bench.phases import Figures


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    drain: int
    """Calls of a preloaded drain."""
    clients: int
    """Calls of 32 clients together."""
    lone: int
    """Calls of one client, one after the other."""
    working: int
    """Calls that each take a few milliseconds of CPU."""
    rounds: int
    """Of which the median counts; of figures that are ratios, the median of the ratios."""

    def with_rounds(self, rounds: int) -> "Size":
        """Return the same with so many rounds."""
        return replace(self, rounds=rounds)


FULL = Size(drain=5_000, clients=3_000, lone=500, working=2_000, rounds=3)
QUICK = Size(drain=2_000, clients=1_000, lone=300, working=800, rounds=3)


def median_of(rows: Sequence[Figures]) -> Figures:
    """Return the median of each figure over the rounds."""
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}
