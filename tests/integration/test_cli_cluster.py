"""What an operator types beside real workers: look, drain, undo, and mind what a killed one left.

Is: `queues`, `workers`, `drain` and `dlq` on a cluster. Is not: each of them in depth.
Above: nothing. Below: `toolrail.testing`, `tests/cli.py`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli import Cli
from tests.waiting import await_until
from toolrail.request import CallRequest
from toolrail.run import Run
from toolrail.settings import Settings
from toolrail.testing import Cluster

BOUND_S = 60.0

pytestmark = pytest.mark.one_redis


def wait_for(call_id: str, gate: Path) -> CallRequest:
    """Return a call that ends when the file is there."""
    arguments = {"path": str(gate)}
    return CallRequest(id=call_id, name="cluster.wait_for_file", arguments=arguments)


async def wait_running(run: Run, count: int) -> None:
    """Return when so many calls were started in the run."""

    async def are_running() -> bool:
        kinds = [str(event.type) for event in await run.journal()]
        return kinds.count("tool_call_started") == count

    await await_until(are_running, f"{count} calls to be started", timeout_s=BOUND_S)


@pytest.fixture
async def cluster(settings: Settings, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Give one worker of the build green, with short leases."""
    quick = settings.model_copy(
        update={
            "tool_modules": ("tests.cluster_tools",),
            "lease_s": 2.0,
            "renew_s": 0.5,
            "loop_lag_limit_s": 1.5,
            "reaper_interval_s": 0.2,
            "build": "green",
        }
    )
    async with Cluster(tmp_path, settings=quick, scale={"builtin": 1}) as cluster:
        yield cluster


async def test_an_operator_drains_a_worker_and_finds_what_it_lost(
    cluster: Cluster, cli: Cli, tmp_path: Path
) -> None:
    """A drain waits for what runs, calls wait for the undoing, a killed call becomes a letter."""
    async with cluster.client() as rail:
        await drain_and_undo(await rail.open_run(profile="assistant"), cli, tmp_path / "gate")
        await lose_a_call(await rail.open_run(profile="assistant"), cli, cluster)


async def drain_and_undo(run: Run, cli: Cli, gate: Path) -> None:
    """Drain the worker while it runs a call, and let it claim another one later."""
    first = await run.dispatch(wait_for("c1", gate))
    await wait_running(run, 1)
    late = await cli.within("drain", "--build", "green", "--wait", "--timeout-s", "1")
    second = await run.dispatch(wait_for("c2", gate))
    gate.touch()  # noqa: ASYNC240  # a gate between two processes
    await run.wait(first, timeout_s=BOUND_S)
    drained = await cli.within("drain", "--all", "--wait", "--timeout-s", "30")
    queue = (await cli.within("queues", "--json")).rows()[0]
    undone = await cli.within("drain", "--all", "--undo")
    result = await run.wait(second, timeout_s=BOUND_S)

    assert (late.code, drained.code, undone.code) == (1, 0, 0)
    assert "calls run to their end" in late.out
    assert "is drained" in drained.out
    assert [queue[name] for name in ("queued", "workers", "draining", "slots")] == [1, 1, 1, 0]
    assert not result.is_error


async def lose_a_call(run: Run, cli: Cli, cluster: Cluster) -> None:
    """Kill the worker under a call that may not run twice."""
    lost = await run.dispatch(CallRequest(id="c1", name="cluster.endless_effect"))
    await wait_running(run, 1)
    worker = (await cli.within("workers", "--json")).row()["worker"]
    cluster.kill_worker("builtin.1")
    await run.wait(lost, timeout_s=BOUND_S)
    letter = str((await cli.within("dlq", "list", "--json")).row()["letter_id"])
    refused = await cli.within("dlq", "redrive", letter, "--by", "ann")
    shown = await cli.within("dlq", "show", letter)
    done = await cli.within("dlq", "discard", "--all", "--by", "ann", "--yes")

    assert letter == f"{lost.run_id}.{lost.call_key}"
    assert "its effect may have happened already" in refused.err
    assert f"worker={worker}" in shown.out
    assert (refused.code, done.code) == (1, 0)
