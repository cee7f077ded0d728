"""Measure two worker processes against one, where the worker is the limit.

Is: calls that take a few milliseconds of a worker's CPU, so that the caller, which is one process
as well, is not what is measured. Is not: a race. Above: `measurements.py`. Below: `rail.py`.

Two workers, a client and Redis share the cores: with two of them the ratio stays below two by what
client and Redis need.
"""

from tests.bench.figures import Size, median_of
from tests.bench.phases import Figures
from tests.bench.rail import fresh_rail


async def measure(size: Size) -> Figures:
    """Return calls per second of one and of two workers, and their ratio."""
    rows: list[Figures] = []
    for _ in range(size.rounds):
        row = {f"workers_{count}_per_s": await _rate(count, size.working) for count in (1, 2)}
        row["two_workers_vs_one"] = row["workers_2_per_s"] / row["workers_1_per_s"]
        rows.append(row)
    return median_of(rows)


async def _rate(workers: int, calls: int) -> float:
    async with fresh_rail(workers=workers, tool="bench.work") as rail:
        return calls / await rail.drain(calls)
