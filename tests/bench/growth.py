"""Measure what a call costs in a run that has 1,000 calls, and in one that has 200,000.

Is: one run's ledger that grows, the CPU time of a call at both ends, the memory a call leaves. Is
not: a run's budget or retention. Above: `measurements.py`. Below: `rail.py`.

The cost is the CPU time of everything: client, worker and Redis, all of which are children of
this process. A rate would say the same on a quiet machine only.
"""

from typing import cast

from tests.bench.figures import Size, median_of
from tests.bench.phases import Figures, used_cpu_s
from tests.bench.rail import Rail, fresh_rail
from toolrail.redis_io import connect

SMALL, LARGE = 1_000, 200_000
WINDOW = 1_000
"""Calls whose cost is measured at each end, once a round."""
FILL = 5_000


async def measure(size: Size) -> Figures:
    """Return microseconds of CPU per call at both ends, their ratio, and bytes per call."""
    async with fresh_rail() as rail:
        await _grow(rail, SMALL)
        before = await _used_bytes(rail)
        first = rail.number
        small = median_of([await _cost(rail) for _ in range(size.rounds)])
        await _grow(rail, LARGE)
        grown = await _used_bytes(rail) - before
        finished = rail.number - first
        large = median_of([await _cost(rail) for _ in range(size.rounds)])
    return {
        "cpu_us_at_1k": small["cpu_us"],
        "cpu_us_at_200k": large["cpu_us"],
        "cost_200k_vs_1k": large["cpu_us"] / small["cpu_us"],
        "redis_bytes_per_call": grown / finished,
    }


async def _grow(rail: Rail, calls: int) -> None:
    """The run has so many finished calls."""
    while rail.number < calls:
        await rail.burst(min(FILL, calls - rail.number))


async def _cost(rail: Rail) -> Figures:
    begun = used_cpu_s()
    await rail.burst(WINDOW)
    return {"cpu_us": (used_cpu_s() - begun) / WINDOW * 1e6}


async def _used_bytes(rail: Rail) -> int:
    redis = connect(rail.cluster.settings.redis_url, timeout_s=10, name="bench")
    try:
        return cast("dict[str, int]", await redis.info("memory"))["used_memory"]
    finally:
        await redis.aclose()
