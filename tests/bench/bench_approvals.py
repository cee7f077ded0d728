"""Measure approvals: decision to claim, a list of 10,000, and 200 rounds of fifty deciders.

Is: the limits of approvals as one table, each figure beside a bare round trip of the same run.
Is not: a test; the short race is one. Run: `python -m tests.bench.bench_approvals [rounds]`.
Above: a person. Below: `toolrail.testing`, `tests/chaos/test_approval_races.py`.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from pydantic import SecretStr

from tests.cells import open_cell
from tests.cells import write_policy as write_cell_policy
from tests.chaos.test_approval_races import race
from toolrail import CallRequest, Run, Settings, Toolrail
from toolrail.embedded import EmbeddedRedis
from toolrail.redis_io import command, connect
from toolrail.testing import Cluster
from toolrail_schemas import ApprovalMode, JournalEvent

POLICY = 'allow = ["bench.*"]\nrequire_approval = ["bench.echo"]\n'
PARKED = 10_000
PER_TURN = 16
DECISIONS = 400


def write_policy(folder: Path) -> Path:
    """Write a policy under which every call waits for a person."""
    for name, text in {"platform": "", "source": "", "profiles/bench": POLICY}.items():
        file = folder / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


async def park(rail: Toolrail, count: int) -> Run:
    """Return a run with so many questions."""
    run = await rail.open_run(profile="bench", approval_mode=ApprovalMode.INTERACTIVE)
    for start in range(0, count, 500):
        requests = [
            CallRequest(
                id=f"c{n}", name="bench.echo", arguments={"payload": {"n": n}}, turn=n // PER_TURN
            )
            for n in range(start, min(start + 500, count))
        ]
        await asyncio.gather(*(run.dispatch(request) for request in requests))
    return run


async def decided(rail: Toolrail, run: Run, at_once: int, count: int) -> list[float]:
    """Return the seconds from each decision to its claim, by the journal's clock."""
    page = await rail.approvals.pending(run_id=run.id, limit=count)
    ids = iter([record.approval_id for record in page.records[:count]])
    began: dict[str, float] = {}

    async def approver() -> None:
        for approval_id in ids:
            began[approval_id.partition(".")[2]] = time.time()
            await rail.approvals.approve(approval_id, by="bench")

    await asyncio.gather(*(approver() for _ in range(at_once)))
    took: dict[str, float] = {}
    async with asyncio.timeout(30):
        async for event in run.events():
            if not isinstance(event, JournalEvent) or event.type != "tool_call_started":
                continue
            key = str(event.payload["call_key"])
            if key in began:
                took[key] = datetime.fromisoformat(event.ts).timestamp() - began[key]
            if len(took) == len(began):
                break
    return list(took.values())


def percentile(values: Sequence[float], share: float) -> str:
    """Return one percentile in milliseconds."""
    return f"{sorted(values)[int(len(values) * share)] * 1000:.1f} ms"


async def timed_lists(rail: Toolrail) -> tuple[float, float]:
    """Return the seconds of a page of 100 and of reading all, each the median of five."""
    pages: list[float] = []
    wholes: list[float] = []
    for _ in range(5):
        started = time.perf_counter()
        await rail.approvals.pending(limit=100)
        pages.append(time.perf_counter() - started)
        started = time.perf_counter()
        for offset in range(0, PARKED, 1000):
            await rail.approvals.pending(offset=offset, limit=1000)
        wholes.append(time.perf_counter() - started)
    return statistics.median(pages), statistics.median(wholes)


async def round_trip(url: str) -> float:
    """Return the seconds of one bare round trip, the median of a thousand."""
    redis = connect(url, timeout_s=10, name="bench")
    took: list[float] = []
    for _ in range(1000):
        started = time.perf_counter()
        await command(redis, "PING")
        took.append(time.perf_counter() - started)
    await redis.aclose()
    return statistics.median(took)


async def long_race(folder: Path, rounds: int) -> str:
    """Return who won how often; every round's invariants hold, or this raises."""
    with EmbeddedRedis(folder / "redis", append_only=False) as server:
        settings = Settings(
            redis_url=server.url,
            secret=SecretStr("a secret for the bench"),
            policy_dir=write_cell_policy(folder / "cell"),
            state_dir=folder / "race",
        )
        async with open_cell(settings) as cell:
            wins = await race(cell, rounds=rounds, seed=1)
    return ", ".join(f"{name} {count}" for name, count in sorted(wins.items()))


async def main(rounds: int) -> None:
    """Print one table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = Settings(
            tool_modules=("tests.bench.bench_tools",), policy_dir=write_policy(folder / "p")
        )
        async with (
            Cluster(folder, settings=settings, scale={"builtin": 1}) as cluster,
            cluster.client() as rail,
        ):
            ping = await round_trip(cluster.settings.redis_url)
            run = await park(rail, PARKED)
            page, whole = await timed_lists(rail)
            alone = await decided(rail, run, 1, DECISIONS)
            busy = await decided(rail, run, 16, DECISIONS)
            await run.cancel()
        wins = await long_race(folder, rounds)
    rows = {
        "bare round trip": f"{ping * 1000:.2f} ms",
        f"list, first 100 of {PARKED:,}": f"{page * 1000:.1f} ms = {page / ping:.0f} round trips",
        f"list, all {PARKED:,}": f"{whole * 1000:.0f} ms",
        "decision to claim, one approver, p50": percentile(alone, 0.5),
        "decision to claim, one approver, p95": percentile(alone, 0.95),
        "decision to claim, 16 approvers, p95": percentile(busy, 0.95),
        f"fifty deciders, {rounds} rounds": wins,
    }
    for row, value in rows.items():
        print(f"{row:>40}: {value}")  # the result


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
