"""Make dead letters, as the reaper does: a claim, a lease that is over, a lost last attempt.

Is: what tests of dead letters need. Is not: the decision what becomes one (tests of the reaper).
Above: those tests. Below: `tests/cells.py`.
"""

from typing import cast

from tests.cells import Cell
from toolrail import CallRequest, Run
from toolrail.closing import close_call
from toolrail.ledger import Claim, StoredCall
from toolrail.redis_io import command


async def make_letter(
    cell: Cell,
    run: Run,
    call_id: str = "c1",
    *,
    tool: str = "demo.echo",
    text: str = "plain words",
    code: str = "tool.worker_lost",
    metadata: dict[str, str] | None = None,
) -> str:
    """Dispatch a call, lose its worker for good, and return the id of its dead letter."""
    ticket = await run.dispatch(
        CallRequest(
            id=call_id, name=tool, arguments={"text": text}, provider_metadata=dict(metadata or {})
        )
    )
    assert ticket.state == "queued"
    await lose(cell, run.id, ticket.call_key, code=code)
    return f"{run.id}.{ticket.call_key}"


async def lose(cell: Cell, run_id: str, call_key: str, *, code: str = "tool.worker_lost") -> None:
    """Claim a queued call for a worker that is then killed, and close it as a dead letter."""
    bench = cell.bench
    before = await stored(cell, run_id, call_key)
    await command(bench.redis, "RPOP", bench.keys.queue("builtin"))
    claim = await bench.ledger.claim(
        run_id,
        call_key,
        attempt=before.number("attempt"),
        nonce=f"n{call_key}",
        worker="killed-worker",
        lease_ms=60_000,
    )
    assert isinstance(claim, Claim)
    await command(bench.redis, "ZADD", bench.keys.leases, "XX", 1, f"{run_id}|{call_key}")
    closed = await close_call(
        bench.ledger,
        bench.blobs,
        await stored(cell, run_id, call_key),
        guard="lost",
        code=code,
        actor="runtime:reaper",
        dead_letter=True,
    )
    assert closed.status == "closed"


async def stored(cell: Cell, run_id: str, call_key: str) -> StoredCall:
    """Return the record of a call that is there."""
    call = await cell.bench.reader.call(run_id, call_key)
    assert call is not None
    return call


async def record_of(cell: Cell, letter_id: str) -> StoredCall:
    """Return the record of a letter's call."""
    run_id, _, call_key = letter_id.partition(".")
    return await stored(cell, run_id, call_key)


async def listed(cell: Cell) -> list[str]:
    """Return the ids of the letters on the list, the oldest first."""
    bench = cell.bench
    members = await command(bench.redis, "ZRANGE", bench.keys.dead_letters, 0, -1)
    return [member.replace("|", ".") for member in cast("list[str]", members)]
