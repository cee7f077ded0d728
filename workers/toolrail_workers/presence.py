"""Say that this worker lives and what it does, and hear whether it is to claim no more.

Is: the worker's own record in Redis, from its start to its end. Is not: which tools it can run
(`announce.py`), nor what draining means (`runtime.py`). Above: `runtime.py`. Below:
`toolrail.fleet`, `port.py`, `watchdog.py`.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from toolrail.errors import ToolrailError
from toolrail.fleet import Fleet, WorkerRecord
from toolrail.metrics.process import toolrail_version
from toolrail_workers.port import PoolControl
from toolrail_workers.watchdog import LagWatch, StallWatch

log = logging.getLogger(__name__)

LIVES = 3
"""Rounds that may be missed before the worker counts as gone."""
WITHDRAW_S = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What does not change while a worker lives."""

    worker: str
    sources: tuple[str, ...]
    build: str
    every_s: float
    """How often it speaks."""


class Presence:
    """What one worker says of itself."""

    def __init__(
        self,
        fleet: Fleet,
        identity: Identity,
        *,
        control: PoolControl,
        lag: LagWatch,
        stall: StallWatch,
        is_draining: Callable[[], bool],
        on_drain: Callable[[bool], None],
    ) -> None:
        """Prepare.

        Args:
            fleet: Where to say it.
            identity: Of this worker.
            control: Knows slots and how many are busy.
            lag: Knows how late the loop was.
            stall: Knows when something was last taken.
            is_draining: Whether the worker claims no calls, for whatever reason.
            on_drain: Told after each record whether a drain is asked for.
        """
        self._fleet = fleet
        self._identity = identity
        self._control = control
        self._lag = lag
        self._stall = stall
        self._is_draining = is_draining
        self._on_drain = on_drain
        self._started_at = time.monotonic()
        self.metrics_address = ""
        """Where this worker shows its metrics, `host:port`; empty when it does not."""

    async def tell(self) -> None:
        """The record is of now, and it is known whether to drain.

        Raises:
            RedisUnavailable: The next round tries again; meanwhile nothing changes.
        """
        record = self._record(await self._fleet.now_ms())
        ttl_ms = int(LIVES * self._identity.every_s * 1000)
        self._on_drain(await self._fleet.say(record, ttl_ms=ttl_ms))

    def _record(self, now_ms: int) -> WorkerRecord:
        stats, now = self._control.stats(), time.monotonic()
        identity = self._identity
        return WorkerRecord(
            worker=identity.worker,
            sources=identity.sources,
            # Each source has the queue of its name.
            queues=identity.sources,
            slots=stats.slots,
            busy=stats.busy,
            draining=self._is_draining(),
            pid=os.getpid(),
            host=socket.gethostname(),
            version=toolrail_version(),
            build=identity.build,
            started_ms=now_ms - round((now - self._started_at) * 1000),
            seen_ms=now_ms,
            metrics_address=self.metrics_address,
            loop_lag_ms=round(self._lag.take_worst_s() * 1000),
            last_progress_ms=now_ms - round((now - self._stall.progress_at) * 1000),
        )

    async def withdraw(self) -> None:
        """Nobody counts on this worker any more; a Redis that is away forgets it by itself."""
        try:
            async with asyncio.timeout(WITHDRAW_S):
                await self._fleet.withdraw(self._identity.worker)
        except (TimeoutError, ToolrailError) as error:
            # Nobody needs to act: the record runs out by itself.
            left_s = LIVES * self._identity.every_s
            reason = type(error).__name__
            log.info("worker.not_withdrawn", extra={"reason": reason, "expires_s": left_s})
