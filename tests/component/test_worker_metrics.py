"""What a worker counts and shows of itself, and when it says that it is ready."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Generator

import pytest

from tests.exposed import SERIES_MAX, check_series, exposed, scrape, server_leftovers, value
from tests.functions import FunctionExecutor, Gate
from tests.promises import promise
from tests.servers import StartRedis
from tests.waiting import await_until
from tests.workers import WorkerBench, worker_bench
from toolrail.errors import SystemFailure
from toolrail.fleet import Fleet
from toolrail.settings import Settings
from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_workers.executor import ClaimedCall
from toolrail_workers.runtime import WorkerRuntime

SECRET = "planted-secret-4711"


async def address_of(bench: WorkerBench) -> str:
    """Return where the only worker says that it shows its metrics."""
    (record,) = await Fleet(
        bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0
    ).workers()
    return record.metrics_address


async def get(address: str, path: str = "/metrics", *, timeout_s: float = 5.0) -> tuple[int, str]:
    """Return status and text of an answer, while the loop goes on."""
    try:
        return 200, await asyncio.to_thread(scrape, address, path, timeout_s=timeout_s)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.one_redis
async def test_a_worker_shows_what_it_is_and_does(bench: WorkerBench) -> None:
    """Slots, busy calls, outcomes, progress, the loop, Redis: at the address in its record."""
    gate = Gate()
    fine, waits = bench.add("demo.echo"), bench.add("demo.gate", gate)
    runtime = await bench.start_worker(pops=False, metrics_port=0, build="v7")
    bench.control.busy = 1
    await bench.dispatch("c1", fine)
    await bench.dispatch("c2", waits)
    await runtime.handle(bench.bell("c1"))
    handling = asyncio.create_task(runtime.handle(bench.bell("c2")))
    await gate.entered.wait()
    samples = exposed((await get(await address_of(bench)))[1])
    gate.open.set()
    await handling

    check_series(samples)
    assert value(samples, "toolrail_worker_slots", source="builtin") == 10
    assert value(samples, "toolrail_worker_slots_busy", source="builtin") == 1
    assert value(samples, "toolrail_worker_draining") == 0
    assert value(samples, "toolrail_worker_calls_total", source="builtin", outcome="ok") == 1
    assert value(samples, "toolrail_worker_calls_total") == 1
    assert value(samples, "toolrail_event_loop_lag_seconds_count") >= 1
    assert value(samples, "toolrail_redis_command_duration_seconds_count", op="claim") == 2
    assert value(samples, "toolrail_redis_command_duration_seconds_count", op="finish") == 1
    assert value(samples, "toolrail_build_info", commit="v7") == 1
    progress = value(samples, "toolrail_worker_last_progress_timestamp_seconds")
    assert abs(progress - time.time()) < 60


@pytest.mark.one_redis
async def test_a_worker_of_several_queues_shows_its_calls_by_queue(bench: WorkerBench) -> None:
    """Its slots are for all of them; which queue fills them is seen."""
    gate, other = Gate(), FunctionExecutor()
    waits = bench.add("demo.gate", gate)
    bench.executors["mcp"] = other
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("c1", waits)
    handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
    await gate.entered.wait()
    samples = exposed(runtime.metrics.registry)
    gate.open.set()
    await handling

    busy = "toolrail_worker_slots_busy"
    assert (value(samples, busy, source="builtin"), value(samples, busy, source="mcp")) == (1, 0)
    assert value(samples, "toolrail_worker_slots", source="mcp") == 10
    assert value(exposed(runtime.metrics.registry), busy) == 0


@promise("metrics.shown-in-trouble")
@pytest.mark.one_redis
async def test_every_outcome_counts_under_its_name_and_tells_nothing_else(
    bench: WorkerBench,
) -> None:
    """No argument, result or error text of a tool gets into what is shown."""

    async def fail(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        raise ToolError("demo.failed", f"the file {SECRET} is not there")

    async def break_down(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        raise SystemFailure("demo.broken", SECRET)

    async def tell(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        return ToolOutput.text(SECRET)

    specs = {
        "c1": bench.add("demo.tell", tell),
        "c2": bench.add("demo.fail", fail),
        "c3": bench.add("demo.broken", break_down),
    }
    runtime = await bench.start_worker(pops=False, metrics_port=0)
    for call_id, spec in specs.items():
        await bench.dispatch(call_id, spec)
        await runtime.handle(bench.bell(call_id))
    _, text = await get(await address_of(bench))
    samples = exposed(text)
    outcomes = Counter(
        {
            s.labels["outcome"]: int(s.value)
            for s in samples
            if s.name == "toolrail_worker_calls_total" and s.value
        }
    )

    assert outcomes == {"ok": 1, "tool_error": 1, "system_error": 1}
    assert SECRET not in text
    check_series(samples)


@pytest.mark.one_redis
async def test_500_tools_and_thousands_of_made_up_names_make_no_series(bench: WorkerBench) -> None:
    """The tool is no label of a worker: what it shows is as long with many as with none."""
    runtime = await bench.start_worker(pops=False)
    before = len(exposed(runtime.metrics.registry))
    specs = [bench.add(f"demo.tool_{number}") for number in range(500)]
    for number in range(10_000):
        runtime.metrics.redis.took(f"made up {number}", 1, 0.001)
    await bench.dispatch("c1", specs[499])
    await runtime.handle(bench.bell("c1"))
    samples = exposed(runtime.metrics.registry)

    assert len(samples) == before <= SERIES_MAX / 4
    check_series(samples)


@pytest.mark.one_redis
async def test_a_worker_is_ready_while_it_claims(bench: WorkerBench) -> None:
    """Alive all the time; ready neither before it has started nor while it drains."""
    runtime = await bench.start_worker(pops=False, metrics_port=0)
    address = await address_of(bench)
    started = await get(address, "/readyz")
    fleet = Fleet(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0)
    await fleet.ask_drain(runtime.worker)

    async def is_unready() -> bool:
        return (await get(address, "/readyz"))[0] == 503

    await await_until(is_unready, "it says that it is not ready")
    drained = await get(address, "/readyz")
    samples = exposed((await get(address))[1])
    await fleet.undo_drain(runtime.worker)

    async def is_ready() -> bool:
        return (await get(address, "/readyz"))[0] == 200

    await await_until(is_ready, "it is ready again")
    assert started == (200, "ready\n")
    assert drained == (503, "The worker is draining; it claims no calls.\n")
    assert (await get(address, "/healthz"))[0] == 200
    assert value(samples, "toolrail_worker_draining") == 1


@pytest.mark.one_redis
async def test_a_taken_port_keeps_no_worker_from_its_work(
    bench: WorkerBench, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, has no address in its record, and runs calls."""
    spec = bench.add("demo.echo")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with caplog.at_level(logging.WARNING):
            runtime = await bench.start_worker(pops=False, metrics_port=port)
    await bench.dispatch("c1", spec)
    await runtime.handle(bench.bell("c1"))

    assert [r.message for r in caplog.records if r.message.startswith("metrics")] == [
        "metrics.port_taken"
    ]
    assert await address_of(bench) == ""
    assert not (await bench.result("c1")).is_error


