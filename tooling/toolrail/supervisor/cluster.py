"""Run a whole Toolrail cluster on this machine: Redis, then workers and the exporter.

Is: which processes make a cluster, their settings, secret and state file. Is not: how processes
are kept (`supervisor.py`), nor how Redis is found and started (`toolrail.embedded`).
Above: `toolrail up`, `toolrail.testing`, the demo. Below: `supervisor.py`, `state.py`.
"""

import asyncio
import os
import secrets
import sys
import time
from collections.abc import Mapping
from types import MappingProxyType

from pydantic import SecretStr

from toolrail.embedded import EmbeddedRedis
from toolrail.errors import ToolrailError
from toolrail.redaction import know
from toolrail.redis_io import check_version, connect
from toolrail.settings import Settings, own_environment, variable_of
from toolrail.supervisor.console import LineSink
from toolrail.supervisor.spec import ChildSpec, ReadyLine, RestartBudget, RestartPolicy, Stage
from toolrail.supervisor.state import SHARED, ChildEntry, ClusterState, StateFolder
from toolrail.supervisor.supervisor import ChildStatus, Supervisor

SOURCES = ("builtin", "mcp", "extension")
ONE_OF_EACH: Mapping[str, int] = MappingProxyType(dict.fromkeys(SOURCES, 1))
_REDIS = "redis"
EXPORTER = "exporter"
_REDIS_CHECK_S = 2.0
_EXPORTER_STOP_S = 5.0
_STOP_MARGIN_S = 20.0
"""What a worker may need beyond its drain to close servers and sessions."""


