"""Hold what one worker counts of itself, and show it.

Is: slots, busy calls, draining, progress, the event loop, outcomes; the server beside the worker
and what it says of readiness. Is not: what MCP servers and extensions add (`mcp/metrics.py`,
`extension/metrics.py`), nor fleet totals, which the ledger counts.
Above: `runtime.py`, `assembly.py`. Below: `toolrail.metrics`, `port.py`, `watchdog.py`.

Everything here is of the worker's own process; isolated children count nothing.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Gauge

from toolrail.ledger import Outcome
from toolrail.metrics import catalogue
from toolrail.metrics.metric import Metric
from toolrail.metrics.process import ProcessMetrics, version_of
from toolrail.metrics.registry import counter, gauge, histogram
from toolrail.metrics.serve import Server, serve_beside
from toolrail.settings import Settings
from toolrail_schemas import Source, queue_of
from toolrail_workers.port import PoolControl
from toolrail_workers.running import Running
from toolrail_workers.watchdog import LagWatch, StallWatch

SILENT_S = 10.0
"""A worker that heard nothing from Redis for so long is not ready; longer if it seldom asks."""


class WorkerMetrics(ProcessMetrics):
    """What a worker adds to `ProcessMetrics`."""

    def __init__(self, sources: Sequence[str], *, build: str = "") -> None:
        """Make the metrics of a worker that serves these queues."""
        super().__init__(build=build, celery=version_of("celery"))
        self._sources = tuple(sources)
        calls = counter(catalogue.WORKER_CALLS, self.registry)
        # Looked up once: it is asked for with every call.
        self._calls = {
            (source, outcome): calls.labels(source, outcome.value)
            for source in self._sources
            for outcome in Outcome
        }
        self._lag = histogram(catalogue.EVENT_LOOP_LAG, self.registry)
        self._server: Server | None = None

    def note_call(self, source: Source, outcome: Outcome) -> None:
        """Count a call that this worker ran to an outcome."""
        child = self._calls.get((queue_of(source), outcome))
        if child is not None:
            child.inc()

    def note_lag(self, seconds: float) -> None:
        """Count how late the event loop came to what was due."""
        self._lag.observe(seconds)

    def watch(
        self,
        control: PoolControl,
        *,
        lag: LagWatch,
        stall: StallWatch,
        is_draining: Callable[[], bool],
        running: Callable[[], Iterable[Running]],
    ) -> None:
        """Show from now on what these say; they are asked on the thread of a scrape."""

        def busy(source: str) -> float:
            # A slot is taken from the doorbell on; only of several queues it is not known which.
            if len(self._sources) == 1:
                return control.stats().busy
            return sum(call.queue == source for call in running())

        def last_progress_at() -> float:
            return time.time() - (time.monotonic() - stall.progress_at)

        self._show(catalogue.WORKER_SLOTS, lambda _: control.stats().slots)
        self._show(catalogue.WORKER_SLOTS_BUSY, busy)
        self._show(catalogue.WORKER_DRAINING, lambda _: is_draining())
        self._show(catalogue.WORKER_LAST_PROGRESS, lambda _: last_progress_at())
        gauge(catalogue.EVENT_LOOP_BLOCKED, self.registry).set_function(lag.behind_s)

    def _show(self, metric: Metric, read: Callable[[str], float]) -> None:
        made: Gauge = gauge(metric, self.registry)
        for source in self._sources:
            made.labels(source).set_function(lambda source=source: float(read(source)))  # type: ignore[misc]

    @property
    def address(self) -> str:
        """`host:port` of the server; empty when there is none, unwanted or for lack of its port."""
        return "" if self._server is None else self._server.address

    def serve(self, settings: Settings, *, why_not_ready: Callable[[], str | None]) -> None:
        """Serve `/metrics`, `/healthz` and `/readyz` if the settings want it.

        Args:
            settings: Name host and port.
            why_not_ready: Says why calls are not claimed, apart from a silent Redis.
        """
        # The worker speaks at least as often as its rounds are.
        rounds_s = min(settings.reaper_interval_s, settings.announce_s)
        silent_s = max(SILENT_S, 2 * rounds_s)

        def is_ready() -> str | None:
            return why_not_ready() or self._why_redis_is_silent(silent_s)

        self._server = serve_beside(
            self.registry,
            host=settings.metrics_host,
            port=settings.metrics_port,
            is_ready=is_ready,
        )

    def _why_redis_is_silent(self, limit_s: float) -> str | None:
        silent_s = time.monotonic() - self.redis.answered_at
        return f"Redis has not answered for {silent_s:.0f} s." if silent_s > limit_s else None

    async def close(self) -> None:
        """Serve no more."""
        if self._server is not None:
            # It waits for its thread, which may be answering.
            await asyncio.to_thread(self._server.close)
