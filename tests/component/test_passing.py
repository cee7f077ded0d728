"""A doorbell that reaches a worker which cannot answer it changes nothing but latency."""

from collections.abc import Mapping
from typing import cast

from tests.functions import SENDS, FunctionExecutor, echo, make_spec
from tests.workers import WorkerBench
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail_schemas import Source, ToolSpec
from toolrail_workers.executor import Executor
from toolrail_workers.passing import AT_ONCE, MOST
from toolrail_workers.runtime import WorkerRuntime

NEW = make_spec("demo.new")


def executor_of(*specs: ToolSpec, source: Source = Source.BUILTIN) -> FunctionExecutor:
    """Return an executor that echoes."""
    made = FunctionExecutor(source)
    for spec in specs:
        made.add(spec, echo)
    return made


async def start(bench: WorkerBench, executors: Mapping[str, Executor]) -> WorkerRuntime:
    """Start a worker with tools of its own, which runs only what it is handed."""
    runtime = WorkerRuntime(
        bench.settings, list(executors), bench.control, executors=dict(executors)
    )
    bench.runtimes.append(runtime)
    await runtime.start()
    return runtime


def registry_of(bench: WorkerBench) -> Registry:
    """Return the registry of the bench's cell."""
    return Registry(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5.0)


async def test_a_call_of_a_tool_that_another_worker_has_runs_there(bench: WorkerBench) -> None:
    """In its first attempt, however often the wrong worker hears of it first."""
    spec = bench.add("demo.send", annotations=SENDS)
    wrong = await start(bench, {"builtin": executor_of(make_spec("demo.old"))})
    right = await bench.start_worker(pops=False)
    await bench.dispatch("c1", spec)
    await bench.pop()
    await wrong.handle(bench.bell("c1"))
    await wrong.handle(bench.bell("c1"))
    handed_on = await bench.queue_length()
    await right.handle(bench.bell("c1"))
    result = await bench.result("c1")

    assert handed_on == 2
    assert not result.is_error
    assert result.usage.attempts == 1
    assert (await bench.calls.kinds())[2:] == [
        "tool_call_requested",
        "tool_call_started",
        "tool_result_stored",
        "tool_call_completed",
    ]


async def test_a_call_of_another_version_of_a_tool_runs_where_that_is(bench: WorkerBench) -> None:
    """While workers are replaced, both versions have workers."""
    newer = NEW.model_copy(update={"description": "The same tool, newer."})
    old = await start(bench, {"builtin": executor_of(NEW)})
    new = await start(bench, {"builtin": executor_of(newer)})
    await bench.dispatch("c1", newer)
    await old.handle(bench.bell("c1"))
    state = (await bench.calls.call("c1")).state
    await new.handle(bench.bell("c1"))

    assert state == "queued"
    assert not (await bench.result("c1")).is_error


async def test_a_version_that_no_worker_has_any_more_is_told(bench: WorkerBench) -> None:
    """The model sees the new one and calls again."""
    newer = NEW.model_copy(update={"description": "The same tool, newer."})
    worker = await start(bench, {"builtin": executor_of(newer)})
    await bench.dispatch("c1", NEW)
    await worker.handle(bench.bell("c1"))

    assert (await bench.result("c1")).error_code == "tool.spec_changed"


async def test_a_doorbell_in_a_queue_of_others_is_handed_to_its_own(bench: WorkerBench) -> None:
    """Also when nobody serves that queue now: it is not for this worker to say."""
    spec = make_spec("mcp.demo.echo", source=Source.MCP)
    worker = await start(bench, {"builtin": executor_of(NEW)})
    await bench.dispatch("c1", spec, queue="mcp")
    await worker.handle(bench.bell("c1"))
    handed_on = await command(bench.calls.redis, "LLEN", bench.calls.keys.queue("mcp"))
    state = (await bench.calls.call("c1")).state
    right = await start(bench, {"mcp": executor_of(spec, source=Source.MCP)})
    await right.handle(bench.bell("c1"))

    assert handed_on == 2  # its own doorbell, and the one that went astray
    assert state == "queued"
    assert not (await bench.result("c1")).is_error


async def test_a_call_waits_for_a_worker_that_restarts(bench: WorkerBench) -> None:
    """The one that has its tool has just gone."""
    worker = await start(bench, {"builtin": executor_of(make_spec("demo.old"))})
    registry = registry_of(bench)
    await registry.announce("builtin", "builtin", [NEW], worker="gone", available=True)
    await registry.withdraw("builtin", "builtin", worker="gone")
    await bench.dispatch("c1", NEW)
    await worker.handle(bench.bell("c1"))
    state = (await bench.calls.call("c1")).state
    back = await start(bench, {"builtin": executor_of(NEW)})
    await back.handle(bench.bell("c1"))

    assert state == "queued"
    assert not (await bench.result("c1")).is_error


async def test_workers_do_not_send_a_call_round_in_circles(bench: WorkerBench) -> None:
    """Rung a few times at once, then left to the reaper's pace, and ended in the end."""
    worker = await start(bench, {"builtin": executor_of(make_spec("demo.old"))})
    await registry_of(bench).announce(
        "builtin", "builtin", [NEW], worker="never claims", available=True
    )
    await bench.dispatch("c1", NEW, timeout_ms=100)
    await bench.pop()
    for _ in range(2 * AT_ONCE):
        await worker.handle(bench.bell("c1"))
    rung = await bench.queue_length()
    state = (await bench.calls.call("c1")).state
    record = bench.calls.keys.call(bench.calls.run_id, bench.calls.key("c1"))
    await command(bench.calls.redis, "HSET", record, "rings", MOST)
    await worker.handle(bench.bell("c1"))

    assert (rung, state) == (AT_ONCE, "queued")
    assert (await bench.result("c1")).error_code == "tool.not_found"


async def test_a_redis_that_forgot_what_a_worker_can_do_is_told_again(bench: WorkerBench) -> None:
    """The next call runs as ever."""
    spec = bench.add("demo.echo")
    worker = await bench.start_worker(pops=False)
    tools = f"{bench.settings.key_prefix}tools:*"
    lost = cast("list[str]", await command(bench.calls.redis, "KEYS", tools))
    await command(bench.calls.redis, "DEL", *lost)
    await bench.dispatch("c1", spec)
    await worker.handle(bench.bell("c1"))

    assert lost
    assert not (await bench.result("c1")).is_error


async def test_a_call_that_was_cancelled_on_its_way_is_left_alone(bench: WorkerBench) -> None:
    """It has its outcome, whoever hears of it."""
    worker = await start(bench, {"builtin": executor_of(make_spec("demo.old"))})
    await bench.dispatch("c1", NEW, timeout_ms=100)
    await bench.cancel("c1")
    await worker.handle(bench.bell("c1"))

    assert (await bench.result("c1")).error_code == "tool.cancelled"
