"""An effect that may have happened, and what a person is told before it may happen again."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, write_policy
from tests.promises import promise
from toolrail import CallRequest, Run, Settings
from toolrail.closing import close_call
from toolrail.errors import ApprovalRefused
from toolrail.ledger import Claim
from toolrail.redis_io import command
from toolrail.request import Ticket
from toolrail_schemas import ApprovalMode, ApprovalScope, ApprovalState, Layer


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    policy = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        yield cell


@pytest.fixture
async def run(cell: Cell) -> Run:
    """Give a run with somebody to ask."""
    return await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)


async def dispatch(run: Run, call_id: str, text: str) -> Ticket:
    """Ask for a call that always needs a person."""
    request = CallRequest(id=call_id, name="demo.ask", arguments={"text": text})
    return await run.dispatch(request)


async def lose(cell: Cell, ticket: Ticket) -> None:
    """Let a worker take the call and be lost with it."""
    bench = cell.bench
    claim = await bench.ledger.claim(
        ticket.run_id, ticket.call_key, attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    assert isinstance(claim, Claim)
    member = f"{ticket.run_id}|{ticket.call_key}"
    await command(bench.redis, "ZADD", bench.keys.leases, "XX", 1, member)
    call = await bench.reader.call(ticket.run_id, ticket.call_key)
    assert call is not None
    closed = await close_call(
        bench.ledger,
        bench.blobs,
        call,
        guard="lost",
        code="tool.outcome_unknown",
        actor="runtime:test",
    )
    assert closed.status == "closed"


@promise("call.unknown-not-repeated")
async def test_a_tool_that_always_asks_says_that_its_effect_may_have_happened(
    cell: Cell, run: Run
) -> None:
    """The person is told the special reason, and cannot answer it for the rest of the run."""
    first = await dispatch(run, "c1", "a")
    await run.approve(first, by="ann", scope="run")
    await lose(cell, first)
    again = await dispatch(run, "c2", "a")
    record = await cell.rail.approvals.get(again.approval_id)

    assert Layer.CONTEXT in record.layers
    assert "may have taken effect" in record.policy_reason
    assert record.scopes == (ApprovalScope.ONCE,)
    assert (await run.approve(again, by="ann")).call_state == "queued"


@promise("call.unknown-not-repeated")
async def test_who_was_asked_before_the_loss_is_told_of_it(cell: Cell, run: Run) -> None:
    """Its twin was lost while the question stood: the approver has to say that they know."""
    first, twin = await dispatch(run, "c1", "a"), await dispatch(run, "c2", "a")
    await run.approve(first, by="ann")
    await lose(cell, first)

    with pytest.raises(ApprovalRefused, match="may have happened"):
        await run.approve(twin, by="ann")
    decision = await run.approve(twin, by="ann", effect_may_repeat=True)
    assert decision.call_state == "queued"


@promise("call.unknown-not-repeated")
async def test_a_yes_does_not_count_for_a_loss_of_after_its_question(cell: Cell, run: Run) -> None:
    """Two calls wait because of one loss; the first is approved and lost too, the second told."""
    lost = await dispatch(run, "c1", "a")
    await run.approve(lost, by="ann")
    await lose(cell, lost)
    second, third = await dispatch(run, "c2", "a"), await dispatch(run, "c3", "a")
    await run.approve(second, by="ann")
    await lose(cell, second)

    with pytest.raises(ApprovalRefused, match="may have happened"):
        await run.approve(third, by="bob")
    assert (await cell.rail.approvals.get(third.approval_id)).state is ApprovalState.PENDING
    decision = await run.approve(third, by="bob", effect_may_repeat=True)
    assert decision.call_state == "queued"


@promise("call.unknown-not-repeated")
async def test_an_effect_is_not_repeated_by_editing_it_in(cell: Cell, run: Run) -> None:
    """Edited arguments are looked up like a model's."""
    first = await dispatch(run, "c1", "a")
    await run.approve(first, by="ann")
    await lose(cell, first)
    other = await dispatch(run, "c2", "b")

    with pytest.raises(ApprovalRefused, match="may have happened"):
        await run.approve(other, by="ann", arguments={"text": "a"})
    assert (await run.approve(other, by="ann")).call_state == "queued"


@promise("call.unknown-not-repeated")
async def test_neither_version_of_an_edited_call_is_repeated(cell: Cell, run: Run) -> None:
    """The model may repeat its own arguments, and a person what was approved instead."""
    first = await dispatch(run, "c1", "a")
    await run.approve(first, by="ann", scope="run", arguments={"text": "b"})
    await lose(cell, first)
    tickets = [await dispatch(run, f"c{text}", text) for text in ("a", "b")]
    fresh = await dispatch(run, "cc", "c")

    assert [ticket.state for ticket in tickets] == ["awaiting_approval"] * 2
    assert fresh.state == "queued"
