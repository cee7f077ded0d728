"""Measure the list of approvals with 10,000 that wait.

Is: a program that prints medians, `python -m tests.bench.bench_approvals`. Is not: a test; nothing
fails when it is slow. Above: nobody. Below: `toolrail.approvals`, `tests/terminals.py`.

What the command does is measured apart from the start of its process, beside as many PINGs as a
yardstick for the machine.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from pydantic import JsonValue, SecretStr

from tests.cells import open_cell, write_policy
from tests.terminals import TOOLRAIL
from toolrail import CallRequest, Run, Settings
from toolrail.approvals import Approvals
from toolrail.cli.approvals_ids import ShortIds
from toolrail.cli.approvals_page import list_lines
from toolrail.embedded import EmbeddedRedis
from toolrail.redis_io import command
from toolrail.settings import own_environment
from toolrail_schemas import ApprovalMode

WAITING, BATCH, ROUNDS, STARTS = 10_000, 500, 20, 7
SHOWN = 50
PINGS = 1_000


async def median_ms(work: Callable[[], Awaitable[object]], *, rounds: int = ROUNDS) -> float:
    """Return the median time of one go."""
    times: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        await work()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


async def park(run: Run, count: int) -> None:
    """Park so many calls, a few in each turn."""
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        tickets = await asyncio.gather(*(run.dispatch(_request(number)) for number in numbers))
        assert all(ticket.state == "awaiting_approval" for ticket in tickets)


def _request(number: int) -> CallRequest:
    arguments: dict[str, JsonValue] = {"text": f"call {number}"}
    return CallRequest(id=f"c{number}", name="demo.ask", arguments=arguments, turn=number // 8)


async def list_as_the_command(approvals: Approvals) -> int:
    """Do what `toolrail approvals list` does once it is connected; return the lines."""
    page = await approvals.pending(limit=SHOWN)
    short = ShortIds(await approvals.ids())
    lines = [
        line
        for record in page.records
        for line in list_lines(
            record, short.of(record.approval_id), id_width=8, now_ms=page.now_ms, width=100
        )
    ]
    return len(lines)


def command_ms(env: Mapping[str, str], *words: str) -> float:
    """Return the median time of a whole command, its process included."""
    times: list[float] = []
    for _ in range(STARTS):
        start = time.perf_counter()
        subprocess.run([TOOLRAIL, *words], env=dict(env), check=True, capture_output=True)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


async def main(waiting: int = WAITING) -> None:
    """Print the medians in milliseconds."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedRedis(Path(folder) / "redis") as server:
        settings = Settings(
            redis_url=server.url,
            secret=SecretStr("a secret for benches only"),
            policy_dir=write_policy(Path(folder) / "policy"),
        )
        async with open_cell(settings) as cell:
            run = await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)
            env = {**own_environment(), **settings.to_env()}
            empty = command_ms(env, "approvals", "list")
            await park(run, waiting)
            approvals, redis = cell.rail.approvals, cell.bench.redis
            assert (await approvals.pending(limit=1)).total == waiting
            rows = {
                f"{PINGS} PINGs, one by one": await median_ms(
                    lambda: _ping(redis_ping=lambda: command(redis, "PING")), rounds=5
                ),
                f"first page of {SHOWN}": await median_ms(lambda: approvals.pending(limit=SHOWN)),
                f"last page of {SHOWN}": await median_ms(
                    lambda: approvals.pending(offset=waiting - SHOWN, limit=SHOWN)
                ),
                "page of 1000": await median_ms(lambda: approvals.pending(limit=1000)),
                "ids of all": await median_ms(approvals.ids),
                "what the list command does": await median_ms(
                    lambda: list_as_the_command(approvals)
                ),
                "whole command, nothing waits": empty,
                "whole command": command_ms(env, "approvals", "list"),
            }
    sys.stdout.write(f"{waiting} calls wait for a person; medians\n")
    for name, ms in rows.items():
        sys.stdout.write(f"{name:30} {ms:8.1f} ms\n")


async def _ping(redis_ping: Callable[[], Awaitable[object]]) -> None:
    for _ in range(PINGS):
        await redis_ping()


if __name__ == "__main__":
    asyncio.run(main())
