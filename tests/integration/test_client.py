"""What an agent service sees: tickets, results, events, and the same run from two clients."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import orjson
import pytest

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.waiting import await_until
from toolrail import CallRequest, Settings, Toolrail
from toolrail.errors import (
    CallConflict,
    RunConflict,
    WaitTimeout,
)
from toolrail.redis_io import command
from toolrail.results import error_text
from toolrail.sync import Toolrail as SyncToolrail


@pytest.fixture
def policy_dir(tmp_path: Path) -> Path:
    """Write the policy folder of these tests."""
    return write_policy(tmp_path / "policy")


@pytest.fixture
async def cell(settings: Settings, policy_dir: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    async with open_cell(settings.model_copy(update={"policy_dir": policy_dir})) as cell:
        yield cell


async def test_a_call_comes_back_with_what_the_tool_said(cell: Cell) -> None:
    """By canonical and by model-facing name, from an object and from JSON text."""
    run = await opened(cell)
    async with serve(cell):
        first = await run.call("demo.echo", {"text": "one"}, id="c1", timeout_s=10)
        second = await run.call("demo__echo", '{"text": "two"}', id="c2", timeout_s=10)

    assert [error_text(result) for result in (first, second)] == ["one", "two"]
    assert second.name == "demo.echo"


async def test_the_calls_of_a_turn_come_back_in_their_order(cell: Cell) -> None:
    """Completion order does not matter."""
    run = await opened(cell)
    requests = [
        CallRequest(id=f"c{n}", name="demo.echo", arguments={"text": str(n)}) for n in range(16)
    ]
    async with serve(cell):
        results = await run.call_many(requests, timeout_s=10)

    assert [error_text(result) for result in results] == [str(n) for n in range(16)]


async def test_a_parked_call_runs_after_its_approval(cell: Cell) -> None:
    """The person sees the summary; the call then goes its usual way."""
    run = await opened(cell, approval_mode="interactive")
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    [record] = (await cell.rail.approvals.pending()).records
    async with serve(cell):
        await run.approve(ticket, by="ann")
        result = await run.wait(ticket, timeout_s=10)
    kinds = [str(event.type) for event in await run.journal()]

    assert ticket.state == "awaiting_approval"
    assert (record.name, "text" in record.args_summary) == ("demo.ask", True)
    assert error_text(result) == "a"
    assert kinds.index("tool_call_approved") < kinds.index("tool_call_started")


async def test_an_approval_beyond_the_budget_ends_the_call(cell: Cell) -> None:
    """Two parked calls and one unit: the second approval starts nothing and says why."""
    run = await opened(cell, approval_mode="interactive")
    tickets = [
        await run.dispatch(CallRequest(id=f"c{n}", name="demo.rare", arguments={"text": "a"}))
        for n in range(2)
    ]
    async with serve(cell):
        for ticket in tickets:
            await run.approve(ticket, by="ann")
        results = [await run.wait(ticket, timeout_s=10) for ticket in tickets]

    assert [result.error_code for result in results] == [None, "tool.budget_exhausted"]


async def test_an_approval_of_a_tool_that_has_changed_starts_nothing(cell: Cell) -> None:
    """The person saw another definition: the call ends, and says what to do."""
    run = await opened(cell, approval_mode="interactive")
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    await cell.change_tool("demo.ask")
    await run.approve(ticket, by="ann")
    result = await run.wait(ticket, timeout_s=5)
    kinds = [str(event.type) for event in await run.journal()]

    assert result.error_code == "tool.spec_changed"
    assert "approval_superseded" in kinds
    assert "tool_call_started" not in kinds


async def test_refusing_twice_is_refusing_once(cell: Cell) -> None:
    """A person's client may lose the reply and ask again."""
    run = await opened(cell, approval_mode="interactive")
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    for _ in range(2):
        await run.deny(ticket, by="ann", comment="No.")

    assert await run.status() == "open"


