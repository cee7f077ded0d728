"""Measure how long after its deadline a tool that never ends is dead, and the call after it.

Is: a process-isolated tool that spins, by the journal's clock and by the end of its process. Is
not: the proof that all of it dies (`tests/component/test_isolation_process.py`). Above:
`measurements.py`. Below: `rail.py`.
"""

import time

import psutil

from tests.bench.figures import Size, median_of
from tests.bench.phases import Figures
from tests.bench.rail import Rail, fresh_rail
from tests.bench.tools import SPIN_TIMEOUT_S
from tests.waiting import await_until
from toolrail_schemas import EventType, JournalEvent

ISOLATED, SPIN = "bench.echo_process", "bench.spin"


async def measure(size: Size) -> Figures:
    """Return milliseconds from the deadline to the end of the process, and of the next call."""
    async with fresh_rail(tool=ISOLATED) as rail:
        return median_of([await _spin(rail) for _ in range(size.rounds)])


async def _spin(rail: Rail) -> Figures:
    before = await _last_seq(rail)
    children = psutil.Process(rail.cluster.pid("builtin.1")).children(recursive=True)
    rail.tool = SPIN
    [ticket] = await rail.dispatch(1)
    result = await rail.run.wait(ticket)
    answered = time.perf_counter()
    assert result.error_code == "tool.timeout", result.error_code
    await await_until(lambda: any(_is_gone(child) for child in children), "the child is dead")
    buried_s = time.perf_counter() - answered
    ended_s = await _lived_s(rail, before) - SPIN_TIMEOUT_S
    rail.tool = ISOLATED
    begun = time.perf_counter()
    await rail.burst(1)
    next_s = time.perf_counter() - begun
    return {"killed_after_deadline_ms": (ended_s + buried_s) * 1e3, "next_call_ms": next_s * 1e3}


def _is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def _last_seq(rail: Rail) -> int:
    return int((await rail.run.record())["seq"])


async def _lived_s(rail: Rail, after_seq: int) -> float:
    """Return the seconds from the start of the call to its end, by the clock of Redis."""
    at = {
        event.type: event.at
        for event in await rail.run.journal(after_seq=after_seq)
        if isinstance(event, JournalEvent)
    }
    return (at[EventType.TOOL_CALL_FAILED] - at[EventType.TOOL_CALL_STARTED]).total_seconds()
