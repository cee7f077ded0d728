"""The embedded server: how it is found, started, kept and ended.

Is: real processes. Is not: what the ledger does with them.
Above: nothing. Below: `toolrail.embedded`.
"""

import asyncio
import platform
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import psutil
import pytest
import redis

from tests.promises import promise
from tests.servers import StartRedis, redis_program
from tests.waiting import wait_until
from toolrail.embedded import EmbeddedRedis, find_program, find_wheel_program
from toolrail.errors import RedisNotFound, RedisStartFailed


@pytest.fixture
def program(redis_kind: str) -> Path:
    """Return each kind of server program in turn."""
    return redis_program(redis_kind)


def config_of(url: str, name: str) -> str:
    """Read one configuration value from the running server."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        return str(client.config_get(name)[name])


def listens(port: int) -> bool:
    """Return whether somebody takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_started_server_never_evicts_and_listens_on_loopback_only(
    program: Path, tmp_path: Path
) -> None:
    """The configuration is ours, not the distribution's."""
    with EmbeddedRedis(tmp_path, program=program) as server:
        url = server.url

        assert config_of(url, "maxmemory-policy") == "noeviction"
        assert config_of(url, "bind") == "127.0.0.1"
        assert config_of(url, "appendonly") == "yes"
        assert config_of(url, "dir") == str(tmp_path)
        assert server.version is not None
        assert server.version.redis_version >= (7, 0)


async def test_it_starts_and_stops_from_an_event_loop(program: Path, tmp_path: Path) -> None:
    """The server outlives the helper thread that waited for it."""
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(1)
    loop.set_default_executor(pool)
    async with EmbeddedRedis(tmp_path, program=program) as server:
        pool.shutdown()
        loop.set_default_executor(ThreadPoolExecutor(1))
        process = psutil.Process(server.pid)

        assert redis.Redis.from_url(server.url).ping()

    assert not process.is_running()


def test_data_survives_a_crash_and_a_restart_on_the_same_port(
    start_redis: StartRedis,
) -> None:
    """An acknowledged write is there after SIGKILL, and clients find it where it was."""
    server = start_redis(append_only=True, options={"appendfsync": "always"})
    url = server.url
    with redis.Redis.from_url(url) as client:
        client.set("kept", "yes")

    server.kill()

    assert server.start() == url
    with redis.Redis.from_url(url) as client:
        assert client.get("kept") == b"yes"


def test_a_password_with_special_characters_is_asked_for(program: Path, tmp_path: Path) -> None:
    """Other users of the machine cannot reach the port without it; the file is private."""
    password = 'p"\\@:/ ß'
    with EmbeddedRedis(tmp_path, program=program, password=password) as server:
        with pytest.raises(redis.AuthenticationError):
            redis.Redis.from_url(server.url.replace(quote(password, safe=""), "wrong")).ping()

        assert redis.Redis.from_url(server.url).ping()
        assert (tmp_path / "server.conf").stat().st_mode & 0o077 == 0


def test_it_listens_on_a_unix_socket_instead_of_a_port(program: Path, tmp_path: Path) -> None:
    """No port is opened at all."""
    with EmbeddedRedis(tmp_path, program=program, unix_socket=tmp_path / "s.sock") as server:
        assert redis.Redis.from_url(server.url).ping()
        assert config_of(server.url, "port") == "0"


def test_a_socket_path_that_linux_cannot_hold_is_refused(program: Path, tmp_path: Path) -> None:
    """The server itself would cut the path and listen elsewhere."""
    server = EmbeddedRedis(tmp_path, program=program, unix_socket=tmp_path / ("x" * 108))

    with pytest.raises(RedisStartFailed, match=r"too long\. Use a shorter folder"):
        server.start()


def test_two_servers_never_share_a_folder(program: Path, tmp_path: Path) -> None:
    """Their append-only files would destroy each other."""
    second = EmbeddedRedis(tmp_path, program=program)

    with (
        EmbeddedRedis(tmp_path, program=program),
        pytest.raises(RedisStartFailed, match="Another server uses"),
    ):
        second.start()


def test_a_taken_port_is_refused_with_the_servers_last_words(program: Path, tmp_path: Path) -> None:
    """A port that was asked for is never silently replaced."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RedisStartFailed, match="Address already in use"):
            EmbeddedRedis(tmp_path, program=program, port=port).start()


def test_a_wrong_option_is_refused_with_the_servers_last_words(
    program: Path, tmp_path: Path
) -> None:
    """The operator sees what the server said, not only that it ended."""
    with pytest.raises(RedisStartFailed, match="no-such-option"):
        EmbeddedRedis(tmp_path, program=program, options={"no-such-option": "1"}).start()


@promise("redis.embedded-leaves-nothing")
def test_the_server_ends_when_its_parent_is_killed(program: Path, tmp_path: Path) -> None:
    """A killed `toolrail up` leaves nothing behind."""
    script = (
        "import sys, pathlib; from toolrail.embedded import EmbeddedRedis\n"
        "server = EmbeddedRedis(pathlib.Path(sys.argv[1]), program=pathlib.Path(sys.argv[2]))\n"
        "server.start(); print(server.port, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, tmp_path, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)

    wait_until(lambda: not listens(port), "the orphaned server ends")


def test_path_comes_before_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's own server wins, Valkey before Redis; the wheel is the last resort."""
    monkeypatch.setenv("PATH", str(tmp_path))
    wheel = find_wheel_program()

    assert find_program() == wheel
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).touch(mode=0o755)

        assert find_program() == tmp_path / name


def test_without_any_server_the_error_has_three_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL, a package of the system, a wheel."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "vax")

    with pytest.raises(RedisNotFound) as caught:
        find_program()

    for way in ("TOOLRAIL_REDIS_URL", "apt-get install redis-server", "toolrail[embedded]"):
        assert way in str(caught.value)
