"""Fifty people and clocks decide about one call at once; one of them wins."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.cells import Cell, open_cell, serve, write_policy
from tests.promises import promise
from toolrail import CallRequest, Run, Settings
from toolrail.closing import cancel_call, expire_approval
from toolrail.errors import ApprovalConflict
from toolrail.redis_io import command
from toolrail.request import Ticket
from toolrail_schemas import ApprovalMode, RunLimits, ToolResult

ROUNDS, LONG_ROUNDS = 40, 200
STATES = {
    "approve": "approved",
    "edit": "approved",
    "deny": "denied",
    "expire": "expired",
    "cancel": "cancelled",
}
ACTORS = ("approve",) * 16 + ("deny",) * 14 + ("edit",) * 8 + ("expire",) * 6 + ("cancel",) * 6


class Race:
    """Rounds of one call each, all actors at once."""

    def __init__(self, cell: Cell, run: Run, rng: random.Random) -> None:
        self.cell = cell
        self.run = run
        self.rng = rng
        self.wins: Counter[str] = Counter()
        self.executed: list[str] = []

    def execute(self, arguments: dict[str, JsonValue]) -> str:
        """What the tool does: its effect is this note."""
        self.executed.append(str(arguments["text"]))
        return "done"

    async def round(self, number: int) -> None:
        """One call, fifty actors; afterwards the world must agree on who won."""
        text = f"model {number}"
        ticket = await self.run.dispatch(
            CallRequest(id=f"c{number}", name="demo.ask", arguments={"text": text}, turn=number)
        )
        assert ticket.state == "awaiting_approval"
        if number % 5 == 0:
            # The clock takes part: the question is over in the middle of the race.
            await self._expire_in(ticket, ms=self.rng.randrange(1, 20))
        actors = [self._actor(name, ticket, number, index) for index, name in enumerate(ACTORS)]
        self.rng.shuffle(actors)
        winners = [name for name in await asyncio.gather(*actors) if name]
        await self._expire(ticket)
        result = await self.run.wait(ticket, timeout_s=10)
        await self._check(ticket, number, winners, result)

    async def _check(
        self, ticket: Ticket, number: int, winners: list[str], result: ToolResult
    ) -> None:
        record = await self.cell.rail.approvals.get(ticket.approval_id)
        done = [note for note in self.executed if note.endswith(f" {number}")]
        was_cancelled = result.error_code == "tool.cancelled"
        [winner] = winners or ["cancel"]
        self.wins[winner] += 1

        assert record.state.value == STATES[winner]
        assert was_cancelled or winner != "cancel"
        if winner in {"approve", "edit"}:
            # Who cancels an approved call may still be in time, but never half.
            assert len(done) == (0 if was_cancelled else 1)
            assert all(
                note.startswith("model" if winner == "approve" else "person") for note in done
            )
        else:
            assert done == []
            assert result.is_error

    async def _actor(self, name: str, ticket: Ticket, number: int, index: int) -> str:
        # Deciding takes more steps for some than for others; so everybody starts at random.
        for _ in range(self.rng.randrange(1 if name in {"approve", "edit"} else 40)):
            await command(self.cell.bench.redis, "PING")
        who = f"person{index}"
        approvals = self.cell.rail.approvals
        try:
            match name:
                case "approve":
                    decision = await approvals.approve(ticket.approval_id, by=who)
                    return "" if decision.repeated else name
                case "edit":
                    edited = {"text": f"person {index} {number}"}
                    decision = await approvals.approve(ticket.approval_id, by=who, arguments=edited)
                    return "" if decision.repeated else name
                case "deny":
                    denial = await approvals.deny(ticket.approval_id, by=who, comment=who)
                    return "" if denial.repeated else name
                case "expire":
                    return name if await self._expire(ticket) else ""
                case _:
                    await self._cancel(ticket)
                    return ""
        except ApprovalConflict:
            return ""

    async def _expire_in(self, ticket: Ticket, *, ms: int) -> None:
        bench = self.cell.bench
        until = await bench.reader.now_ms() + ms
        call = bench.keys.call(ticket.run_id, ticket.call_key)
        await bench.redis.hset(call, "approval_expires_ms", str(until))

    async def _expire(self, ticket: Ticket) -> bool:
        bench = self.cell.bench
        call = await bench.reader.call(ticket.run_id, ticket.call_key)
        assert call is not None
        closed = await expire_approval(bench.ledger, bench.blobs, call, actor="runtime:reaper")
        return closed.status == "closed"

    async def _cancel(self, ticket: Ticket) -> None:
        bench = self.cell.bench
        await cancel_call(
            bench.ledger,
            bench.reader,
            bench.blobs,
            ticket.run_id,
            ticket.call_key,
            actor="runtime:client",
        )


async def race(cell: Cell, *, rounds: int, seed: int) -> Counter[str]:
    """Return how often each actor won; every round's invariants hold."""
    run = await cell.rail.open_run(
        profile="agent",
        approval_mode=ApprovalMode.INTERACTIVE,
        limits=RunLimits(max_denied=rounds),
    )
    races = Race(cell, run, random.Random(seed))  # noqa: S311  # an order, no secret
    async with serve(cell, races.execute):
        for number in range(rounds):
            await races.round(number)
    return races.wins


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client; its books are balanced afterwards."""
    policy = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        yield cell


@pytest.mark.one_redis
@pytest.mark.parametrize("seed", [2026])
@promise("approval.decided-once")
async def test_one_of_fifty_racing_decisions_wins(
    cell: Cell, seed: int, long_version: bool
) -> None:
    """Approve, deny, edit, expire and cancel at once: nothing runs unless approved, and once."""
    rounds = LONG_ROUNDS if long_version else ROUNDS
    wins = await race(cell, rounds=rounds, seed=seed)

    assert sum(wins.values()) == rounds
    assert len(wins) >= 4, wins