class LocalCluster:
    """Redis and workers of one folder, from `start` to `stop`.

    Redis is our own embedded server unless the settings name one. It is started again after a
    crash with its data; workers reconnect by themselves.
    """

    def __init__(
        self,
        settings: Settings,
        sink: LineSink,
        *,
        scale: Mapping[str, int] = ONE_OF_EACH,
        exports: bool = False,
    ) -> None:
        """Describe the cluster; nothing is started yet.

        Args:
            settings: Of the cluster and its clients.
            sink: Takes what its processes print.
            scale: Workers per source; a source that is left out has none.
            exports: Show the totals to Prometheus, in one more process.
        """
        self.settings = settings
        """Completed by `start` with the Redis URL and the secret of this cluster."""
        self.start_failed = False
        """Whether `start` is about to raise: it stops what it has started first."""
        self._sink = sink
        self._scale = scale
        self._exports = exports
        self._folder = StateFolder(settings.state_dir)
        self._redis: EmbeddedRedis | None = None
        self._redis_pid: int | None = None
        self._redis_task: asyncio.Task[None] | None = None
        self.supervisor = Supervisor(sink, on_change=self._write_state)

    async def start(self) -> Settings:
        """Start everything; return, once all is ready, the settings a client needs.

        Raises:
            ClusterRunning: A cluster is up in this folder.
            ClusterStartFailed: A worker never became ready.
            RedisError: No usable Redis.
        """
        self._folder.lock()
        try:
            self._complete_secret()
            await self._start_redis()
            await self.supervisor.start([*self._workers(), *self._exporters()])
            self._write_state()
        except BaseException:
            self.start_failed = True
            await self.stop()
            raise
        return self.settings

    @property
    def metrics_address(self) -> str:
        """`host:port` of the totals' /metrics; empty while nobody shows them."""
        return self.supervisor.status(EXPORTER).address if self._exports else ""

    async def add(self, spec: ChildSpec) -> None:
        """Start one more child, such as an extension, and return when it is ready."""
        await self.supervisor.start([spec])

    def environment(self) -> dict[str, str]:
        """Return the environment of a child that is to find this cluster."""
        return own_environment() | self.settings.to_env()

    async def wait_stop_asked(self) -> None:
        """Return when a stop was asked for, by a signal or because Redis was given up."""
        await self.supervisor.wait_stop_asked()

    async def stop(self) -> None:
        """Stop extensions, then workers with their drain, then Redis; may be called twice."""
        try:
            await self.supervisor.stop()
            if self._redis_task is not None:
                self._redis_task.cancel()
                await asyncio.wait({self._redis_task})
            if self._redis is not None:
                await self._redis.stop_async()
        finally:
            self._folder.release()

    def _complete_secret(self) -> None:
        if self.settings.secret is None:
            file = self._folder.secret_file()
            secret = SecretStr(file.read_text(encoding="utf-8").strip())
            update = {"secret": secret, "secret_file": file}
            self.settings = self.settings.model_copy(update=update)
        know(self.settings.secrets())

    async def _start_redis(self) -> None:
        if "redis_url" in self.settings.model_fields_set:
            await self._check_given_redis()
            return
        self._redis = EmbeddedRedis(
            self._folder.directory / _REDIS,
            # A port on loopback is open to every user of this machine.
            password=secrets.token_hex(16),
        )
        url = await self._redis.start_async()
        self._redis_pid = self._redis.pid
        self.settings = self.settings.model_copy(update={"redis_url": url})
        know(self.settings.secrets())
        self._sink.event(_REDIS, f"ready ({self._redis.version}, pid {self._redis.pid})")
        self._redis_task = asyncio.create_task(self._keep_redis(self._redis), name="keep redis")

    async def _check_given_redis(self) -> None:
        redis = connect(
            self.settings.redis_url, timeout_s=self.settings.redis_timeout_s, name="toolrail-up"
        )
        try:
            version = await check_version(redis, deadline_s=_REDIS_CHECK_S)
        finally:
            await redis.aclose()
        self._sink.event(_REDIS, f"using the given server ({version})")

    async def _keep_redis(self, redis: EmbeddedRedis) -> None:
        """Start the embedded server again whenever it ends by itself."""
        budget = RestartBudget(RestartPolicy())
        while True:
            await process_end(redis.pid)
            delay_s = budget.next_delay_s(time.monotonic())
            if delay_s is None:
                break
            self._sink.event(_REDIS, f"ended; starting it again in {delay_s:g} s", is_problem=True)
            await asyncio.sleep(delay_s)
            try:
                await redis.stop_async()
                await redis.start_async()
            except ToolrailError as error:
                self._sink.event(_REDIS, str(error), is_problem=True)
                break
            self._redis_pid = redis.pid
            self._write_state()
            self._sink.event(_REDIS, f"ready (pid {redis.pid})")
        self._sink.event(_REDIS, "given up; the cluster stops", is_problem=True)
        self.supervisor.ask_stop()

    def _workers(self) -> list[ChildSpec]:
        return [
            self._worker(source, number)
            for source, count in self._scale.items()
            for number in range(1, count + 1)
        ]

    def _worker(self, source: str, number: int) -> ChildSpec:
        name = f"{source}.{number}"
        return ChildSpec(
            name=name,
            argv=(sys.executable, "-m", "toolrail", "worker", source, "--name", name),
            # Many on one machine: each takes a free port and tells which.
            env=self.environment() | {variable_of("metrics_port"): "0"},
            stage=Stage.WORKER,
            source=source,
            readiness=ReadyLine(),
            stop_grace_s=self.settings.drain_s + _STOP_MARGIN_S,
        )

    def _exporters(self) -> list[ChildSpec]:
        if not self._exports:
            return []
        port = self.settings.metrics_port or 0
        return [
            ChildSpec(
                name=EXPORTER,
                argv=(sys.executable, "-m", "toolrail", "exporter", "--port", str(port)),
                env=self.environment(),
                readiness=ReadyLine(),
                stop_grace_s=_EXPORTER_STOP_S,
            )
        ]

    def _write_state(self) -> None:
        variables = self.settings.to_env()
        shared = {
            name: variables[variable_of(name)] for name in SHARED if variable_of(name) in variables
        }
        children = [_entry(status) for status in self.supervisor.statuses()]
        if self._redis is not None:
            children.insert(0, ChildEntry(name=_REDIS, source=None, pid=self._redis_pid))
        state = ClusterState(supervisor_pid=os.getpid(), settings=shared, children=tuple(children))
        self._folder.write(state)


async def process_end(pid: int) -> None:
    """Return when the process has ended; never on systems that cannot tell (not Linux)."""
    if sys.platform != "linux":
        await asyncio.Event().wait()
        return
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watch, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(watch)
        os.close(watch)


def _entry(status: ChildStatus) -> ChildEntry:
    return ChildEntry(
        name=status.spec.name,
        source=status.spec.source,
        pid=status.pid,
        address=status.address,
    )
