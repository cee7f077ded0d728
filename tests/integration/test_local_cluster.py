"""The cluster of one folder with a real Redis: it starts, survives a crash, and is found.

Is: `LocalCluster` without workers. Is not: calls (the other tests of this folder).
Above: nothing. Below: `toolrail.supervisor`, `toolrail.cli`.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
import redis.asyncio
from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.servers import absent
from tests.waiting import await_until
from toolrail.embedded import find_program
from toolrail.errors import ClusterRunning, RedisNotFound, RedisUnavailable
from toolrail.settings import Settings
from toolrail.supervisor.cluster import LocalCluster
from toolrail.supervisor.console import KeepingSink
from toolrail.supervisor.state import find_cluster, with_cluster

NO_WORKERS = {"builtin": 0, "mcp": 0, "extension": 0}


@pytest.fixture
def sink() -> KeepingSink:
    return KeepingSink()


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, sink: KeepingSink) -> AsyncIterator[LocalCluster]:
    """A running cluster without workers, on an embedded server."""
    try:
        find_program()
    except RedisNotFound:
        absent("apt-get install redis-server")
    cluster = LocalCluster(Settings(state_dir=tmp_path / "state"), sink, scale=NO_WORKERS)
    await cluster.start()
    yield cluster
    await cluster.stop()


async def ping(url: str) -> bool:
    """Say whether a server answers."""
    async with redis.asyncio.Redis.from_url(url) as client:
        try:
            return bool(await client.ping())
        except (RedisConnectionError, AuthenticationError):
            return False


async def test_a_client_in_the_folder_finds_the_cluster(cluster: LocalCluster) -> None:
    """The state file is enough to reach Redis with its password and to sign doorbells."""
    state = find_cluster(cluster.settings.state_dir)
    assert state is not None
    client = with_cluster(Settings(state_dir=cluster.settings.state_dir), state)

    assert await ping(client.redis_url)
    assert client.require_secret() == cluster.settings.require_secret()
    assert not await ping(f"redis://127.0.0.1:{urlsplit(client.redis_url).port}/0")


async def test_redis_comes_back_after_a_crash_with_its_data(
    cluster: LocalCluster, sink: KeepingSink
) -> None:
    """The URL stays, so that workers and clients only have to reconnect."""
    url = cluster.settings.redis_url
    async with redis.asyncio.Redis.from_url(url) as client:
        await client.set("kept", "yes")
        pid = int((await client.info("server"))["process_id"])
    os.kill(pid, signal.SIGKILL)
    await await_until(lambda: len(sink.events("redis")) >= 3, "the second start", timeout_s=20)
    async with redis.asyncio.Redis.from_url(url) as client:
        kept = await client.get("kept")
    state = find_cluster(cluster.settings.state_dir)

    assert kept == b"yes"
    assert state is not None
    assert state.children[0].pid not in (None, pid)


async def test_a_second_cluster_in_the_folder_is_refused(
    cluster: LocalCluster, sink: KeepingSink
) -> None:
    """And the first one is left alone."""
    second = LocalCluster(Settings(state_dir=cluster.settings.state_dir), sink, scale=NO_WORKERS)
    with pytest.raises(ClusterRunning):
        await second.start()

    assert await ping(cluster.settings.redis_url)


async def test_after_stop_nothing_is_left(cluster: LocalCluster) -> None:
    """No server, no state file; a second stop changes nothing."""
    await cluster.stop()
    await cluster.stop()

    assert not await ping(cluster.settings.redis_url)
    assert find_cluster(cluster.settings.state_dir) is None


async def test_a_given_redis_that_is_down_is_told_at_once(
    tmp_path: Path, sink: KeepingSink
) -> None:
    """No embedded server is started behind the back of a given URL."""
    settings = Settings(state_dir=tmp_path / "state", redis_url="redis://127.0.0.1:1/0")
    with pytest.raises(RedisUnavailable):
        async with asyncio.timeout(20):
            await LocalCluster(settings, sink, scale=NO_WORKERS).start()

    assert find_cluster(settings.state_dir) is None
