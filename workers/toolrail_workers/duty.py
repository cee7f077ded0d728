"""Claim calls, or none: the one place that knows, and that tells everybody whom it concerns.

Is: a drain on order and its undoing, what is announced meanwhile, and the loops that announce and
speak. Is not: the drain of a worker that ends (`runtime.py`, `pool.py`), nor the order itself
(`toolrail.fleet`). Above: `runtime.py`. Below: `announce.py`, `presence.py`, `port.py`.

A drained worker does the first half of what SIGTERM does, and then waits: its queues are consumed
no more, its tools are not counted on, what it runs goes on to its end, and it stays up.
"""

import logging

from toolrail.fleet import Fleet
from toolrail_workers.announce import Announcer
from toolrail_workers.periodic import Periodic
from toolrail_workers.port import PoolControl
from toolrail_workers.presence import Identity, Presence
from toolrail_workers.watchdog import LagWatch, StallWatch

log = logging.getLogger(__name__)

DRAINING_S = 1.0
"""How often a draining worker speaks: somebody waits for its last call to end."""


class Duty:
    """Whether one worker claims calls."""

    def __init__(
        self,
        fleet: Fleet,
        identity: Identity,
        *,
        announcer: Announcer,
        control: PoolControl,
        lag: LagWatch,
        stall: StallWatch,
    ) -> None:
        """On duty; nothing is said yet. Arguments as for `Presence`."""
        self._announcer = announcer
        self._control = control
        self._identity = identity
        self._is_paused = False
        self._is_ending = False
        self.presence = Presence(
            fleet,
            identity,
            control=control,
            lag=lag,
            stall=stall,
            is_draining=lambda: self.is_draining,
            on_drain=self.obey,
        )
        self._announcing = Periodic("announce", self._announce, interval_s=identity.every_s)
        self._telling = Periodic("presence", self.presence.tell, interval_s=self._interval_s)

    @property
    def is_draining(self) -> bool:
        """Whether no more calls are claimed, on order or because the worker ends."""
        return self._is_paused or self._is_ending

    def loops(self) -> dict[str, Periodic]:
        """Return what is to be run as long as the worker lives, by name."""
        return {"announce": self._announcing, "presence": self._telling}

    async def begin(self) -> None:
        """Everybody knows of this worker and its tools.

        Raises:
            RedisUnavailable: Nobody can be told.
        """
        await self._announce()
        await self.presence.tell()

    def end(self) -> None:
        """The worker ends: no more calls, and no order changes that."""
        self._is_ending = True
        self._telling.wake()

    def announce_soon(self) -> None:
        """The tools have changed; never blocks."""
        self._announcing.wake()

    def look_soon(self) -> None:
        """An order may have been given; never blocks."""
        self._telling.wake()

    def obey(self, is_asked: bool) -> None:
        """Claim no more calls, or claim again, as was asked for last."""
        if is_asked == self._is_paused or self._is_ending:
            return
        self._is_paused = is_asked
        if is_asked:
            self._control.pause()
        else:
            self._control.resume()
        event = "worker.paused" if is_asked else "worker.resumed"
        log.info(event, extra={"worker": self._identity.worker})
        self._announcing.wake()
        self._telling.wake()

    async def _announce(self) -> None:
        announcer = self._announcer
        await (announcer.withdraw() if self._is_paused else announcer.announce())

    def _interval_s(self) -> float:
        usual_s = self._identity.every_s
        return min(usual_s, DRAINING_S) if self.is_draining else usual_s
