"""Equal calls that were queued together: once one of them is lost, no other starts unasked.

Is: what a real worker does with the second one. Is not: the guard when a call comes in
(`test_approvals_unknown.py`). Above: nothing. Below: `tests/cells.py`, `tests/workers.py`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, spec, write_policy
from tests.functions import FunctionExecutor, echo
from tests.letters import lose, stored
from tests.policies import DESTRUCTIVE
from tests.promises import promise
from tests.waiting import await_until
from tests.workers import NEVER_S, WorkerBench
from toolrail import CallRequest, Run, Settings
from toolrail.ledger import Claim, Refusal
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail.request import Ticket
from toolrail_schemas import ApprovalMode, ApprovalScope, Layer

UNKNOWN = "tool.outcome_unknown"
TOOLS = [spec("demo.send", annotations=DESTRUCTIVE), spec("demo.ask", annotations=DESTRUCTIVE)]


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client that knows two tools which nobody may repeat; the books balance."""
    folder = write_policy(tmp_path / "policy")
    quiet = {"policy_dir": folder, "reaper_interval_s": NEVER_S}
    async with open_cell(settings.model_copy(update=quiet)) as cell:
        registry = Registry(cell.bench.redis, prefix=settings.key_prefix, deadline_s=5)
        await registry.announce("builtin", "builtin", TOOLS, worker="w2", available=True)
        await cell.rail.refresh_tools()
        yield cell


@asynccontextmanager
async def working(cell: Cell) -> AsyncGenerator[list[str]]:
    """Run a worker; give the ids of the calls that it started."""
    executor = FunctionExecutor()
    for tool in TOOLS:
        executor.add(tool, echo)
    bench = WorkerBench(cell.bench, cell.settings, executor, {"builtin": executor})
    await bench.start_worker()
    try:
        yield executor.started
    finally:
        await bench.close()


async def interactive(cell: Cell) -> Run:
    """Open a run with somebody to ask."""
    return await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)


async def equal_calls(run: Run, count: int = 2, *, tool: str = "demo.send") -> list[Ticket]:
    """Dispatch calls that differ in nothing but their ids."""
    ids = [f"c{n}" for n in range(1, count + 1)]
    return [
        await run.dispatch(CallRequest(id=one, name=tool, arguments={"text": "a"})) for one in ids
    ]


async def state(cell: Cell, ticket: Ticket) -> str:
    """Return the state a call is in."""
    return (await stored(cell, ticket.run_id, ticket.call_key)).state


async def until_asked(cell: Cell, ticket: Ticket) -> None:
    """Return when the call waits for a person."""

    async def waits() -> bool:
        return await state(cell, ticket) == "awaiting_approval"

    await await_until(waits, "a person is asked")


async def claim(cell: Cell, ticket: Ticket) -> Claim | Refusal:
    """Claim a call."""
    return await cell.bench.ledger.claim(
        ticket.run_id, ticket.call_key, attempt=1, nonce="n", worker="w", lease_ms=60_000
    )


async def kinds(run: Run, ticket: Ticket) -> list[str]:
    """Return what the journal says of a call, in order."""
    return [
        str(event.type)
        for event in await run.journal()
        if event.payload.get("call_key") == ticket.call_key
    ]


@promise("call.unknown-not-repeated")
async def test_the_second_of_two_queued_calls_asks_before_it_runs(cell: Cell) -> None:
    """It holds no unit meanwhile, the person reads why, and a yes brings it to run."""
    run = await interactive(cell)
    lost, second = await equal_calls(run)
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    async with working(cell) as started:
        await until_asked(cell, second)
        asked = await cell.rail.approvals.get(second.approval_id)
        used = await cell.bench.reader.run_used(run.id)
        before = list(started)
        await run.approve(second, by="ann")
        result = await run.wait(second, timeout_s=10)
        ran = list(started)
    told = await kinds(run, second)
    await run.complete()

    assert (before, ran) == ([], ["c2"])
    assert not result.is_error
    assert used["demo.send"] == 1
    assert (asked.layers, asked.scopes) == ((Layer.CONTEXT,), (ApprovalScope.ONCE,))
    assert asked.policy_reason.startswith("Approval is required by context, rule an equal call")
    assert "may have taken effect" in asked.policy_reason
    assert asked.args_summary == 'text: "a"'
    assert told[1:4] == ["tool_call_awaiting_approval", "tool_call_approved", "tool_call_started"]


@promise("call.unknown-not-repeated")
@pytest.mark.parametrize("mode", [ApprovalMode.DENY_ALL, ApprovalMode.FAIL_RUN])
async def test_with_nobody_to_ask_it_is_denied(cell: Cell, mode: ApprovalMode) -> None:
    """As the same call would be that came in now; its unit goes back."""
    run = await cell.rail.open_run(profile="agent", approval_mode=mode)
    lost, second = await equal_calls(run)
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    async with working(cell) as started:
        result = await run.wait(second, timeout_s=10)
    status, used = await run.status(), await cell.bench.reader.run_used(run.id)
    refused = (await run.record())["denied"]
    if status == "open":
        await run.complete()

    assert (result.error_code, started) == ("approval.denied", [])
    assert await state(cell, second) == "denied"
    assert (used["demo.send"], refused) == (1, "1")
    assert status == ("failed" if mode is ApprovalMode.FAIL_RUN else "open")


