"""A redrive that one operator gives up while another is at it: one letter is still one call.

Is: the step in which the ledger takes the new call against the one that frees its letter. Is not:
operators who all go on (`test_redriving.py`). Above: nothing. Below: `tests/letters.py`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, opened, write_policy
from tests.letters import listed, lose, make_letter, record_of
from tests.promises import promise
from toolrail import CallRequest, Run, Settings, Toolrail
from toolrail.dead_letters import DeadLetters
from toolrail.errors import CallConflict, UnknownProfile
from toolrail.redis_io import command
from toolrail.redriving import Redriver
from toolrail.request import Redrive, Ticket


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client under the policy of these tests."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


def redriver(cell: Cell) -> Redriver:
    """Return what redrives the letters of the cell."""
    return Redriver(cell.rail, cell.bench.redis, cell.settings)


async def begun(cell: Cell, letter: str, *, is_aimed: bool = True) -> Run:
    """Claim a redrive for ann and open its run, as far as she gets before she is held up."""
    dead = DeadLetters(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)
    place = letter.partition(".")[::2]
    await dead.letters.claim(*place, nonce="n", by="ann", effect_may_repeat=True)
    run = await opened(cell, name=f"redrive 1 of {letter}", approval_mode="interactive")
    if is_aimed:
        await dead.letters.aim(*place, number=1, target=run.id)
    return run


async def go_on(run: Run, letter: str, *, tool: str = "demo.echo") -> Ticket:
    """Make the call of ann's redrive."""
    request = CallRequest(
        id="c1.redrive.1",
        name=tool,
        arguments={"text": "plain words"},
        redrive=Redrive(letter, "ann", 1),
    )
    return await run.dispatch(request)


async def dead_letter(cell: Cell) -> str:
    """Return a letter whose run is over."""
    run = await opened(cell, approval_mode="interactive")
    letter = await make_letter(cell, run)
    await run.complete()
    return letter


@promise("letter.redriven-once")
async def test_a_redrive_that_was_given_up_makes_no_call(cell: Cell, tmp_path: Path) -> None:
    """Bob cannot read the policy and frees the letter, cid redrives it, and ann comes too late."""
    letter = await dead_letter(cell)
    anns = await begun(cell, letter, is_aimed=False)
    bare = write_policy(tmp_path / "bare")
    (bare / "profiles" / "agent.toml").unlink()
    async with Toolrail(cell.settings.model_copy(update={"policy_dir": bare})) as rail:
        with pytest.raises(UnknownProfile):
            await Redriver(rail, cell.bench.redis, cell.settings).redrive(letter, by="bob")
    with pytest.raises(CallConflict, match="Redrive the letter again"):
        await go_on(anns, letter)
    done = await redriver(cell).redrive(letter, by="cid")
    with pytest.raises(CallConflict, match="no call was made"):
        await go_on(anns, letter)
    calls = (await cell.bench.reader.totals())["accepted:builtin"]
    for run in (anns, await cell.rail.run(done.ticket.run_id)):
        await run.cancel()

    assert (done.ticket.call_id, done.by, calls) == ("c1.redrive.2", "cid", 2)


@promise("letter.redriven-once")
async def test_a_redrive_whose_call_was_made_is_not_given_up(cell: Cell) -> None:
    """Bob cannot read the policy of ann's run, and is told of her call instead; so is cid."""
    letter = await dead_letter(cell)
    anns = await begun(cell, letter)
    made = await go_on(anns, letter)
    await command(cell.bench.redis, "DEL", cell.bench.keys.policy(str(anns.spec.policy_hash)))
    async with Toolrail(cell.settings) as rail:
        bobs = await Redriver(rail, cell.bench.redis, cell.settings).redrive(letter, by="bob")
    cids = await redriver(cell).redrive(letter, by="cid")
    calls = (await cell.bench.reader.totals())["accepted:builtin"]
    await anns.cancel()
    record = (await record_of(cell, letter)).fields

    assert [(one.by, one.was_before) for one in (bobs, cids)] == [("ann", True)] * 2
    assert bobs.ticket.call_key == cids.ticket.call_key == made.call_key
    assert (calls, await listed(cell)) == (2, [])
    assert (record["redriven_as"], record["redriven_by"]) == (made.approval_id, "ann")
    assert not [name for name in record if name.startswith("redriving")]


async def test_a_redrive_that_a_person_refused_is_given_up(cell: Cell) -> None:
    """Nothing ran, so the letter is free for the next number."""
    run = await opened(cell, approval_mode="interactive")
    ticket = await run.dispatch(
        CallRequest(id="c1", name="demo.ask", arguments={"text": "plain words"})
    )
    await cell.rail.approvals.approve(ticket.approval_id, by="ann")
    letter = ticket.approval_id
    await lose(cell, run.id, ticket.call_key)
    await run.complete()
    anns = await begun(cell, letter)
    made = await go_on(anns, letter, tool="demo.ask")
    await cell.rail.approvals.deny(made.approval_id, by="ann")
    denied = await redriver(cell).redrive(letter, by="bob")
    still = await listed(cell)
    again = await redriver(cell).redrive(letter, by="bob")
    for made_in in (anns, await cell.rail.run(again.ticket.run_id)):
        await made_in.cancel()

    assert (denied.is_accepted, denied.error_code) == (False, "approval.denied")
    assert still == [letter]
    assert (again.is_accepted, again.ticket.call_id) == (True, "c1.redrive.2")
