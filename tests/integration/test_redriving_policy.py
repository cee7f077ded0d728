"""A redrive of an ended run is bound by two policies, that of the run and that of today.

Is: which of them decides about the new call, and when neither can. Is not: how one answer is made
of two (`unit/test_policy_stricter.py`). Above: nothing. Below: `tests/letters.py`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, opened, write_policy
from tests.letters import listed, lose, make_letter
from tests.promises import promise
from toolrail import CallRequest, Run, Settings, Toolrail
from toolrail.dead_letters import DeadLetters, LetterRefused
from toolrail.errors import ApprovalRefused
from toolrail.redis_io import command
from toolrail.redriving import Redriven, Redriver

LAX = 'on_denied = "return_result"\nallow = ["demo.*"]\n'
ASKS = f'{LAX}require_approval = ["demo.*"]\n'
ASKS_ANN = '[approvals]\napprovers = ["ann"]\nexpires_s = { builtin = 60 }\n'


@asynccontextmanager
async def machine(
    cell: Cell, folder: Path, profile: str, platform: str = ""
) -> AsyncGenerator[Redriver]:
    """Give what redrives on a machine with a policy folder of its own."""
    write_policy(folder)
    (folder / "profiles" / "agent.toml").write_text(profile, encoding="utf-8")
    (folder / "platform.toml").write_text(platform, encoding="utf-8")
    settings = cell.settings.model_copy(update={"policy_dir": folder})
    async with Toolrail(settings) as rail:
        yield Redriver(rail, cell.bench.redis, settings)


@asynccontextmanager
async def asking_cell(settings: Settings, tmp_path: Path) -> AsyncGenerator[Cell]:
    """Give a cell whose agents run under a policy with one approver, who has a minute."""
    folder = write_policy(tmp_path / "agents")
    (folder / "platform.toml").write_text(ASKS_ANN, encoding="utf-8")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


async def approved_and_lost(cell: Cell, run: Run) -> str:
    """Return the letter of a call that a person had agreed to."""
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    await run.approve(ticket, by="ann")
    await lose(cell, run.id, ticket.call_key)
    return ticket.approval_id


async def made_by(cell: Cell, done: Redriven) -> Run:
    """Return the run of a redriven call."""
    return await cell.rail.run(done.ticket.run_id)


@promise("letter.redriven-under-its-policy")
async def test_a_laxer_folder_of_today_loosens_nothing(settings: Settings, tmp_path: Path) -> None:
    """Who asks, what is denied, who may decide and for how long stay as in the run that ended."""
    async with asking_cell(settings, tmp_path) as cell:
        run = await opened(cell, approval_mode="interactive")
        letter = await approved_and_lost(cell, run)
        await run.complete()
        async with machine(cell, tmp_path / "operator", LAX) as lax:
            done = await lax.redrive(letter, by="bob")
        made = await made_by(cell, done)
        asked = await cell.rail.approvals.get(done.ticket.approval_id)
        with pytest.raises(ApprovalRefused, match="lists other approvers"):
            await made.approve(done.ticket, by="bob")
        shown = [tool.name for tool in await made.tools()]
        await made.cancel()

    assert done.ticket.state == "awaiting_approval"
    assert "the run that this one repeats a call of" in asked.policy_reason
    assert asked.expires_at - asked.requested_at == 60_000
    assert "demo.denied" not in shown


@promise("letter.redriven-under-its-policy")
async def test_a_stricter_folder_of_today_is_honoured(settings: Settings, tmp_path: Path) -> None:
    """What the run never asked about is asked now."""
    folder = write_policy(tmp_path / "agents")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        run = await opened(cell, approval_mode="interactive")
        letter = await make_letter(cell, run)
        await run.complete()
        async with machine(cell, tmp_path / "operator", ASKS) as strict:
            done = await strict.redrive(letter, by="bob")
        await (await made_by(cell, done)).cancel()

    assert done.ticket.state == "awaiting_approval"


@promise("letter.redriven-under-its-policy")
async def test_a_chain_of_redrives_is_bound_by_its_first_run(
    settings: Settings, tmp_path: Path
) -> None:
    """A redrive that dies in a run of its own takes the first policy along."""
    async with asking_cell(settings, tmp_path) as cell:
        run = await opened(cell, approval_mode="interactive")
        letter = await approved_and_lost(cell, run)
        await run.complete()
        async with machine(cell, tmp_path / "operator", LAX) as lax:
            first = await lax.redrive(letter, by="bob")
            between = await made_by(cell, first)
            await between.approve(first.ticket, by="ann")
            await lose(cell, between.id, first.ticket.call_key)
            await between.complete()
            second = await lax.redrive(first.ticket.approval_id, by="bob")
        last = await made_by(cell, second)
        await last.cancel()

    assert second.ticket.state == "awaiting_approval"
    assert last.id not in {run.id, between.id}
    assert last.spec.policy_hash == between.spec.policy_hash


@promise("letter.redriven-under-its-policy")
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "open"])
async def test_without_the_policy_of_its_run_a_letter_is_not_redriven(
    settings: Settings, tmp_path: Path, ended: bool
) -> None:
    """Nobody can tell what it was allowed; the error says what to do, and that can be done."""
    async with asking_cell(settings, tmp_path) as cell:
        run = await opened(cell)
        letter = await make_letter(cell, run)
        if ended:
            await run.complete()
        await command(cell.bench.redis, "DEL", cell.bench.keys.policy(str(run.spec.policy_hash)))
        # The run's own client still knows its policy; it is another process that redrives.
        async with machine(cell, tmp_path / "operator", LAX) as lax:
            with pytest.raises(LetterRefused, match="Make the call anew where it came from, or"):
                await lax.redrive(letter, by="bob")
        still = await listed(cell)
        dead = DeadLetters(cell.bench.redis, prefix=settings.key_prefix, deadline_s=5)
        await dead.discard(letter, by="bob")
        if not ended:
            await run.complete()

    assert still == [letter]
