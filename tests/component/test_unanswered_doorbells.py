"""Doorbells that nobody can answer now: few are rung, and all at once when somebody can."""

import asyncio

from tests.functions import echo, make_spec
from tests.workers import WorkerBench
from toolrail.registry import Registry
from toolrail_schemas import ToolSpec
from toolrail_workers.probing import PROBES
from toolrail_workers.reaper import Reaper

WAITING = 160
TICKS = 15
NEW = make_spec("demo.new")


async def leave_by_a_worker_that_restarts(bench: WorkerBench) -> None:
    """Let calls wait for a tool whose worker has gone; the one that is back cannot run it yet."""
    registry = Registry(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0)
    await registry.announce("builtin", "builtin", [NEW], worker="gone", available=True)
    await registry.withdraw("builtin", "builtin", worker="gone")
    bench.add("demo.old")
    await bench.start_worker()
    await dispatch(bench, NEW, WAITING)


async def dispatch(bench: WorkerBench, spec: ToolSpec, count: int) -> None:
    """Queue so many calls, `c0` and on."""
    for number in range(count):
        await bench.dispatch(f"c{number}", spec)


async def tick_and_settle(bench: WorkerBench, reaper: Reaper) -> None:
    """Give the reaper one tick, the workers time to hear of it, and what they drop its grace."""
    await bench.tick(reaper)
    await bench.clock_moves(150)


async def test_a_restart_with_many_calls_waiting_rings_few_doorbells(bench: WorkerBench) -> None:
    """Nobody can take them: each is rung once more, then some of them ask for all."""
    reaper = bench.reaper()
    await leave_by_a_worker_that_restarts(bench)
    for _ in range(TICKS):
        await tick_and_settle(bench, reaper)
    rung = await bench.total("rerung:builtin")

    assert WAITING <= rung <= WAITING + TICKS * PROBES


async def test_the_tick_after_a_worker_is_there_rings_for_every_call(bench: WorkerBench) -> None:
    """Nothing waits for a doubled patience, and nothing is lost."""
    reaper = bench.reaper()
    await leave_by_a_worker_that_restarts(bench)
    for _ in range(6):
        await tick_and_settle(bench, reaper)
    bench.executor.add(NEW, echo)
    await bench.clock_moves(150)
    await bench.tick(reaper)
    results = await asyncio.gather(*(bench.result(f"c{number}") for number in range(WAITING)))

    assert [result for result in results if result.is_error] == []
    assert sorted(bench.executor.started) == sorted(f"c{number}" for number in range(WAITING))


async def test_one_answered_doorbell_rings_for_its_like(bench: WorkerBench) -> None:
    """A worker that comes to life without a word, such as one that hung, is noticed by its deed."""
    reaper = bench.reaper()
    bench.executor.add(NEW, echo)
    worker = await bench.start_worker(pops=False)
    await dispatch(bench, NEW, WAITING)
    for _ in range(TICKS):
        while await bench.pop():
            pass
        await tick_and_settle(bench, reaper)
    rung = await bench.total("rerung:builtin")
    bench.pop_for(worker)
    await tick_and_settle(bench, reaper)
    await tick_and_settle(bench, reaper)
    results = await asyncio.gather(*(bench.result(f"c{number}") for number in range(WAITING)))

    assert WAITING <= rung <= WAITING + TICKS * PROBES
    assert [result for result in results if result.is_error] == []


async def test_tools_do_not_wait_for_each_other(bench: WorkerBench) -> None:
    """Patience with a tool that nobody has keeps no doorbell of another one."""
    reaper = bench.reaper()
    await leave_by_a_worker_that_restarts(bench)
    for _ in range(4):
        await tick_and_settle(bench, reaper)
    spec = bench.executor.specs["demo.old"]
    for number in range(10):
        await bench.dispatch_unheard(f"lost{number}", spec)
    for _ in range(2):
        await tick_and_settle(bench, reaper)
    states = [(await bench.ended(f"lost{number}")).state for number in range(10)]

    assert states == ["completed"] * 10
