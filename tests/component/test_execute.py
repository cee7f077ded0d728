"""One call on a worker: every way a tool can end, and what its caller and the journal then read."""

import asyncio

import pytest

from tests.functions import ENDS, SENDS, FunctionExecutor, Gate, make_spec
from tests.workers import WorkerBench
from toolrail.errors import SystemFailure, ToolError
from toolrail.redis_io import command
from toolrail.results import error_text
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import (
    ErrorClass,
    Source,
    TextBlock,
)
from toolrail_workers.assembly import Tuning
from toolrail_workers.executor import ClaimedCall


async def never_ends(call: ClaimedCall, context: ToolContext) -> ToolOutput:
    """Wait for ever."""
    await asyncio.Event().wait()
    return ToolOutput()


def raises(error: BaseException):  # type: ignore[no-untyped-def]
    """Return a tool that raises."""

    async def function(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        raise error

    return function


async def test_a_call_runs_and_its_result_is_stored(bench: WorkerBench) -> None:
    """The straight path, with what it took."""
    spec = bench.add("demo.echo")
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert result.content == (TextBlock(text="hello"),)
    assert not result.is_error
    assert result.usage.attempts == 1
    assert result.usage.output_bytes == len("hello")
    assert result.usage.output_tokens == 1
    assert await bench.calls.kinds() == [
        "run_created",
        "policy_snapshot_frozen",
        "tool_call_requested",
        "tool_call_started",
        "tool_result_stored",
        "tool_call_completed",
    ]


async def test_a_tool_sees_its_call_and_no_more(bench: WorkerBench) -> None:
    """Attempt, fence and time left are there; Redis and queue are not."""
    seen: list[tuple[ClaimedCall, ToolContext]] = []

    async def look(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        seen.append((call, context))
        return ToolOutput()

    spec = bench.add("demo.look", look)
    await bench.start_worker()
    await bench.run_call(spec)
    call, context = seen[0]

    assert (call.tool, call.attempt, call.fence) == ("demo.look", 1, 1)
    assert call.arguments == {"id": "c1", "text": "hello"}
    assert context.call_key == bench.calls.key("c1")
    assert 0 < context.remaining_s <= call.timeout_s
    assert context.store is not None


async def test_a_tool_error_is_an_answer_and_the_run_goes_on(bench: WorkerBench) -> None:
    """The model reads what went wrong and what to do next."""
    error = ToolError("demo.no_such_city", "There is no such city.", next_action="Ask for another.")
    spec = bench.add("demo.weather", raises(error))
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert (result.error_code, result.error_class) == ("demo.no_such_city", "recoverable")
    assert result.content == (TextBlock(text="There is no such city. Ask for another."),)
    assert await bench.run_status() == "open"
    assert (await bench.calls.events())[-1].payload["error_code"] == "demo.no_such_city"


async def test_a_system_failure_fails_the_run_under_its_code(bench: WorkerBench) -> None:
    """The call ends first, then the run."""
    spec = bench.add("demo.patch", raises(SystemFailure("workspace.rollback_failed", "Broken.")))
    await bench.start_worker()
    result = await bench.run_call(spec)
    events = await bench.calls.events()

    assert result.error_class is ErrorClass.SYSTEM
    assert await bench.run_status() == "failed"
    assert [event.type.value for event in events[-2:]] == ["tool_call_failed", "run_failed"]
    assert events[-1].payload["code"] == "workspace.rollback_failed"


async def test_a_defect_of_a_builtin_fails_the_run(bench: WorkerBench) -> None:
    """A bug of ours must be loud; its text stays in the log."""
    spec = bench.add("demo.buggy", raises(KeyError("secret name")))
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert result.error_code == "tool.internal_error"
    assert "secret name" not in result.model_dump_json()
    assert await bench.run_status() == "failed"


async def test_a_defect_of_a_third_party_does_not(bench: WorkerBench) -> None:
    """An MCP server that misbehaves must not kill the run."""
    executor = FunctionExecutor(Source.MCP, owner="demo")
    bench.executors["mcp"] = executor
    spec = executor.add(make_spec("mcp.demo.buggy", source=Source.MCP), raises(KeyError("x")))
    await bench.start_worker()
    result = await bench.run_call(spec)

    assert (result.error_code, result.error_class) == ("tool.execution_failed", "recoverable")
    assert await bench.run_status() == "open"


async def test_a_tool_that_exits_takes_nobody_with_it(bench: WorkerBench) -> None:
    """`sys.exit` inside a tool is a defect of that tool."""
    exits = bench.add("demo.exits", raises(SystemExit(3)))
    spec = bench.add("demo.echo")
    await bench.start_worker()
    first = await bench.run_call(exits, "c1")
    await bench.calls.open_run()
    second = await bench.run_call(spec, "c2")

    assert first.error_code == "tool.internal_error"
    assert not second.is_error


@pytest.mark.parametrize(
    ("annotations", "code"),
    [(None, "tool.timeout"), (SENDS, "tool.outcome_unknown")],
)
async def test_a_deadline_says_whether_the_effect_is_known(
    bench: WorkerBench, annotations: object, code: str
) -> None:
    """A reading tool just ran out of time; a sending one may have sent."""
    about = {} if annotations is None else {"annotations": annotations}
    spec = bench.add("demo.slow", never_ends, **about)
    await bench.start_worker()
    result = await bench.run_call(spec, timeout_ms=100)

    assert result.error_code == code
    assert await bench.run_status() == "open"


async def test_a_tool_that_will_not_stop_keeps_nobody_waiting(bench: WorkerBench) -> None:
    """Its task is given up after the grace; the caller has an answer."""
    gate = asyncio.Event()

    async def stubborn(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        while True:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
            return ToolOutput()

    spec = bench.add("demo.stubborn", stubborn)
    await bench.start_worker(tuning=Tuning(stop_grace_s=0.05))
    result = await bench.run_call(spec, timeout_ms=100)
    gate.set()

    assert result.error_code == "tool.timeout"


async def test_a_cancelled_call_is_stopped_at_once(bench: WorkerBench) -> None:
    """A nudge brings the news before the next renewal."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    await bench.start_worker(renew_s=10.0)
    await bench.dispatch("c1", spec)
    await gate.entered.wait()
    await bench.cancel("c1")
    result = await bench.result("c1")

    assert gate.was_cancelled
    assert result.error_code == "tool.cancelled"
    assert await bench.run_status() == "open"


async def test_a_lost_nudge_only_makes_the_cancel_slower(bench: WorkerBench) -> None:
    """The flag in the record comes back with the next renewal."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    await bench.start_worker()
    await bench.dispatch("c1", spec)
    await gate.entered.wait()
    record = bench.calls.keys.call(bench.calls.run_id, bench.calls.key("c1"))
    await command(bench.calls.redis, "HSET", record, "cancel", "1")

    assert (await bench.result("c1")).error_code == "tool.cancelled"


async def test_a_call_cancelled_in_the_queue_never_starts(bench: WorkerBench) -> None:
    """Its doorbell, when it comes, finds nothing to do."""
    spec = bench.add("demo.echo")
    await bench.dispatch("c1", spec)
    await bench.cancel("c1")
    runtime = await bench.start_worker(pops=False)
    await runtime.handle(bench.bell("c1"))

    assert (await bench.result("c1")).error_code == "tool.cancelled"
    assert bench.executor.started == []
    assert "tool_call_started" not in await bench.calls.kinds()


async def test_a_claim_finishes_what_a_dead_canceller_began(bench: WorkerBench) -> None:
    """The flag was set, the call never closed: whoever comes first closes it."""
    spec = bench.add("demo.echo")
    await bench.dispatch("c1", spec)
    await bench.calls.ledger.cancel(bench.calls.run_id, bench.calls.key("c1"))
    await bench.start_worker()

    assert (await bench.result("c1")).error_code == "tool.cancelled"
    assert bench.executor.started == []


async def test_a_call_that_waited_too_long_is_not_started(bench: WorkerBench) -> None:
    """The claim closes it, before the reaper does."""
    spec = bench.add("demo.echo")
    await bench.dispatch("c1", spec)
    record = bench.calls.keys.call(bench.calls.run_id, bench.calls.key("c1"))
    await command(bench.calls.redis, "HSET", record, "deadline_ms", 1)
    await bench.start_worker()

    assert (await bench.result("c1")).error_code == "tool.timeout"
    assert bench.executor.started == []


async def test_a_tool_that_changed_since_the_decision_is_not_run(bench: WorkerBench) -> None:
    """Approvals and policy were about another tool."""
    bench.add("demo.echo", annotations=SENDS)
    await bench.start_worker()
    result = await bench.run_call(make_spec("demo.echo"))

    assert result.error_code == "tool.spec_changed"
    assert bench.executor.started == []


async def test_a_tool_that_appears_while_the_worker_starts_is_waited_for(
    bench: WorkerBench,
) -> None:
    """Servers list their tools after the worker takes its first calls."""
    spec = make_spec("demo.echo")
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("c1", spec, timeout_ms=10_000)
    handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
    await asyncio.sleep(0)
    bench.add("demo.echo")
    await handling

    assert not (await bench.result("c1")).is_error


@pytest.mark.parametrize(
    ("source", "code"),
    [
        (Source.MCP, "mcp.server_unavailable"),
        (Source.EXTENSION, "extension.unavailable"),
        (Source.BUILTIN, "tool.not_found"),
    ],
)
async def test_a_tool_nobody_here_knows_is_said_to_be_missing(
    bench: WorkerBench, source: Source, code: str
) -> None:
    """In the words of its source; the run goes on."""
    await bench.start_worker()
    result = await bench.run_call(make_spec("demo.gone"), source=source.value, timeout_ms=100)

    assert (result.error_code, result.error_class) == (code, "recoverable")


async def test_the_tool_that_ends_the_run_completes_it(bench: WorkerBench) -> None:
    """Only when it succeeds."""
    spec = bench.add("demo.finish", annotations=ENDS)
    await bench.start_worker()
    await bench.run_call(spec)

    assert await bench.run_status() == "completed"
    assert (await bench.calls.kinds())[-2:] == ["tool_call_completed", "run_completed"]


async def test_the_tool_that_fails_to_end_the_run_leaves_it_open(bench: WorkerBench) -> None:
    """The model is told what is missing and goes on."""
    error = ToolError("workspace.manifest_incomplete", "output/report.md is missing.")
    spec = bench.add("demo.finish", raises(error), annotations=ENDS)
    await bench.start_worker()
    await bench.run_call(spec)

    assert await bench.run_status() == "open"


async def test_a_doorbell_that_rings_twice_starts_its_call_once(bench: WorkerBench) -> None:
    """At the same time, and again when it is over."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("c1", spec)
    handling = asyncio.create_task(runtime.handle(bench.bell("c1")))
    await gate.entered.wait()
    await runtime.handle(bench.bell("c1"))
    gate.open.set()
    await handling
    await runtime.handle(bench.bell("c1"))

    assert bench.executor.started == ["c1"]
    assert (await bench.calls.kinds()).count("tool_call_started") == 1


async def test_a_forged_doorbell_is_dropped(bench: WorkerBench) -> None:
    """Whoever can write into the broker, but not sign, starts nothing."""
    spec = bench.add("demo.echo")
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("c1", spec)
    await runtime.handle(bench.bell("c1").model_copy(update={"mac": "0" * 64}))

    assert bench.executor.started == []
    assert (await bench.calls.call("c1")).state == "queued"


async def test_the_model_is_told_that_a_person_changed_its_arguments(bench: WorkerBench) -> None:
    """In front of what the tool said; of a call that failed, or was not started, too."""
    fine = bench.add("demo.echo")
    broken = bench.add("demo.broken", raises(ToolError("demo.no_luck", "no luck")))
    await bench.start_worker()
    told = await bench.run_call(fine, edited='text: "b"', args='{"text":"b"}')
    failed = await bench.run_call(broken, "c2", edited="EDIT")
    gone = await bench.run_call(make_spec("demo.gone"), "c3", edited="EDIT", timeout_ms=100)
    plain = await bench.run_call(fine, "c4")

    [notice, said] = [block.text for block in told.content if isinstance(block, TextBlock)]
    assert notice == (
        "A person changed the arguments of this call before approving it. "
        'The approved arguments are: text: "b"'
    )
    assert said == "b"
    assert failed.error_code == "demo.no_luck"
    assert gone.error_code == "tool.not_found"
    assert "EDIT" in error_text(failed)
    assert "EDIT" in error_text(gone)
    assert plain.content == (TextBlock(text="hello"),)