@contextlib.contextmanager
def stopped(pid: int) -> Generator[None]:
    """Keep a process from doing anything."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@promise("metrics.shown-in-trouble")
@pytest.mark.one_redis
async def test_a_worker_without_redis_still_shows_itself_and_is_not_ready(
    start_redis: StartRedis, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape asks nobody and takes no second; the errors of the outage come to be in it."""
    monkeypatch.setattr("toolrail_workers.metrics.SILENT_S", 0.3)
    server = start_redis()
    own = settings.model_copy(
        update={
            "redis_url": server.url,
            "redis_timeout_s": 0.2,
            "metrics_port": 0,
        }
    )
    async with worker_bench(own) as bench:
        await bench.start_worker(pops=False, reaper_interval_s=0.05)
        address = await address_of(bench)
        with stopped(server.pid):

            async def is_unready() -> bool:
                return (await get(address, "/readyz"))[0] == 503

            await await_until(is_unready, "it notices that Redis is silent")
            status, text = await get(address, timeout_s=1.0)

            async def has_counted() -> bool:
                shown = exposed((await get(address))[1])
                return value(shown, "toolrail_redis_errors_total", kind="timeout") > 0

            await await_until(has_counted, "the scrape shows the errors of the outage")
            _, reason = await get(address, "/readyz")

        async def is_ready() -> bool:
            return (await get(address, "/readyz"))[0] == 200

        await await_until(is_ready, "it is ready again")

    assert status == 200
    assert exposed(text)
    assert "Redis has not answered for" in reason


@promise("metrics.shown-in-trouble")
@pytest.mark.one_redis
async def test_a_blocked_loop_is_seen_while_it_is_blocked_and_afterwards(
    bench: WorkerBench,
) -> None:
    """The server is a thread: it answers, and says how late the loop is."""
    await bench.start_worker(pops=False, metrics_port=0)
    address = await address_of(bench)
    texts: list[str] = []

    def look() -> None:
        while not texts:
            text = scrape(address)
            if value(exposed(text), "toolrail_event_loop_blocked_seconds") > 0.1:
                texts.append(text)

    thread = threading.Thread(target=look)
    thread.start()
    # Blocks this test's loop, on which the worker runs, until it was seen.
    thread.join(20)

    async def is_counted() -> bool:
        samples = exposed((await get(address))[1])
        late = value(samples, "toolrail_event_loop_lag_seconds_count") - value(
            samples, "toolrail_event_loop_lag_seconds_bucket", le="0.1"
        )
        return late >= 1 and value(samples, "toolrail_event_loop_blocked_seconds") < 0.1

    await await_until(is_counted, "the delay is in the histogram")
    assert len(texts) == 1


@pytest.mark.one_redis
async def test_many_scrapes_leave_nothing_behind(bench: WorkerBench) -> None:
    """Neither a thread nor a file, while the worker works; and none once it has stopped."""
    runtime: WorkerRuntime = await bench.start_worker(pops=False, metrics_port=0)
    address = await address_of(bench)
    port = int(address.rpartition(":")[2])
    await asyncio.to_thread(lambda: [scrape(address) for _ in range(200)])

    await await_until(lambda: not server_leftovers(port), "its threads and connections to end")
    await runtime.stop()
    assert not [t for t in threading.enumerate() if t.name == "toolrail-metrics"]
