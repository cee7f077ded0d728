"""A worker's life: it announces, works, drains, hands over, and ends."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from tests.functions import SENDS, Gate
from tests.servers import StartRedis
from tests.waiting import await_until
from tests.workers import WorkerBench, worker_bench
from toolrail.embedded import EmbeddedRedis
from toolrail.errors import ConfigError
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail.settings import Settings
from toolrail.tools import ToolContext, ToolOutput
from toolrail_workers.assembly import Tuning
from toolrail_workers.executor import ClaimedCall
from toolrail_workers.port import DoorbellNotTaken
from toolrail_workers.runtime import WorkerRuntime, create_runtime
from toolrail_workers.sources import load_factory


def registry_of(bench: WorkerBench) -> Registry:
    """Return the registry as dispatchers read it."""
    return Registry(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0)


async def test_a_worker_announces_what_it_has_and_every_change(bench: WorkerBench) -> None:
    """Dispatchers learn of a new tool at once, and of an unavailable owner."""
    registry = registry_of(bench)
    bench.add("demo.echo")
    runtime = await bench.start_worker()
    at_start = [tool.spec.name for tool in await registry.tools()]
    bench.add("demo.other")

    async def is_known() -> bool:
        return len(await registry.tools()) == 2

    await await_until(is_known, "the new tool is announced")
    bench.executor.available = False
    bench.executor.remove("demo.echo")

    async def is_unavailable() -> bool:
        return [tool.available for tool in await registry.tools()] == [False]

    await await_until(is_unavailable, "the owner is announced as unavailable")
    assert at_start == ["demo.echo"]
    assert await registry.live_workers("builtin", "builtin") == [runtime.worker]


async def test_an_owner_that_goes_is_withdrawn(bench: WorkerBench) -> None:
    """Its tools stay listed, but nobody counts on this worker for them."""
    bench.add("demo.echo")
    await bench.start_worker()
    bench.executor.owner = "other"
    bench.add("demo.other")
    registry = registry_of(bench)

    async def is_withdrawn() -> bool:
        return await registry.live_workers("builtin", "builtin") == []

    await await_until(is_withdrawn, "the owner is withdrawn")


async def test_a_draining_worker_takes_no_call_and_finishes_its_own(bench: WorkerBench) -> None:
    """Doorbells go back; the registry forgets the worker before it is gone."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("runs", spec)
    await bench.dispatch("late", spec)
    handling = asyncio.create_task(runtime.handle(bench.bell("runs")))
    await gate.entered.wait()
    draining = asyncio.create_task(runtime.drain(60.0))
    registry = registry_of(bench)

    async def is_withdrawn() -> bool:
        return await registry.live_workers("builtin", "builtin") == []

    await await_until(is_withdrawn, "the worker is withdrawn")
    with pytest.raises(DoorbellNotTaken):
        await runtime.handle(bench.bell("late"))
    gate.open.set()
    await draining
    await handling

    assert not (await bench.result("runs")).is_error
    assert (await bench.calls.call("late")).state == "queued"


async def test_a_call_cut_off_by_a_drain_runs_again_elsewhere_at_once(bench: WorkerBench) -> None:
    """Without waiting for its lease: the closing worker hands it over itself."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    closing = await bench.start_worker(pops=False)
    await bench.dispatch("c1", spec)
    await bench.pop()
    handling = asyncio.create_task(closing.handle(bench.bell("c1")))
    await gate.entered.wait()
    await closing.drain(0.01)
    await handling
    gate.open.set()
    await bench.start_worker()
    result = await bench.result("c1")

    assert gate.was_cancelled
    assert not result.is_error
    assert result.usage.attempts == 2


async def test_a_call_cut_off_that_may_not_run_twice_says_so(bench: WorkerBench) -> None:
    """Nobody knows how far it came; nobody has to wait to hear it."""
    gate = Gate()
    spec = bench.add("demo.send", gate, annotations=SENDS)
    closing = await bench.start_worker()
    await bench.dispatch("c1", spec)
    await gate.entered.wait()
    await closing.drain(0.01)

    assert (await bench.result("c1")).error_code == "tool.outcome_unknown"
    assert await bench.total("dead_letter:builtin") == 1


async def test_a_pool_that_ends_cold_still_hands_its_calls_over(bench: WorkerBench) -> None:
    """Cancelling what handles a doorbell stops the tool and settles the call."""
    gate = Gate()
    spec = bench.add("demo.send", gate, annotations=SENDS)
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("c1", spec)
    handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
    await gate.entered.wait()
    handling.cancel()
    await asyncio.wait({handling})

    assert gate.was_cancelled
    assert (await bench.result("c1")).error_code == "tool.outcome_unknown"


async def test_a_worker_that_stopped_has_stopped_its_executors(bench: WorkerBench) -> None:
    """Servers and children end with it; stopping needs no drain."""
    runtime = await bench.start_worker()
    await runtime.stop()

    assert bench.executor.stopped


async def test_a_start_that_failed_can_be_stopped(bench: WorkerBench) -> None:
    """The pool stops the runtime in any case."""
    settings = bench.settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    settings = settings.model_copy(update={"lease_s": 0.01})
    runtime = WorkerRuntime(settings, ["builtin"], bench.control, executors=bench.executors)
    with pytest.raises(Exception, match="Redis"):
        await runtime.start()
    await runtime.stop()


@pytest.mark.one_redis
async def test_a_queue_nobody_knows_is_refused(bench: WorkerBench) -> None:
    """With the names of those that exist."""
    with pytest.raises(ConfigError, match="builtin, mcp, extension"):
        load_factory("chat")
    runtime = create_runtime(bench.settings, ["chat"], bench.control)
    with pytest.raises(ConfigError):
        await runtime.start()
    await runtime.stop()


@pytest.fixture
def own_redis(start_redis: StartRedis) -> EmbeddedRedis:
    """Give a server that the test may pause."""
    return start_redis(append_only=False)


@pytest.fixture
def own_settings(own_redis: EmbeddedRedis, settings: Settings) -> Settings:
    """Return settings for that server, with little patience."""
    return settings.model_copy(
        update={"redis_url": f"{own_redis.url}", "redis_timeout_s": 0.2, "lease_s": 2.0}
    )


@contextmanager
def paused(server: EmbeddedRedis) -> Generator[None]:
    """Let the server answer nobody."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def test_a_result_waits_for_a_redis_that_is_away(
    own_redis: EmbeddedRedis, own_settings: Settings
) -> None:
    """The tool has done its work; that is not to be lost by an outage."""
    async with worker_bench(own_settings.model_copy(update={"lease_s": 30.0})) as bench:
        gate, done = Gate(), asyncio.Event()

        async def work(call: ClaimedCall, context: ToolContext) -> ToolOutput:
            output = await gate(call, context)
            done.set()
            return output

        spec = bench.add("demo.work", work)
        runtime = await bench.start_worker(pops=False, renew_s=10.0)
        await bench.dispatch("c1", spec)
        handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
        await gate.entered.wait()
        with paused(own_redis):
            gate.open.set()
            await done.wait()
            await await_until(lambda: runtime.waiting_bytes > 0, "the result waits for Redis")
        await handling

        assert not (await bench.result("c1")).is_error