async def test_a_refusal_carries_the_persons_words_to_the_model(cell: Cell) -> None:
    """And it does not fail the run."""
    run = await opened(cell, approval_mode="interactive")
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    await run.deny(ticket, by="ann", comment="Not on a Monday.")
    result = await run.wait(ticket, timeout_s=5)

    assert result.error_code == "approval.denied"
    assert "Not on a Monday." in error_text(result)
    assert await run.status() == "open"


async def test_a_finishing_call_waits_for_its_turn_and_ends_the_run(cell: Cell) -> None:
    """Calls before it run, calls after it do not, and the run is completed."""
    run = await opened(cell)
    names = ("demo.echo", "demo.finish", "demo.echo")
    requests = [
        CallRequest(id=f"c{n}", name=name, arguments={"text": "a"}) for n, name in enumerate(names)
    ]
    async with serve(cell):
        results = await run.call_many(requests, timeout_s=10)

    assert [result.error_code for result in results] == [None, None, "tool.after_finish"]
    assert await run.status() == "completed"


async def test_the_same_call_again_is_the_same_ticket(cell: Cell) -> None:
    """Other content under the same id is a conflict, and says to use a new id."""
    run = await opened(cell)
    request = CallRequest(id="c1", name="demo.echo", arguments={"text": "a"})
    first, second = await run.dispatch(request), await run.dispatch(request)
    with pytest.raises(CallConflict, match="new id"):
        await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "b"}))

    assert first.call_key == second.call_key
    await run.cancel()


async def test_a_named_run_is_opened_once(cell: Cell) -> None:
    """The same name gives the same run; another spec under it is a conflict."""
    first, second = await opened(cell, name="mine"), await opened(cell, name="mine")
    with pytest.raises(RunConflict):
        await opened(cell, "strict", name="mine")

    assert first.id == second.id
    other = await opened(cell, name="mine", tenant="other")
    assert other.id != first.id


async def test_a_cancelled_call_ends_as_cancelled(cell: Cell) -> None:
    """While it is still in the queue, at once."""
    run = await opened(cell)
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    await run.cancel_call(ticket)
    result = await run.wait(ticket, timeout_s=5)

    assert result.error_code == "tool.cancelled"


async def test_cancelling_a_run_ends_its_waiting_calls_first(cell: Cell) -> None:
    """Every call has its outcome before the run has its own."""
    run = await opened(cell)
    tickets = [
        await run.dispatch(CallRequest(id=f"c{n}", name="demo.echo", arguments={"text": "a"}))
        for n in range(3)
    ]
    end = await run.cancel()
    results = [await run.wait(ticket, timeout_s=5) for ticket in tickets]
    events = [str(event.type) for event in await run.journal()]

    assert (end.status, end.run_status) == ("ended", "cancelled")
    assert {result.error_code for result in results} == {"tool.cancelled"}
    assert events[-1] == "run_cancelled"


async def test_another_client_reads_the_run_and_its_results(cell: Cell) -> None:
    """Nothing of a run lives in one process only."""
    run = await opened(cell)
    async with serve(cell):
        ticket = await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
        async with Toolrail(cell.settings) as other:
            same = await other.run(run.id)
            result = await same.wait(ticket, timeout_s=10)
            refused = await same.call("demo.denied", {"text": "a"}, id="c2", timeout_s=5)

    assert error_text(result) == "a"
    assert refused.error_code == "policy.denied"


async def test_events_come_as_they_are_written_and_resume_by_number(cell: Cell) -> None:
    """A follower that was cut off asks for what came after the last number it saw."""
    run = await opened(cell)
    async with serve(cell):
        await run.call("demo.echo", {"text": "a"}, id="c1", timeout_s=10)
    await run.complete()
    whole = [event.seq async for event in run.events()]
    rest = [event.seq async for event in run.events(after_seq=3)]

    assert whole == list(range(1, 8))
    assert rest == whole[3:]


async def test_waiting_has_an_end_and_the_call_has_not(cell: Cell) -> None:
    """A caller's patience is not the call's deadline."""
    run = await opened(cell)
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    with pytest.raises(WaitTimeout, match="is queued and goes on"):
        await run.wait(ticket, timeout_s=0.05)
    async with serve(cell):
        result = await run.wait(ticket, timeout_s=10)

    assert error_text(result) == "a"


