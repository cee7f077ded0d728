"""Measure calls that only wait: 200 and 2,000 of 100 ms on one worker of 200 slots.

Is: seconds from the first start to the last result. Is not: work for the CPU (`pair.py`). Above:
`measurements.py`. Below: `rail.py`.
"""

from tests.bench.figures import Size, median_of
from tests.bench.phases import Figures
from tests.bench.rail import fresh_rail

COUNTS = (200, 2_000)


async def measure(size: Size) -> Figures:
    """Return seconds by count of calls."""
    async with fresh_rail(tool="bench.sleep") as rail:
        rows = [
            {f"sleep_{count}_s": await rail.drain(count) for count in COUNTS}
            for _ in range(size.rounds)
        ]
    return median_of(rows)