@promise("call.unknown-not-repeated")
async def test_who_approved_before_the_loss_is_asked_again(cell: Cell) -> None:
    """Both were approved, one even with other arguments; a yes of before does not count."""
    run = await interactive(cell)
    lost, second, third = await equal_calls(run, 3, tool="demo.ask")
    for ticket in (lost, second):
        await run.approve(ticket, by="ann")
    await run.approve(third, by="ann", arguments={"text": "b"})
    await run.dispatch(CallRequest(id="b", name="demo.ask", arguments={"text": "b"}))
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    async with working(cell) as started:
        await until_asked(cell, second)
        await run.wait(third, timeout_s=10)
        asked = await cell.rail.approvals.get(second.approval_id)
        decision = await run.deny(second, by="bob", comment="It did happen.")
        result = await run.wait(second, timeout_s=10)
    await run.cancel()

    assert started == ["c3"]
    assert (asked.decided_by, decision.decided_by, decision.repeated) == (None, "bob", False)
    assert result.error_code == "approval.denied"


@promise("call.unknown-not-repeated")
async def test_a_yes_counts_for_the_losses_its_person_knew_of(cell: Cell) -> None:
    """After a further loss the next one is asked about once more, edited arguments and all."""
    run = await interactive(cell)
    calls = await equal_calls(run, 3, tool="demo.ask")
    for ticket in calls:
        await run.approve(ticket, by="ann", arguments={"text": "b"})
    await lose(cell, run.id, calls[0].call_key, code=UNKNOWN)
    async with working(cell) as started:
        for ticket in calls[1:]:
            await until_asked(cell, ticket)
    for ticket in calls[1:]:
        await run.approve(ticket, by="ann")
    await lose(cell, run.id, calls[1].call_key, code=UNKNOWN)
    refused = await claim(cell, calls[2])
    async with working(cell) as started_then:
        await until_asked(cell, calls[2])
        await run.approve(calls[2], by="ann", arguments={"text": "c"})
        result = await run.wait(calls[2], timeout_s=10)
    record = await stored(cell, run.id, calls[2].call_key)
    await run.complete()

    assert refused is Refusal.REPEATS_UNKNOWN
    assert (started, started_then) == ([], ["c3"])
    assert "changed the arguments" in result.model_dump_json()
    assert record.fields["asked_args"] == '{"text":"a"}'


async def test_a_call_that_may_run_twice_runs(cell: Cell) -> None:
    """Reading again does no harm, whatever became of the first one."""
    run = await interactive(cell)
    lost, second = await equal_calls(run, tool="demo.echo")
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    claimed = await claim(cell, second)
    await run.cancel()
    await lose_what_runs(cell, second)

    assert isinstance(claimed, Claim)


async def lose_what_runs(cell: Cell, ticket: Ticket) -> None:
    """End a call whose worker is gone."""
    call = await stored(cell, ticket.run_id, ticket.call_key)
    ending = await cell.bench.ending(call.fields["call_id"])
    await cell.bench.ledger.finish(
        call.run_id, call.call_key, ending, fence=call.number("fence"), actor="worker:w"
    )


@promise("call.unknown-not-repeated")
async def test_a_worker_that_dies_before_it_asks_changes_nothing(cell: Cell) -> None:
    """The call stays queued, and every claim of it is refused until somebody has asked."""
    run = await interactive(cell)
    lost, second = await equal_calls(run)
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    refusals = [await claim(cell, second) for _ in range(2)]
    still = await state(cell, second)
    async with working(cell):
        await until_asked(cell, second)
    await run.cancel()

    assert refusals == [Refusal.REPEATS_UNKNOWN] * 2
    assert still == "queued"


async def test_without_the_policy_of_its_run_it_is_not_asked_about(cell: Cell) -> None:
    """Nobody knows who may decide, so it ends, and says why."""
    run = await interactive(cell)
    lost, second = await equal_calls(run)
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    await command(cell.bench.redis, "DEL", cell.bench.keys.policy(str(run.spec.policy_hash)))
    async with working(cell) as started:
        result = await run.wait(second, timeout_s=10)
    await run.complete()

    assert (result.error_code, started) == ("policy.snapshot_corrupt", [])


async def test_only_a_repeat_is_asked_about_in_the_queue(cell: Cell) -> None:
    """Any other queued call is left alone; a repeat is asked about once, in its run's list too."""
    run = await interactive(cell)
    bench = cell.bench
    bench.run_id = run.id
    lost, second = await equal_calls(run)
    too_early = await bench.ask_again("c2")
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    asked = [await bench.ask_again("c2") for _ in range(2)]
    waits = await state(cell, second)
    listed = await command(bench.redis, "ZCARD", bench.keys.run_approvals(run.id))
    await run.cancel()

    assert listed == 1
    assert (too_early, asked, waits) == (False, [True, False], "awaiting_approval")


async def test_a_person_is_not_asked_about_a_version_that_nobody_has(cell: Cell) -> None:
    """The question would show the definition of another; the call ends, and says why."""
    run = await interactive(cell)
    lost, second = await equal_calls(run)
    await lose(cell, run.id, lost.call_key, code=UNKNOWN)
    key = cell.bench.keys.call(run.id, second.call_key)
    await command(cell.bench.redis, "HSET", key, "spec_hash", "f" * 64)
    async with working(cell) as started:
        result = await run.wait(second, timeout_s=10)
    told = await kinds(run, second)
    await run.complete()

    assert (result.error_code, started) == ("tool.spec_changed", [])
    assert "tool_call_awaiting_approval" not in told