async def test_a_worker_cut_off_for_a_lease_stops_its_tools(
    own_redis: EmbeddedRedis, own_settings: Settings
) -> None:
    """Somebody else may run the call by now, so whatever it does is stopped."""
    async with worker_bench(own_settings.model_copy(update={"lease_s": 0.6})) as bench:
        gate = Gate()
        spec = bench.add("demo.gate", gate)
        runtime = await bench.start_worker(pops=False)
        await bench.dispatch("c1", spec)
        handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
        await gate.entered.wait()
        with paused(own_redis):
            await await_until(lambda: gate.was_cancelled, "the tool is stopped")
        await handling

        async def is_queued() -> bool:
            # Renewals that were on their way while the server slept may come through first.
            await bench.end_lease("c1")
            return (await bench.calls.call("c1")).state == "queued"

        await bench.tick_until(bench.reaper(), is_queued, "the call is queued again")


async def test_a_result_that_cannot_be_stored_fails_the_run(
    own_redis: EmbeddedRedis, own_settings: Settings
) -> None:
    """A full Redis still takes the small truth about it."""
    async with worker_bench(own_settings) as bench:
        gate = Gate()

        async def work(call: ClaimedCall, context: ToolContext) -> ToolOutput:
            await gate(call, context)
            return ToolOutput.text("word " * 20_000)

        spec = bench.add("demo.work", work)
        await bench.start_worker()
        await bench.dispatch("c1", spec)
        await gate.entered.wait()
        await command(bench.calls.redis, "CONFIG", "SET", "maxmemory", 1)
        gate.open.set()
        await bench.wait_for_status("failed")
        await command(bench.calls.redis, "CONFIG", "SET", "maxmemory", 0)

        assert (await bench.result("c1")).error_code == "store.result_write_failed"


async def test_a_full_redis_still_has_a_reaper(
    own_redis: EmbeddedRedis, own_settings: Settings
) -> None:
    """It closes what nobody else can, which is how memory comes back."""
    async with worker_bench(own_settings) as bench:
        spec, reaper = bench.add("demo.echo"), bench.reaper()
        await bench.dispatch("c1", spec)
        record = bench.calls.keys.call(bench.calls.run_id, bench.calls.key("c1"))
        deadlines = bench.calls.keys.deadlines
        await command(bench.calls.redis, "HSET", record, "deadline_ms", 1)
        member = f"{bench.calls.run_id}|{bench.calls.key('c1')}"
        await command(bench.calls.redis, "ZADD", deadlines, 1, member)
        await command(bench.calls.redis, "CONFIG", "SET", "maxmemory", 1)
        await bench.tick(reaper)
        await command(bench.calls.redis, "CONFIG", "SET", "maxmemory", 0)

        assert (await bench.result("c1")).error_code == "tool.timeout"


async def test_answers_beyond_the_memory_for_an_outage_are_given_up(
    own_redis: EmbeddedRedis, own_settings: Settings
) -> None:
    """One worker must not die of the results of others that wait."""
    async with worker_bench(own_settings) as bench:
        gate = Gate()
        spec = bench.add("demo.gate", gate)
        runtime = await bench.start_worker(pops=False, tuning=Tuning(waiting_max_bytes=1))
        await bench.dispatch("c1", spec)
        handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
        await gate.entered.wait()
        gate.open.set()
        await handling
        state = (await bench.calls.call("c1")).state
        await bench.end_lease("c1")
        await bench.tick(bench.reaper())

        assert state == "running"
        assert (await bench.calls.call("c1")).state == "queued"
