"""A real cluster for a test: Redis, workers, and ways to hurt them.

Is: the supervisor of `toolrail up` with handles for kill, pause and wait. Is not: a double; every
process is the one that production runs.
Above: integration and chaos tests, the demo. Below: `toolrail.supervisor`, `toolrail.client`.
"""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from toolrail.client import Toolrail
from toolrail.settings import Settings
from toolrail.supervisor.cluster import ONE_OF_EACH, LocalCluster
from toolrail.supervisor.console import KeepingSink, LineSink
from toolrail.supervisor.spec import ChildSpec, ChildState

_BOUND_S = 60.0
"""Longest wait for a worker; a slow machine starts several Pythons in it."""


class Cluster:
    """Redis and workers of one folder, up inside `async with`.

    Settings that name no Redis get an embedded server. What the processes print is kept: see
    `lines` when a test fails.
    """

    def __init__(
        self,
        directory: Path,
        *,
        settings: Settings | None = None,
        scale: Mapping[str, int] = ONE_OF_EACH,
        onward: LineSink | None = None,
        exports: bool = False,
    ) -> None:
        """Describe the cluster; nothing is started yet.

        Args:
            directory: Holds its state and workspaces, unless the settings say otherwise.
            settings: Of cluster and clients alike.
            scale: Workers per source; a source that is left out has none.
            onward: Also gets every line as it comes, such as a terminal.
            exports: Show the totals to Prometheus, as `toolrail up` does; see `metrics_url`.
        """
        given = Settings() if settings is None else settings
        places = {"state_dir": directory / "state", "workspace_root": directory / "workspaces"}
        missing = {
            name: path for name, path in places.items() if name not in given.model_fields_set
        }
        self._sink = KeepingSink(onward=onward)
        self._local = LocalCluster(
            given.model_copy(update=missing), self._sink, scale=scale, exports=exports
        )

    @property
    def settings(self) -> Settings:
        """What a client needs to reach this cluster; complete once it is up."""
        return self._local.settings

    @property
    def metrics_url(self) -> str:
        """Where the totals are shown, of a cluster that `exports`."""
        return f"http://{self._local.metrics_address}/metrics"

    async def __aenter__(self) -> Self:
        """Start everything; the cluster is ready afterwards."""
        await self._local.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop in order, with the workers' drain; leave no process behind."""
        await self._local.stop()

    def client(self) -> Toolrail:
        """Return a client of this cluster, to be entered with `async with`."""
        return Toolrail(self.settings)

    def workers(self, source: str | None = None) -> list[str]:
        """Return the names of the workers, such as `mcp.1`, of one source or of all."""
        return [
            status.spec.name
            for status in self._local.supervisor.statuses()
            if status.spec.source is not None and source in (None, status.spec.source)
        ]

    def pid(self, name: str) -> int:
        """Return the process id of a child that runs now."""
        pid = self._local.supervisor.status(name).pid
        if pid is None:
            raise ProcessLookupError(f"{name} is not running")
        return pid

    def name_of(self, pid: int) -> str | None:
        """Return the child that runs now under a process id, None when there is none."""
        statuses = self._local.supervisor.statuses()
        return next((status.spec.name for status in statuses if status.pid == pid), None)

    def kill_worker(self, name: str) -> int:
        """SIGKILL a worker and its process group; return the killed pid.

        Args:
            name: Of the worker, or a source, which stands for its first worker.
        """
        workers = self.workers(name)
        return self._local.supervisor.kill_child(workers[0] if workers else name)

    def pause_worker(self, name: str) -> None:
        """SIGSTOP a worker: it holds its calls and renews no lease."""
        os.kill(self.pid(name), signal.SIGSTOP)

    def resume_worker(self, name: str) -> None:
        """SIGCONT a paused worker, which then believes that it still owns its calls."""
        os.kill(self.pid(name), signal.SIGCONT)

    async def stop_worker(self, name: str) -> int | None:
        """Drain and end a worker for good, as SIGTERM does; return its exit code."""
        await self._local.supervisor.stop_child(name)
        return self._local.supervisor.status(name).exit_code

    async def wait_ready(self, name: str, *, starts: int = 1) -> None:
        """Return when a child is ready, after at least so many starts."""

        def is_back() -> bool:
            status = self._local.supervisor.status(name)
            return status.state is ChildState.READY and status.starts >= starts

        async with asyncio.timeout(_BOUND_S):
            await self._local.supervisor.wait_for(is_back)

    def starts(self, name: str) -> int:
        """Return how often a child was started."""
        return self._local.supervisor.status(name).starts

    async def add(self, spec: ChildSpec) -> None:
        """Start one more child, such as an extension; return when it is ready."""
        await self._local.add(spec)

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that is to find this cluster by itself."""
        return self._local.environment()

    def lines(self, name: str | None = None) -> list[str]:
        """Return what a child, or all, printed so far."""
        return self._sink.lines(name)

    def events(self, name: str | None = None) -> list[str]:
        """Return what the supervisor said about a child, or all."""
        return self._sink.events(name)

    def ask_stop(self) -> None:
        """Do what a first SIGTERM does, and a second one: see `Supervisor.ask_stop`."""
        self._local.supervisor.ask_stop()

    async def wait_stop_asked(self) -> None:
        """Return when a stop was asked for."""
        await self._local.wait_stop_asked()
