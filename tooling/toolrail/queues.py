"""Look at the queues: what waits, since when, and who is there to take it.

Is: one `QueueState` per source, as of now. Is not: counters over time (`/metrics`), or changing
anything. Above: `toolrail queues`, `toolrail doctor`, scripts. Below: `paging.py`,
`fleet.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from toolrail.fleet import Fleet, WorkerRecord
from toolrail.ledger import LedgerReader
from toolrail.paging import Pages, number
from toolrail.registry import QUEUES

LOOK_AT = 50
"""Oldest doorbells whose calls are looked at. A call that is rung for again moves to the end, so
the first one need not be the oldest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue at one moment.

    Attributes:
        source: Name of the queue: builtin, mcp or extension.
        queued: Calls that wait for a worker.
        running: Calls that a worker has.
        awaiting_approval: Calls that wait for a person.
        doorbells: Messages in the broker's list; None when the broker is not this Redis.
        oldest_ms: How long the oldest queued call waits; None when none does.
        workers: Live workers that take from it, those that drain included.
        draining: Of them, those that claim nothing any more.
        slots: Calls that the others may run at once. A worker of several queues counts in each.
        busy: Calls that its workers run, of whatever queue they are.
    """

    source: str
    queued: int
    running: int
    awaiting_approval: int
    doorbells: int | None
    oldest_ms: int | None
    workers: int
    draining: int
    slots: int
    busy: int


class Queues:
    """The queues of one cell."""

    def __init__(
        self, redis: Redis, *, prefix: str, deadline_s: float, is_foreign: bool = False
    ) -> None:
        """Prepare.

        Args:
            redis: Of the ledger.
            prefix: Key prefix.
            deadline_s: Patience while Redis is away.
            is_foreign: Doorbells travel through another broker, into which we cannot look.
        """
        self._pages = Pages(redis, prefix=prefix, deadline_s=deadline_s)
        self._reader = LedgerReader(redis, prefix=prefix, deadline_s=deadline_s)
        self._fleet = Fleet(redis, prefix=prefix, deadline_s=deadline_s)
        self._is_foreign = is_foreign

    async def read(self) -> list[QueueState]:
        """Return the state of every queue, in the order of `QUEUES`.

        Raises:
            RedisUnavailable: No answer in time.
        """
        totals = await self._reader.totals()
        workers = await self._fleet.workers()
        return [await self._state(source, totals, workers) for source in QUEUES]

    async def _state(
        self, source: str, totals: dict[str, int], workers: Sequence[WorkerRecord]
    ) -> QueueState:
        keys = self._pages.keys
        here = [worker for worker in workers if source in worker.queues]
        doorbells = None
        if not self._is_foreign:
            doorbells = int(str(await self._pages.ask("LLEN", keys.queue(source))))
        return QueueState(
            source=source,
            queued=await self._pages.size(keys.queued(source)),
            running=totals.get(f"open:{source}:running", 0),
            awaiting_approval=totals.get(f"open:{source}:awaiting_approval", 0),
            doorbells=doorbells,
            oldest_ms=await self._oldest_ms(source),
            workers=len(here),
            draining=sum(worker.draining for worker in here),
            slots=sum(worker.slots for worker in here if not worker.draining),
            busy=sum(worker.busy for worker in here),
        )

    async def _oldest_ms(self, source: str) -> int | None:
        keys = self._pages.keys
        reply = await self._pages.ask("ZRANGE", keys.queued(source), 0, LOOK_AT - 1)
        now_ms = await self._reader.now_ms()
        calls = await self._pages.fields(
            [keys.call_of(member) for member in cast("Sequence[str]", reply)],
            ("queued_ms",),
        )
        waits = [now_ms - queued for call in calls if (queued := number(call, "queued_ms"))]
        return max(0, *waits) if waits else None
