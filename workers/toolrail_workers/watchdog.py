"""End a worker that does not work, so that its supervisor starts one that does.

Is: two checks: the consumer takes nothing although there is work and room; the event loop stands
still and leases cannot be renewed. Is not: a limit on tools (`running.py`).
Above: `runtime.py`. Below: `port.py`, threads.
"""

import asyncio
import faulthandler
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.redis_io import command, retrying
from toolrail_workers.port import PoolControl

log = logging.getLogger(__name__)

BEAT_S = 0.5
EX_STUCK = 1
PAUSED_FACTOR = 4
"""A watchdog that itself slept this much longer than it meant to was paused with the process."""


class StallWatch:
    """Notices a consumer that stopped consuming."""

    def __init__(
        self,
        redis: Redis,
        *,
        control: PoolControl,
        lengths: Sequence[tuple[str, str]],
        limit_s: float,
        deadline_s: float,
    ) -> None:
        """Prepare.

        Args:
            redis: Of the ledger.
            control: Knows what was taken, and ends the worker.
            lengths: Command and key that give the length of each queue served.
            limit_s: How long a standstill may last.
            deadline_s: Patience with Redis.
        """
        self._redis = redis
        self._control = control
        self._lengths = lengths
        self._limit_s = limit_s
        self._deadline_s = deadline_s
        self._taken = -1
        self._stalled_at: float | None = None
        self._progress_at = time.monotonic()

    @property
    def progress_at(self) -> float:
        """When a doorbell was last taken, or none was there to take, by `time.monotonic()`.

        Stands still while the worker is full: how long that is, its slots say.
        """
        return max(self._progress_at, self._control.stats().last_poll_at or 0.0)

    async def check(self) -> None:
        """Ask for the end of a worker that has stood still for too long.

        Raises:
            RedisUnavailable: Then the consumer has an excuse; the time starts anew.
        """
        stats = self._control.stats()
        taken = stats.doorbells + stats.invalid_doorbells
        moved, self._taken = taken != self._taken, taken
        stalled_at, self._stalled_at = self._stalled_at, None
        if stats.busy >= stats.slots and not moved:
            return
        # One that takes nothing on order does all that is asked of it.
        if moved or stats.paused or not await self._is_waiting():
            self._progress_at = time.monotonic()
            return
        now = asyncio.get_running_loop().time()
        self._stalled_at = now if stalled_at is None else stalled_at
        if now - self._stalled_at >= self._limit_s:
            self._control.exit_worker(
                f"no doorbell was taken for {self._limit_s:g} s although some are waiting"
            )

    async def _is_waiting(self) -> bool:
        for name, key in self._lengths:
            length = await retrying(
                lambda name=name, key=key: command(self._redis, name, key),  # type: ignore[misc]
                deadline_s=self._deadline_s,
            )
            if cast("int", length) > 0:
                return True
        return False


def queue_lengths(keys: Keys, sources: Sequence[str], *, is_foreign: bool) -> list[tuple[str, str]]:
    """Return how to ask for the length of each queue; a foreign broker's is known by its calls."""
    if is_foreign:
        return [("ZCARD", keys.queued(source)) for source in sources]
    return [("LLEN", keys.queue(source)) for source in sources]


class LagWatch:
    """A thread that ends the process when the event loop stands still.

    A loop that is blocked cannot notice it, renew leases or drain, so there is nothing to ask:
    the process goes, its leases run out, and the calls are settled by the reaper.
    """

    def __init__(
        self,
        limit_s: float,
        *,
        on_stuck: Callable[[float], None] | None = None,
        on_lag: Callable[[float], object] | None = None,
    ) -> None:
        """Prepare.

        Args:
            limit_s: How long the loop may stand still.
            on_stuck: Called on the watching thread, with seconds; None ends the process.
            on_lag: Called on the loop, at each beat, with the seconds it came late.
        """
        self._limit_s = limit_s
        self._on_stuck = on_stuck or _exit_now
        self._on_lag = on_lag
        self._worst_s = 0.0
        self._due_at = self._beat_at = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="toolrail-lag", daemon=True)

    def start(self) -> None:
        """Watch the running loop from now on."""
        self._loop = asyncio.get_running_loop()
        self._due_at = time.monotonic()
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Watch no more; called on the loop."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def behind_s(self) -> float:
        """Return how late the loop is at this moment; 0 while it keeps up. Any thread."""
        return max(0.0, time.monotonic() - self._due_at)

    def take_worst_s(self) -> float:
        """Return the longest delay of the loop since the last time this was asked."""
        worst_s, self._worst_s = max(self._worst_s, self.behind_s()), 0.0
        return worst_s

    def _beat(self) -> None:
        now = time.monotonic()
        lag_s = max(0.0, now - self._due_at)
        self._worst_s = max(self._worst_s, lag_s)
        if self._on_lag is not None:
            self._on_lag(lag_s)
        self._beat_at, self._due_at = now, now + BEAT_S
        if self._loop is not None and not self._stopped.is_set():
            self._timer = self._loop.call_later(BEAT_S, self._beat)

    def _watch(self) -> None:
        pause_s = min(BEAT_S, self._limit_s / 4)
        while True:
            asleep_at = time.monotonic()
            if self._stopped.wait(pause_s):
                return
            now = time.monotonic()
            if now - asleep_at > PAUSED_FACTOR * pause_s:
                # The whole process was stopped, as by SIGSTOP; the loop gets its time anew.
                self._beat_at = now
            elif now - self._beat_at > self._limit_s:
                self._on_stuck(now - self._beat_at)
                return


def _exit_now(lag_s: float) -> None:
    log.critical("worker.loop_blocked", extra={"lag_s": round(lag_s, 1)})
    faulthandler.dump_traceback(all_threads=True)
    # No cleaning up: whatever blocks the loop would block it too.
    os._exit(EX_STUCK)
