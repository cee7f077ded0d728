"""Fifty agent services that dispatch in the same moment, each a process of its own.

Is: a program, `python -m tests.chaos.racers FOLDER RUN_ID SERIES COUNT`. Is not: a judgement.
Above: `test_dispatchers.py`. Below: `rig.py`.
"""

import asyncio
import multiprocessing
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path

from tests.chaos.records import Histories
from toolrail import CallRequest, Settings, Toolrail

TOOL = "effects.rare"
START_S = 60.0
"""Longest wait of the first racer for the last."""


async def race(folder: Path, run_id: str, call_id: str, start: Barrier) -> None:
    """Dispatch one call when all are ready, and write down what came of it."""
    histories = Histories(folder)
    async with Toolrail(Settings.from_env()) as rail:
        run = await rail.run(run_id)
        await run.tools()
        request = CallRequest(
            id=call_id,
            name=TOOL,
            arguments={"file": str(histories.effects_file)},
            turn=int(call_id.rpartition("-")[2]),
        )
        start.wait(START_S)
        ticket = await run.dispatch(request)
        histories.accepted(run_id, call_id, repeatable=False)
        result = await run.wait(ticket, timeout_s=START_S)
        histories.answered(run_id, call_id, result.error_code)


def main(folder: Path, run_id: str, series: str, count: int) -> int:
    """Return how many racers failed."""
    # Forked: every racer is a process of its own, and Python starts but once.
    context = multiprocessing.get_context("fork")
    start = context.Barrier(count)

    def run(number: int) -> None:
        asyncio.run(race(folder, run_id, f"{series}-{number}", start))

    racers = [context.Process(target=run, args=(number,)) for number in range(count)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    return sum(racer.exitcode != 0 for racer in racers)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
