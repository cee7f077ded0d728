"""A question about a tool whose workers are being replaced by those of another version."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import SPECS, Cell, asked, interactive, open_cell, write_policy
from toolrail import Settings
from toolrail.errors import ApprovalRefused
from toolrail.ledger import Claim, Refusal
from toolrail.registry import Registry, ToolSet
from toolrail.request import Ticket
from toolrail_schemas import ApprovalState, ToolSpec

NEXT = [
    spec.model_copy(update={"description": "The next one."}) if spec.name == "demo.ask" else spec
    for spec in SPECS
]


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client; its worker `w` has the tools of before."""
    policy = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        yield cell


def registry(cell: Cell) -> Registry:
    """Return the registry, to be written."""
    return Registry(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)


async def claim_by(cell: Cell, ticket: Ticket, specs: tuple[ToolSpec, ...]) -> Claim | Refusal:
    """Claim the call as a worker that has these tools."""
    tools = ToolSet.of(specs)
    await registry(cell).keep_tools(tools)
    return await cell.bench.ledger.claim(
        ticket.run_id,
        ticket.call_key,
        attempt=1,
        nonce=tools.digest[:8],
        worker="any",
        lease_ms=60_000,
        tools=tools.digest,
    )


async def test_an_approval_is_for_the_version_that_was_asked_about(cell: Cell) -> None:
    """While a worker of before lives the call may run, on such a worker and on no other."""
    run = await interactive(cell)
    ticket = await asked(run)
    await registry(cell).announce("builtin", "builtin", NEXT, worker="w2", available=True)
    shown = await cell.rail.approvals.redacted(ticket.approval_id)
    decision = await run.approve(ticket, by="ann")
    by_the_next = await claim_by(cell, ticket, tuple(NEXT))
    by_the_one_before = await claim_by(cell, ticket, SPECS)

    assert shown == {"text": "a"}
    assert (decision.state, decision.call_state) == (ApprovalState.APPROVED, "queued")
    assert by_the_next is Refusal.ELSEWHERE
    assert isinstance(by_the_one_before, Claim)


async def test_a_version_that_nobody_has_any_more_is_not_approved(cell: Cell) -> None:
    """The worker of before is gone, whatever is still listed of it."""
    run = await interactive(cell)
    ticket = await asked(run)
    await registry(cell).announce("builtin", "builtin", NEXT, worker="w2", available=True)
    await registry(cell).withdraw("builtin", "builtin", worker="w")
    decision = await run.approve(ticket, by="ann")

    assert (decision.state, decision.call_state) == (ApprovalState.SUPERSEDED, "failed")


async def test_a_version_that_cannot_run_at_the_moment_stays_asked_about(cell: Cell) -> None:
    """Its worker lives and says why not; the next version's being able to changes nothing."""
    run = await interactive(cell)
    ticket = await asked(run)
    await registry(cell).announce(
        "builtin", "builtin", SPECS, worker="w", available=False, reason="Its disk is full."
    )
    await registry(cell).announce("builtin", "builtin", NEXT, worker="w2", available=True)
    with pytest.raises(ApprovalRefused, match=r"at the moment\. Its disk is full\."):
        await run.approve(ticket, by="ann")

    assert (await cell.rail.approvals.get(ticket.approval_id)).state is ApprovalState.PENDING
