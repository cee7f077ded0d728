"""A worker on duty and off: what it says of itself, and how it is told to claim no more."""

import asyncio

import pytest

from tests.functions import Gate
from tests.waiting import await_until
from tests.workers import WorkerBench
from toolrail.fleet import Fleet, WorkerRecord
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail_workers.port import DoorbellNotTaken
from toolrail_workers.runtime import WorkerRuntime


def fleet_of(bench: WorkerBench) -> Fleet:
    """Return the fleet as an operator sees it."""
    return Fleet(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0)


async def record_of(bench: WorkerBench) -> WorkerRecord:
    """Return the record of the only worker."""
    (record,) = await fleet_of(bench).workers()
    return record


async def live_workers(bench: WorkerBench) -> list[str]:
    """Return whom dispatchers count on."""
    registry = Registry(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0)
    return await registry.live_workers("builtin", "builtin")


async def wait_drained(bench: WorkerBench, runtime: WorkerRuntime) -> None:
    """Return when the worker has paused its pool and says so."""

    async def is_drained() -> bool:
        return bench.control.paused and (await record_of(bench)).draining

    await await_until(is_drained, f"{runtime.worker} says that it drains")


async def wait_on_duty(bench: WorkerBench) -> None:
    """Return when the worker claims again and is counted on."""

    async def is_back() -> bool:
        record = await record_of(bench)
        return not (bench.control.paused or record.draining) and bool(await live_workers(bench))

    await await_until(is_back, "the worker is back on duty")


async def test_a_worker_says_what_it_is_and_does(bench: WorkerBench) -> None:
    """From its start, with instants by the clock of Redis, until it has stopped."""
    bench.control.busy = 3
    before_ms = await fleet_of(bench).now_ms()
    runtime = await bench.start_worker(pops=False, build="v7")
    record = await record_of(bench)
    after_ms = await fleet_of(bench).now_ms()
    await runtime.drain(1.0)
    during_end = await record_of(bench)
    await runtime.stop()

    assert record.worker == runtime.worker
    assert record.worker.rsplit("-", 2)[1] == str(record.pid)
    assert (record.sources, record.queues) == (("builtin",), ("builtin",))
    assert (record.slots, record.busy, record.draining) == (10, 3, False)
    assert (record.build, record.metrics_address) == ("v7", "")
    assert before_ms - 1 <= record.started_ms <= record.seen_ms <= after_ms
    assert record.started_ms - 1 <= record.last_progress_ms <= record.seen_ms
    assert record.loop_lag_ms >= 0
    assert during_end.worker == runtime.worker, "it is listed until it is gone"
    assert await fleet_of(bench).workers() == []


async def test_a_worker_that_was_killed_is_listed_no_more_after_three_rounds(
    bench: WorkerBench,
) -> None:
    """The record goes by itself: whoever was killed cannot take it back."""
    await bench.start_worker(pops=False, announce_s=0.5)
    left_ms = await command(
        bench.calls.redis, "PTTL", bench.calls.keys.worker((await record_of(bench)).worker)
    )

    assert isinstance(left_ms, int)
    assert 0 < left_ms <= 1500


async def test_a_drained_worker_claims_nothing_finishes_its_own_and_waits(
    bench: WorkerBench,
) -> None:
    """At once, by the nudge, though its next round is far away; undone, it claims again."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    runtime = await bench.start_worker(pops=False, announce_s=600.0)
    await bench.dispatch("runs", spec)
    await bench.dispatch("late", spec)
    handling = asyncio.create_task(runtime.handle(bench.bell("runs")))
    await gate.entered.wait()
    await fleet_of(bench).ask_drain(runtime.worker)
    await wait_drained(bench, runtime)
    with pytest.raises(DoorbellNotTaken):
        await runtime.handle(bench.bell("late"))
    gate.open.set()
    await handling
    unwanted = await live_workers(bench)
    await fleet_of(bench).undo_drain(runtime.worker)
    await wait_on_duty(bench)
    await runtime.handle(bench.bell("late"))

    assert unwanted == [], "nobody counts on its tools"
    assert not (await bench.result("runs")).is_error
    assert not (await bench.result("late")).is_error


async def test_an_order_without_its_nudge_is_obeyed_with_the_next_record(
    bench: WorkerBench,
) -> None:
    """The key is the truth; a nudge may be lost."""
    runtime = await bench.start_worker(pops=False, announce_s=0.05)
    await command(bench.calls.redis, "SET", bench.calls.keys.drain(runtime.worker), 1, "PX", 60_000)
    await wait_drained(bench, runtime)
    await command(bench.calls.redis, "DEL", bench.calls.keys.drain(runtime.worker))

    await wait_on_duty(bench)


async def test_a_drained_worker_is_not_taken_for_a_stuck_one(bench: WorkerBench) -> None:
    """Work lies in its queue and it takes nothing, as it was told."""
    runtime = await bench.start_worker(pops=False, announce_s=0.05, watchdog_s=0.05)
    await fleet_of(bench).ask_drain(runtime.worker)
    await wait_drained(bench, runtime)
    first = (await record_of(bench)).last_progress_ms
    await bench.dispatch("c1", bench.add("demo.echo"))

    async def has_gone_on() -> bool:
        return (await record_of(bench)).last_progress_ms > first + 150

    await await_until(has_gone_on, "several looks of the watchdog")
    assert bench.control.reasons == []


async def test_a_drained_worker_stops_like_any_other(bench: WorkerBench) -> None:
    """SIGTERM ends it; an undo that comes then changes nothing."""
    runtime = await bench.start_worker(pops=False)
    await fleet_of(bench).ask_drain(runtime.worker)
    await wait_drained(bench, runtime)
    await runtime.drain(1.0)
    await fleet_of(bench).undo_drain(runtime.worker)
    await runtime.stop()

    assert bench.control.paused
    assert await fleet_of(bench).workers() == []
