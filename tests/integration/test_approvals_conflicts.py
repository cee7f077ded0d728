"""Decisions about what is decided already: the same again, or another one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import Cell, asked, interactive, open_cell, write_policy
from toolrail import Settings
from toolrail.errors import ApprovalConflict

WHEN = r"\d{4}-\d\d-\d\dT[\d:.]+Z"


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    policy = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        yield cell


async def test_a_decision_against_another_says_what_stands(cell: Cell) -> None:
    """Yes after no, no after yes, and a yes with other arguments or for more: each is told whose
    decision stands, since when, for how long and with what."""
    run = await interactive(cell)
    refused, approved = await asked(run, "c1"), await asked(run, "c2")
    approvals = cell.rail.approvals
    await approvals.deny(refused.approval_id, by="ann", comment="No mail.")
    await approvals.approve(approved.approval_id, by="ann")
    record = await approvals.get(refused.approval_id)

    with pytest.raises(ApprovalConflict, match=rf"was denied already by ann at {WHEN}\."):
        await approvals.approve(refused.approval_id, by="bob")
    stands = rf"was approved already by ann at {WHEN} for this call, with the model's arguments\."
    with pytest.raises(ApprovalConflict, match=stands):
        await approvals.deny(approved.approval_id, by="bob")
    with pytest.raises(ApprovalConflict, match=stands):
        await approvals.approve(approved.approval_id, by="ann", arguments={"text": "b"})
    with pytest.raises(ApprovalConflict, match=stands):
        await approvals.approve(approved.approval_id, by="ann", scope="run")
    assert (record.decided_by, record.comment) == ("ann", "No mail.")


async def test_an_edit_for_the_run_is_not_the_approval_of_the_call(cell: Cell) -> None:
    """Less than what stands is another decision too; all of it again is none."""
    run = await interactive(cell)
    ticket = await asked(run)
    edit = {"text": "b"}
    await run.approve(ticket, by="ann", scope="run", arguments=edit)

    stands = r"for the rest of the run, with arguments that a person edited\."
    with pytest.raises(ApprovalConflict, match=stands):
        await run.approve(ticket, by="ann", arguments=edit)
    with pytest.raises(ApprovalConflict, match=stands):
        await run.approve(ticket, by="ann", scope="run")
    assert (await run.approve(ticket, by="bob", scope="run", arguments=edit)).repeated


@pytest.mark.parametrize("is_edited", [False, True])
async def test_two_approvals_at_once_are_one_or_a_conflict(cell: Cell, is_edited: bool) -> None:
    """Where both saw the question open, the ledger says what the loser wanted otherwise."""
    run = await interactive(cell)
    ticket = await asked(run)
    edit = {"text": "b"} if is_edited else None
    said = await asyncio.gather(
        run.approve(ticket, by="ann"),
        run.approve(ticket, by="ann", scope="once" if is_edited else "run", arguments=edit),
        return_exceptions=True,
    )
    [lost] = [answer for answer in said if isinstance(answer, BaseException)]

    assert isinstance(lost, ApprovalConflict)
    assert "was approved already by ann at " in lost.message


async def test_a_second_reason_is_not_lost_without_a_word(cell: Cell) -> None:
    """Who denies after somebody else is told who did, when, and that nobody reads their reason."""
    run = await interactive(cell)
    ticket = await asked(run)
    await run.deny(ticket, by="ann", comment="No mail.")
    again = await run.deny(ticket, by="ann", comment="No mail. ")
    silent = await run.deny(ticket, by="bob")
    other = await run.deny(ticket, by="bob", comment="Ask kim.")
    record = await cell.rail.approvals.get(ticket.approval_id)

    assert {answer.decided_by for answer in (again, silent, other)} == {"ann"}
    assert {answer.decided_at for answer in (again, silent, other)} == {record.decided_at}
    assert all(answer.repeated for answer in (again, silent, other))
    assert (again.why, silent.why) == ("", "")
    assert "Your reason was not taken" in other.why
    assert record.comment == "No mail."
