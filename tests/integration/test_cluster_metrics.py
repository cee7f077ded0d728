"""The metrics of real worker processes, found as Prometheus finds them."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
from pathlib import Path
from typing import cast

import pytest

from tests.exposed import check_series, exposed, scrape, value
from tests.servers import StartRedis
from tests.waiting import await_until, wait_until
from toolrail.settings import Settings, own_environment
from toolrail.supervisor.state import TARGETS_FILE
from toolrail.testing import Cluster

BOUND_S = 60.0

pytestmark = pytest.mark.one_redis


def targets(directory: Path, job: str) -> list[str]:
    """Return the addresses of a job in the cluster's target file."""
    text = (directory / "state" / TARGETS_FILE).read_text(encoding="utf-8")
    groups = cast("list[dict[str, object]]", json.loads(text))
    found = [group for group in groups if group["labels"] == {"job": job}]
    return [address for group in found for address in cast("list[str]", group["targets"])]


async def test_prometheus_finds_every_worker_also_a_restarted_one(
    settings: Settings, tmp_path: Path
) -> None:
    """The file names the processes that are there; each shows what it ran."""
    async with (
        Cluster(tmp_path, settings=settings, scale={"builtin": 2}) as cluster,
        cluster.client() as rail,
    ):
        run = await rail.open_run(profile="assistant")
        for number in range(4):
            await run.call("workspace.list_files", {}, id=f"c{number}", timeout_s=BOUND_S)
        before = targets(tmp_path, "toolrail-workers")
        name = "toolrail_worker_calls_total"

        def are_counted() -> bool:
            # A caller may have its result before the worker has counted it.
            return sum(value(exposed(scrape(a)), name, outcome="ok") for a in before) == 4

        await await_until(are_counted, "all calls are counted")
        shown = [exposed(scrape(address)) for address in before]
        cluster.kill_worker("builtin.1")
        await cluster.wait_ready("builtin.1", starts=2)

        async def is_listed() -> bool:
            now = targets(tmp_path, "toolrail-workers")
            return len(now) == 2 and set(now) != set(before)

        await await_until(is_listed, "the new process is a target", timeout_s=BOUND_S)
        answers = [scrape(address, "/readyz") for address in targets(tmp_path, "toolrail-workers")]

    assert len(before) == 2
    for samples in shown:
        check_series(samples)
        assert value(samples, "toolrail_worker_slots") == settings.slots
    assert answers == ["ready\n", "ready\n"]
    assert not (tmp_path / "state" / TARGETS_FILE).exists(), "the cluster is gone"


@pytest.fixture
def port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def answer(address: str) -> str | None:
    """Return what `/readyz` says, None when nobody answers."""
    try:
        return scrape(address, "/readyz")
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()
    except OSError:
        return None


def test_a_worker_that_waits_for_redis_is_alive_and_not_ready(
    settings: Settings, port: int, start_redis: StartRedis
) -> None:
    """Whoever restarts what does not answer leaves it waiting; it is ready when Redis is there."""
    server = start_redis()
    own = settings.model_copy(update={"redis_url": server.url, "metrics_port": port})
    server.kill()
    address = f"127.0.0.1:{port}"
    process = subprocess.Popen(
        [sys.executable, "-m", "toolrail", "worker", "builtin"],
        env=own_environment() | own.to_env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        waiting = "The worker waits for Redis.\n"
        wait_until(lambda: answer(address) == waiting, "it waits and says so", timeout_s=BOUND_S)
        alive = scrape(address, "/healthz")
        server.start()
        wait_until(lambda: answer(address) == "ready\n", "it is ready", timeout_s=BOUND_S)
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    finally:
        process.kill()
        process.wait()

    assert alive == "alive\n"
    assert code == 0
