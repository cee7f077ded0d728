"""Real workers that are told to claim no more, under load and across a restart of Redis.

Is: the order from Redis to Celery's consumer and back, in the processes that production runs. Is
not: each part of it (`test_duty.py`, `test_pool_pause.py`).
Above: pytest. Below: `toolrail.testing`, `toolrail.fleet`.
"""

import os
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.promises import promise
from tests.waiting import await_until
from toolrail.fleet import Fleet, WorkerRecord
from toolrail.redis_io import connect
from toolrail.request import CallRequest
from toolrail.run import Run
from toolrail.settings import Settings
from toolrail.supervisor.state import find_cluster
from toolrail.testing import Cluster
from toolrail_schemas import EventType, JournalEvent

BOUND_S = 60.0
CALLS = 150

pytestmark = pytest.mark.one_redis


def quick(settings: Settings) -> Settings:
    """Return settings with countable tools, small workers and rare rounds."""
    return settings.model_copy(
        update={
            "tool_modules": ("tests.chaos.effect_tools",),
            "slots": 8,
            "lease_s": 10.0,
            "renew_s": 1.0,
            "loop_lag_limit_s": 8.0,
            "drain_s": 20.0,
        }
    )


@asynccontextmanager
async def fleet_of(cluster: Cluster) -> AsyncGenerator[Fleet]:
    """Give the cluster's fleet."""
    settings = cluster.settings
    redis = connect(settings.redis_url, timeout_s=2.0, name="test")
    try:
        yield Fleet(redis, prefix=settings.key_prefix, deadline_s=30.0)
    finally:
        await redis.aclose()


async def record_of(fleet: Fleet, cluster: Cluster, name: str) -> WorkerRecord:
    """Return the record of a child of the cluster."""
    (record,) = [each for each in await fleet.workers() if each.pid == cluster.pid(name)]
    return record


async def wait_idle(fleet: Fleet, cluster: Cluster, name: str) -> None:
    """Return when the worker says that it drains and runs nothing."""

    async def is_idle() -> bool:
        record = await record_of(fleet, cluster, name)
        return record.draining and record.busy == 0

    await await_until(is_idle, f"{name} is drained", timeout_s=BOUND_S)


async def wait_on_duty(fleet: Fleet, cluster: Cluster, name: str) -> None:
    """Return when the worker says that it claims."""

    async def is_back() -> bool:
        return not (await record_of(fleet, cluster, name)).draining

    await await_until(is_back, f"{name} is back on duty", timeout_s=BOUND_S)


def append(number: int, file: Path) -> CallRequest:
    """Return a call whose effect is one line, and must not happen twice."""
    arguments = {"file": str(file), "line": f"line {number}"}
    # A turn has a budget of its own.
    turn = number // 10
    return CallRequest(id=f"c{number}", name="effects.append", arguments=arguments, turn=turn)


async def starters(run: Run) -> dict[str, str]:
    """Return the worker of each call that was started, by call id; none is started twice."""
    events: list[JournalEvent] = []
    after = 0
    while batch := await run.journal(after_seq=after):
        events += [event for event in batch if isinstance(event, JournalEvent)]
        after = batch[-1].seq
    started = [event for event in events if event.type is EventType.TOOL_CALL_STARTED]
    ids = Counter(str(event.payload["call_id"]) for event in started)
    assert not [call_id for call_id, times in ids.items() if times > 1]
    return {str(event.payload["call_id"]): str(event.payload["worker"]) for event in started}


@promise("worker.drained-loses-nothing")
async def test_a_drain_under_load_loses_nothing_and_doubles_nothing(
    settings: Settings, tmp_path: Path
) -> None:
    """Workers are drained one after the other while calls come in; each has its effect once."""
    file = tmp_path / "effects"
    file.touch()
    async with (
        Cluster(tmp_path, settings=quick(settings), scale={"builtin": 2}) as cluster,
        fleet_of(cluster) as fleet,
        cluster.client() as rail,
    ):
        run = await rail.open_run(profile="assistant")
        tickets = [await run.dispatch(append(number, file)) for number in range(CALLS)]
        first, second = [await record_of(fleet, cluster, f"builtin.{n}") for n in (1, 2)]
        await fleet.ask_drain(first.worker)
        await wait_idle(fleet, cluster, "builtin.1")
        while_drained = await run.dispatch(append(CALLS, file))
        await run.wait(while_drained, timeout_s=BOUND_S)
        await fleet.undo_drain(first.worker)
        await wait_on_duty(fleet, cluster, "builtin.1")
        await fleet.ask_drain(second.worker)
        await wait_idle(fleet, cluster, "builtin.2")
        last = await run.dispatch(append(CALLS + 1, file))
        results = [
            await run.wait(ticket, timeout_s=BOUND_S) for ticket in (*tickets, while_drained, last)
        ]
        by_call = await starters(run)
        code = await cluster.stop_worker("builtin.2")

    lines = Counter(file.read_text(encoding="utf-8").splitlines())
    assert lines == Counter(f"line {number}" for number in range(CALLS + 2))
    assert not [result for result in results if result.is_error]
    assert set(by_call.values()) == {first.worker, second.worker}
    assert by_call[f"c{CALLS}"] == second.worker
    assert by_call[f"c{CALLS + 1}"] == first.worker
    assert code == 0, "a drained worker ends like any other"


async def test_a_drain_that_is_asked_for_while_redis_restarts_is_seen(tmp_path: Path) -> None:
    """The order is written when Redis is back, and the worker finds it there."""
    file = tmp_path / "effects"
    file.touch()
    own = quick(Settings()).model_copy(update={"redis_timeout_s": 2.0})
    async with (
        Cluster(tmp_path, settings=own, scale={"builtin": 1}) as cluster,
        fleet_of(cluster) as fleet,
        cluster.client() as rail,
    ):
        run = await rail.open_run(profile="assistant")
        worker = (await record_of(fleet, cluster, "builtin.1")).worker
        kill_redis(tmp_path)
        await fleet.ask_drain(worker)
        await wait_idle(fleet, cluster, "builtin.1")
        ticket = await run.dispatch(append(0, file))
        await fleet.undo_drain(worker)
        result = await run.wait(ticket, timeout_s=BOUND_S)
        starts = cluster.starts("builtin.1")

    assert not result.is_error
    assert file.read_text(encoding="utf-8") == "line 0\n"
    assert starts == 1, "the worker went through the outage"


def kill_redis(directory: Path) -> None:
    """End the cluster's own Redis, which its supervisor starts again."""
    state = find_cluster(directory / "state")
    assert state is not None
    (pid,) = [child.pid for child in state.children if child.name == "redis"]
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
