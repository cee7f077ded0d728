"""`toolrail worker` as a process: waiting for Redis, readiness, exit codes.

Is: what stands around Celery. Is not: the pool (`test_pool.py`) or the calls it runs.
Above: nothing. Below: `python -m toolrail worker`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import SecretStr

from tests.servers import StartRedis
from tests.waiting import await_until
from toolrail import exit_codes
from toolrail.settings import Settings, own_environment
from toolrail.supervisor.console import KeepingSink
from toolrail.supervisor.spec import ChildSpec, ChildState, RestartPolicy
from toolrail.supervisor.supervisor import ChildNeverReady, Supervisor

BOUND_S = 30.0
ONCE = RestartPolicy(max_restarts=0)


@pytest.fixture
def sink() -> KeepingSink:
    return KeepingSink()


@pytest_asyncio.fixture
async def supervisor(sink: KeepingSink) -> AsyncIterator[Supervisor]:
    """A supervisor whose children are gone after the test."""
    supervisor = Supervisor(sink)
    yield supervisor
    supervisor.ask_stop()
    supervisor.ask_stop()
    await supervisor.stop()


def worker(settings: Settings, *options: str) -> ChildSpec:
    """Return a worker of the builtin queue."""
    return ChildSpec(
        name="w",
        argv=(sys.executable, "-m", "toolrail", *options, "worker", "builtin"),
        env=own_environment() | settings.to_env(),
        restart=ONCE,
        ready_timeout_s=BOUND_S,
    )


@pytest.mark.one_redis
async def test_a_worker_waits_for_redis_and_says_so(
    start_redis: StartRedis, supervisor: Supervisor, sink: KeepingSink, tmp_path: Path
) -> None:
    """It is not ready before Redis is there, and needs nobody's help afterwards."""
    server = start_redis()
    settings = Settings(
        redis_url=server.url, secret=SecretStr("a secret for tests only"), state_dir=tmp_path
    )
    server.stop()
    starting = asyncio.create_task(supervisor.start([worker(settings)]))
    await await_until(
        lambda: any("is not reachable; start it or set" in line for line in sink.lines("w")),
        "the worker to say that Redis is away",
        timeout_s=BOUND_S,
    )
    state_before = supervisor.status("w").state
    await server.start_async()
    async with asyncio.timeout(BOUND_S):
        await starting
    await supervisor.stop()

    assert state_before is ChildState.STARTING
    assert supervisor.status("w").exit_code == exit_codes.OK


async def test_wrong_settings_are_told_and_not_tried_again(
    supervisor: Supervisor, sink: KeepingSink, tmp_path: Path
) -> None:
    """A worker without a secret ends with 78 and says so."""
    with pytest.raises(ChildNeverReady):
        await supervisor.start([worker(Settings(state_dir=tmp_path))])

    assert supervisor.status("w").exit_code == exit_codes.CONFIG
    assert any(line.strip().startswith("There is no secret") for line in sink.lines("w"))
    assert supervisor.status("w").starts == 1


@pytest.mark.one_redis
async def test_a_workers_log_can_be_json(
    settings: Settings, supervisor: Supervisor, sink: KeepingSink
) -> None:
    """Every line is one object, Celery's own included; where metrics are is said once."""
    showing = settings.model_copy(update={"metrics_port": 0})
    await supervisor.start([worker(showing, "--log-format", "json")])
    await supervisor.stop()
    lines = sink.lines("w")

    assert lines
    assert [line for line in lines if not line.startswith('{"ts": ')] == []
    assert sum("metrics.served" in line for line in lines) == 1
