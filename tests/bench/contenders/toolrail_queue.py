"""Toolrail with full governance on one asyncio worker process. Run as a program, see `race.py`.

Is: the queue as `race.py` sees it: policy, validation, journal, lease, MAC and a budget per turn
for each call. Is not: what is measured. Above: `race.py`. Below: `rail.py`.

The second race is that of process-isolated tools in two children, against Celery's prefork.
"""

import sys
import tempfile
from pathlib import Path

from tests.bench.contender import run, tell
from tests.bench.phases import Figures, Plan, run_async
from tests.bench.rail import open_rail


async def race(url: str, plan: Plan, tool: str) -> Figures:
    """Return the figures of calls of one tool."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_rail(url, Path(folder), tool=tool) as rail:
            return await run_async(rail, rail, plan)


if __name__ == "__main__":
    tell(run(race(sys.argv[2], Plan.loads(sys.argv[3]), sys.argv[4])))
