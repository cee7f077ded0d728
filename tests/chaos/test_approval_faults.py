"""Decisions while Redis is away, and from machines whose clocks are wrong."""

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, serve, write_policy
from tests.promises import promise
from tests.servers import StartRedis, absent
from toolrail import CallRequest, Settings
from toolrail.errors import RedisUnavailable
from toolrail.request import Ticket
from toolrail.results import error_text
from toolrail.settings import own_environment
from toolrail_schemas import ApprovalMode, ApprovalState

DECIDE = """
import asyncio, json, sys, time
from toolrail import Settings, Toolrail
from toolrail.errors import ToolrailError

async def main():
    async with Toolrail(Settings.from_env()) as rail:
        try:
            decision = await rail.approvals.approve(sys.argv[1], by="ann")
            answer = decision.state.value
        except ToolrailError as error:
            answer = error.message
        print(json.dumps([time.time(), answer]))

asyncio.run(main())
"""


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client on a shared server."""
    policy = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        yield cell


async def park(cell: Cell) -> Ticket:
    """Park one call."""
    run = await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)
    ticket = await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    assert ticket.state == "awaiting_approval"
    return ticket


async def decide_elsewhere(cell: Cell, ticket: Ticket, *, offset: str) -> tuple[float, str]:
    """Return the wall clock and the answer of a process whose clock is off."""
    program = shutil.which("faketime") or absent("apt-get install faketime")
    process = await asyncio.create_subprocess_exec(
        program,
        "-f",
        offset,
        sys.executable,
        "-c",
        DECIDE,
        ticket.approval_id,
        env=own_environment() | cell.settings.to_env(),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    clock, answer = json.loads(out)
    return float(clock), str(answer)


@pytest.mark.one_redis
@promise("approval.decided-once")
async def test_a_clock_ten_minutes_slow_approves_nothing_that_has_expired(cell: Cell) -> None:
    """The clock of Redis decides, and nobody has swept yet."""
    ticket = await park(cell)
    call = cell.bench.keys.call(ticket.run_id, ticket.call_key)
    now_ms = await cell.bench.reader.now_ms()
    await cell.bench.redis.hset(call, "approval_expires_ms", str(now_ms - 1))
    clock, answer = await decide_elsewhere(cell, ticket, offset="-10m")

    assert clock * 1000 < now_ms - 9 * 60_000
    assert "expired before anybody decided" in answer


@pytest.mark.one_redis
async def test_a_clock_ten_minutes_fast_approves_what_still_waits(cell: Cell) -> None:
    """A person's machine cannot make a question expire."""
    ticket = await park(cell)
    now_ms = await cell.bench.reader.now_ms()
    clock, answer = await decide_elsewhere(cell, ticket, offset="+10m")
    record = await cell.rail.approvals.get(ticket.approval_id)

    assert clock * 1000 > now_ms + 9 * 60_000
    assert answer == "approved"
    assert record.decided_at is not None
    assert abs(record.decided_at - now_ms) < 60_000


async def test_a_decision_while_redis_is_away_can_be_given_again(
    settings: Settings, start_redis: StartRedis, tmp_path: Path
) -> None:
    """The person is told that there was no answer; deciding again is one decision."""
    server = start_redis()
    settings = settings.model_copy(
        update={
            "redis_url": server.url,
            "redis_timeout_s": 1.0,
            "policy_dir": write_policy(tmp_path / "policy"),
        }
    )
    async with open_cell(settings) as cell:
        ticket = await park(cell)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(RedisUnavailable):
                await cell.rail.approvals.approve(ticket.approval_id, by="ann")
        finally:
            os.kill(server.pid, signal.SIGCONT)
        await cell.rail.approvals.approve(ticket.approval_id, by="ann")
        record = await cell.rail.approvals.get(ticket.approval_id)
        run = await cell.rail.run(ticket.run_id)
        async with serve(cell):
            result = await run.wait(ticket, timeout_s=10)
        approvals = [str(e.type) for e in await run.journal()].count("tool_call_approved")

    assert (record.state, record.decided_by) == (ApprovalState.APPROVED, "ann")
    assert (error_text(result), approvals) == ("a", 1)