async def test_a_result_is_found_without_the_inbox(cell: Cell) -> None:
    """The inbox is a hint: a client whose stream was lost rereads the record."""
    run = await opened(cell)
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))

    async def without_inbox() -> bool:
        keys = await command(cell.bench.redis, "KEYS", f"{cell.settings.key_prefix}inbox:*")
        for key in cast("list[str]", keys):
            await command(cell.bench.redis, "DEL", key)
        return (await run.result(ticket)) is not None

    async with serve(cell):
        await await_until(without_inbox, "the result to stand in the record")
        result = await run.wait(ticket, timeout_s=10)

    assert error_text(result) == "a"


async def test_large_arguments_and_results_travel_as_blobs(cell: Cell, policy_dir: Path) -> None:
    """What does not fit the record is found by its digest."""
    small = cell.settings.model_copy(update={"inline_args_bytes": 10})
    async with Toolrail(small) as rail:
        run = await rail.open_run(profile="agent")
        ticket = await run.dispatch(
            CallRequest(id="c1", name="demo.echo", arguments={"text": "0123456789"})
        )
        call = await cell.bench.reader.call(run.id, ticket.call_key)
        assert call is not None
        raw = await cell.bench.blobs.get(call.fields["args_blob"])
        await run.cancel()

    assert "args" not in call.fields
    assert orjson.loads(raw) == {"text": "0123456789"}


async def test_tools_are_those_the_profile_may_see(cell: Cell) -> None:
    """Denied and unlisted ones are not shown."""
    shown = [tool.name for tool in await (await opened(cell)).tools()]

    assert "demo.echo" in shown
    assert "demo.denied" not in shown


@pytest.mark.one_redis
def test_blocking_code_uses_the_same_client(settings: Settings, policy_dir: Path) -> None:
    """The sync facade opens a run, is refused like the async client, and ends the run."""
    settings = settings.model_copy(update={"policy_dir": policy_dir})
    with SyncToolrail(settings) as rail:
        run = rail.open_run(profile="agent")
        result = run.call("demo.nothing", {}, id="c1", timeout_s=5)
        end = run.complete()
        kinds = [str(event.type) for event in run.events()]

    assert result.error_code == "tool.not_found"
    assert end.run_status == "completed"
    assert kinds[-1] == "run_completed"


@pytest.mark.one_redis
def test_a_blocking_client_is_left_while_a_thread_follows(
    settings: Settings, policy_dir: Path
) -> None:
    """The follower ends with the client, not the other way round."""
    settings = settings.model_copy(update={"policy_dir": policy_dir})
    with SyncToolrail(settings) as rail, ThreadPoolExecutor(1) as pool:
        run = rail.open_run(profile="agent")
        followed = pool.submit(lambda: [str(event.type) for event in run.events()])
        run.call("demo.nothing", {}, id="c1", timeout_s=5)
        rail.close()

        assert "run_created" in followed.result(timeout=20)


@pytest.mark.one_redis
async def test_thousands_may_wait_at_once(cell: Cell) -> None:
    """They look at their records together, over the connections that one would use."""
    run = await opened(cell)
    requests = [
        CallRequest(id=f"c{n}", name="demo.echo", arguments={"text": "a"}, turn=n // 16)
        for n in range(2000)
    ]
    tickets = await asyncio.gather(*(run.dispatch(request) for request in requests))
    outcomes = await asyncio.gather(
        *(run.wait(ticket, timeout_s=0.2) for ticket in tickets), return_exceptions=True
    )

    assert {type(outcome) for outcome in outcomes} == {WaitTimeout}


async def test_a_runs_record_does_not_grow_with_its_calls(cell: Cell) -> None:
    """Open calls and turns leave marks in the record; who asks for a status does not read them."""
    run = await opened(cell)
    names = set(await run.record())
    for n in range(20):
        request = CallRequest(id=f"c{n}", name="demo.echo", arguments={"text": "a"}, turn=n)
        await run.dispatch(request)
    record = await run.record()

    assert record["used:demo.echo"] == "20"
    assert set(record) - names == {"used:demo.echo"}
