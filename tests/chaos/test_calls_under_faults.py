"""Many calls, several workers, and everything that can be hurt is hurt meanwhile."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from tests.functions import SENDS
from tests.waiting import await_until
from tests.workers import WorkerBench, worker_bench
from toolrail.redis_io import command, connect, retrying
from toolrail.settings import Settings
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import CALL_TERMINAL_EVENTS, JournalEvent, UnknownEvent
from toolrail_workers.executor import ClaimedCall

CALLS = 120
PATIENCE_S = 45.0


@pytest.fixture
async def bench(settings: Settings) -> AsyncGenerator[WorkerBench]:
    """Give a bench whose reaper and renewals are quick."""
    quick = settings.model_copy(update={"lease_s": 1.0, "redis_timeout_s": 1.0})
    async with worker_bench(quick) as bench:
        yield bench


class Effects:
    """Counts what a tool did to the world, per call."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()

    async def __call__(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Have the effect, then take a moment."""
        self.done[call.call_id] += 1
        await asyncio.sleep(random.uniform(0, 0.2))  # noqa: S311  # jitter
        return ToolOutput.text(f"did {call.call_id}")


@asynccontextmanager
async def hurting(bench: WorkerBench) -> AsyncGenerator[None]:
    """Do one bad deed after the other while inside."""
    redis = connect(bench.settings.redis_url, timeout_s=5, name="chaos")
    queue, leases = bench.calls.keys.queue("builtin"), bench.calls.keys.leases

    async def cut_leases() -> None:
        for member in cast("list[str]", await command(redis, "ZRANGE", leases, 0, 2)):
            await command(redis, "ZADD", leases, "XX", 1, member)

    async def ring_twice() -> None:
        for text in cast("list[str]", await command(redis, "LRANGE", queue, -3, -1)):
            await command(redis, "RPUSH", queue, text)

    deeds: list[Callable[[], Awaitable[object]]] = [
        lambda: command(redis, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
        lambda: command(redis, "RPOP", queue),
        cut_leases,
        ring_twice,
    ]

    async def hurt() -> None:
        while True:
            for deed in deeds:
                await retrying(deed, deadline_s=10)
                await asyncio.sleep(random.uniform(0.01, 0.05))  # noqa: S311  # jitter

    task = asyncio.create_task(hurt())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await redis.aclose()


async def test_no_call_is_lost_or_doubled_whatever_breaks(bench: WorkerBench) -> None:
    """Connections are killed, doorbells lost, leases cut short, doorbells rung twice."""
    effects = Effects()
    reads = bench.add("demo.read", effects)
    sends = bench.add("demo.send", effects, annotations=SENDS)
    for _ in range(3):
        await bench.start_worker(renew_s=0.2, reaper_interval_s=0.05)

    async def all_ended() -> bool:
        return not await bench.calls.reader.has_open(bench.calls.run_id)

    async with hurting(bench):
        for number in range(CALLS):
            await bench.dispatch(f"r{number}", reads)
            await bench.dispatch(f"s{number}", sends)
        await await_until(all_ended, "every call has an outcome", timeout_s=PATIENCE_S)
    names = [f"{kind}{number}" for kind in "rs" for number in range(CALLS)]
    results = {name: await bench.result(name) for name in names}
    ends = await ends_of(bench)

    assert ends == Counter(names)
    assert all(effects.done[name] <= 1 for name in names if name.startswith("s"))
    assert all(effects.done[name] <= 2 for name in names)
    for name, result in results.items():
        if not result.is_error:
            assert effects.done[name] >= 1
        elif name.startswith("s"):
            assert result.error_code == "tool.outcome_unknown"


async def ends_of(bench: WorkerBench) -> Counter[str]:
    """Return how often each call ended, by the journal."""
    return Counter(
        event.causality.call_id or ""
        for event in await whole_journal(bench)
        if isinstance(event, JournalEvent) and event.type in CALL_TERMINAL_EVENTS
    )


async def whole_journal(bench: WorkerBench) -> list[JournalEvent | UnknownEvent]:
    """Return every event of the run; a gap raises."""
    events = await bench.calls.journal.read(bench.calls.run_id)
    while True:
        more = await bench.calls.journal.read(bench.calls.run_id, after_seq=events[-1].seq)
        if not more:
            return events
        events += more
