"""A step on a damaged record is whole or does not happen, and the call can still be ended.

A script that fails in the middle keeps what it wrote before: Redis takes nothing back. Is: records
that lost a field. Is not: the steps on whole records. Above: nothing. Below: `tests/letters.py`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.calls import LedgerBench
from tests.cells import Cell, open_cell, opened, write_policy
from tests.letters import listed, make_letter, record_of
from toolrail import CallRequest, Run, Settings
from toolrail.closing import close_call
from toolrail.dead_letters import DeadLetters
from toolrail.ledger import Claim, StoredCall
from toolrail.redis_io import command


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client; the books balance afterwards."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


async def lost_call(bench: LedgerBench, run: Run) -> StoredCall:
    """Return a call whose worker is gone."""
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    claim = await bench.ledger.claim(
        run.id, ticket.call_key, attempt=1, nonce="n", worker="w", lease_ms=0
    )
    assert isinstance(claim, Claim)
    call = await bench.reader.call(run.id, ticket.call_key)
    assert call is not None
    return call


async def forget(bench: LedgerBench, call: StoredCall, *fields: str) -> None:
    """Let the record lose fields."""
    await command(bench.redis, "HDEL", bench.keys.call(call.run_id, call.call_key), *fields)


async def requeue(bench: LedgerBench, call: StoredCall) -> bool:
    """Queue the next attempt of a lost call."""
    return await bench.ledger.requeue(
        call.run_id,
        call.call_key,
        fence=call.number("fence"),
        attempt=2,
        envelope="",
        actor="runtime:reaper",
    )


async def test_a_lost_call_without_its_deadline_is_queued_and_ended(cell: Cell) -> None:
    """It would wait for ever, in the books of its queue and with no claim that takes it."""
    bench, run = cell.bench, await opened(cell)
    call = await lost_call(bench, run)
    await forget(bench, call, "deadline_ms")
    queued = await requeue(bench, call)
    again = await bench.reader.call(call.run_id, call.call_key)
    assert again is not None
    closed = await close_call(
        bench.ledger,
        bench.blobs,
        again,
        guard="deadline_over",
        code="tool.timeout",
        actor="runtime:reaper",
    )
    await run.complete()

    assert queued
    assert (again.state, closed.status) == ("queued", "closed")


async def test_a_lost_call_without_its_queue_is_left_as_it_was(cell: Cell) -> None:
    """No event, no fence, no counter."""
    bench, run = cell.bench, await opened(cell)
    call = await lost_call(bench, run)
    await forget(bench, call, "queue")
    before = (await run.record())["seq"], await bench.reader.totals()
    queued = await requeue(bench, call)
    after = (await run.record())["seq"], await bench.reader.totals()
    still = await bench.reader.call(call.run_id, call.call_key)

    assert not queued
    assert before == after
    assert still is not None
    assert (still.state, still.number("fence")) == ("running", call.number("fence"))


async def test_a_letter_without_its_queue_is_discarded_or_redriven_whole(cell: Cell) -> None:
    """The record says what became of it, and it is counted."""
    run = await opened(cell)
    letters = [await make_letter(cell, run, f"c{n}") for n in range(2)]
    for letter in letters:
        await forget(cell.bench, await record_of(cell, letter), "queue")
    dead = DeadLetters(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)
    await dead.discard(letters[0], by="ann")
    place = letters[1].partition(".")[::2]
    claimed = await dead.letters.claim(*place, nonce="n", by="bob", effect_may_repeat=False)
    settled = await dead.letters.accepted(*place, number=claimed.number, new_call="r.c")
    totals = await cell.bench.reader.totals()

    assert settled.status == "done"
    assert await listed(cell) == []
    assert (await record_of(cell, letters[0])).fields["discarded_by"] == "ann"
    assert (await record_of(cell, letters[1])).fields["redriven_as"] == "r.c"
    assert totals["dead_letter_discarded:none"] == totals["dead_letter_redriven:none"] == 1
