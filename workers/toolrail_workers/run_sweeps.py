"""End the runs that are ending, and those that everybody has left.

Is: closing what an ending run still has open, then the run; runs idle for a day. Is not: the
decision that a run ends (client, dispatcher, a system failure).
Above: `reaper.py`. Below: `toolrail.closing`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import cast

from toolrail.closing import close_open_calls
from toolrail.errors import RedisError, RedisUnavailable, RunNotFound, ToolrailError
from toolrail.ledger import Due
from toolrail.redis_io import command, retrying
from toolrail_workers.books import Books

log = logging.getLogger(__name__)

PAGE = 100
IDLE_MS = 24 * 3_600_000
"""A run without open calls in whose journal nothing happened for so long was left."""
IDLE_EVERY_MS = 60_000


class RunSweeps:
    """What becomes of runs without their client."""

    def __init__(self, books: Books, *, idle_ms: int = IDLE_MS) -> None:
        self._books = books
        self._idle_ms = idle_ms
        self._idle_at = 0

    async def ending(self, now_ms: int) -> None:
        """Every run that is to end has no waiting calls, and ends with its last running one."""
        for due in await self._books.reader.due(self._books.keys.ending, until=now_ms, limit=PAGE):
            await self._guarded(due, self._books.keys.ending, self._end)

    async def idle(self, now_ms: int) -> None:
        """Every run that was left for a day is failed as `run.abandoned`."""
        if now_ms < self._idle_at:
            return
        self._idle_at = now_ms + min(IDLE_EVERY_MS, self._idle_ms)
        until = now_ms - self._idle_ms
        for due in await self._books.reader.due(self._books.keys.runs, until=until, limit=PAGE):
            await self._guarded(due, self._books.keys.runs, self._end_if_idle)

    async def _guarded(self, due: Due, zset: str, action: Callable[[Due], Awaitable[None]]) -> None:
        """Do it for one run; one that cannot be ended does not keep the others from it."""
        try:
            await action(due)
        except RunNotFound:
            await self._books.reader.drop(zset, due)
        except ToolrailError as error:
            log.warning(
                "reaper.run_not_ended", extra={"run_id": due.run_id, "reason": error.message}
            )

    async def _end(self, due: Due) -> None:
        run_id = due.run_id
        run = await self._books.reader.run(run_id)
        if run is None:
            raise RunNotFound
        books = self._books
        await close_open_calls(books.ledger, books.reader, books.blobs, run_id, actor=books.actor)
        # What it ends as was decided before; the script only takes this for a run without it.
        status = run.get("ending") or run.get("status") or "failed"
        code = run.get("ending_code") or run.get("code") or ""
        await self._books.ledger.end_run(run_id, status=status, code=code, actor=self._books.actor)

    async def _end_if_idle(self, due: Due) -> None:
        run_id = due.run_id
        if await self._books.reader.run(run_id) is None:
            raise RunNotFound
        last_ms = await self._last_event_ms(run_id)
        if last_ms > due.score or await self._books.reader.open_calls(run_id):
            # Looked at again when it could have been idle for the whole time.
            await self._put_off(run_id, max(last_ms, due.score + self._idle_ms))
            return
        log.warning("run.abandoned", extra={"run_id": run_id})
        await self._books.ledger.end_run(
            run_id, status="failed", code="run.abandoned", actor=self._books.actor
        )

    async def _last_event_ms(self, run_id: str) -> int:
        key = self._books.keys.journal(run_id)
        try:
            reply = await retrying(
                lambda: command(self._books.redis, "XREVRANGE", key, "+", "-", "COUNT", 1),
                deadline_s=self._books.deadline_s,
            )
        except RedisUnavailable:
            raise
        except RedisError:
            # A journal that cannot be read has no life in it.
            return 0
        entries = cast("Sequence[tuple[str, Mapping[str, str]]]", reply)
        return int(float(entries[0][1]["ts"])) if entries else 0

    async def _put_off(self, run_id: str, score: int) -> None:
        await retrying(
            lambda: command(self._books.redis, "ZADD", self._books.keys.runs, "XX", score, run_id),
            deadline_s=self._books.deadline_s,
        )
