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
from toolrail.ledger import START, Due
from toolrail.paging import Pages
from toolrail.redis_io import command, retrying
from toolrail_workers.books import Books

log = logging.getLogger(__name__)

PAGE = 100
CALLS_MAX = 1_000
"""Open calls that one pass looks at, in all: less than a second's work, in which no lease, question
or deadline is swept. A larger run ends in more passes; nothing of it starts meanwhile."""
CALLS_PAGE = 500
AGAIN_MS = 1_000
"""A run that waits for a running call is looked at again after this."""
IDLE_MS = 24 * 3_600_000
"""A run without open calls in whose journal nothing happened for so long was left."""
IDLE_EVERY_MS = 60_000


class RunSweeps:
    """What becomes of runs without their client."""

    def __init__(self, books: Books, *, idle_ms: int = IDLE_MS, calls_max: int = CALLS_MAX) -> None:
        self._books = books
        self._pages = Pages(books.redis, prefix=books.keys.prefix, deadline_s=books.deadline_s)
        self._calls_max = calls_max
        self._calls_left = 0
        self._after: dict[str, str] = {}
        """Where to go on in the open calls of a run that has too many for one pass."""
        self._idle_ms = idle_ms
        self._idle_at = 0

    async def ending(self, now_ms: int) -> None:
        """Every run that is to end has no waiting calls, and ends with its last running one."""
        keys = self._books.keys
        page = await self._books.reader.due(keys.ending, until=now_ms, limit=PAGE)
        self._after = {due.run_id: self._after.get(due.run_id, START) for due in page}
        self._calls_left = self._calls_max
        for due in page:
            if self._calls_left <= 0:
                return
            await self._guarded(due, keys.ending, self._end)
            pause_ms = AGAIN_MS if self._after[due.run_id] == START else 1
            # Behind those that were not looked at yet; a run that has ended is not there any more.
            await self._put_off(keys.ending, due.run_id, now_ms + pause_ms)

    async def ended(self, now_ms: int) -> None:
        """Every call of a run that had too many for one step expires with its run."""
        keys = self._books.keys
        self._calls_left = self._calls_max
        for due in await self._books.reader.due(keys.ended, until=now_ms, limit=PAGE):
            if self._calls_left <= 0:
                return
            await self._guarded(due, keys.ended, self._expire_calls)

    async def _expire_calls(self, due: Due) -> None:
        run = await self._books.reader.run(due.run_id)
        if run is None:
            raise RunNotFound
        keys = self._books.keys
        calls, keep_ms = keys.calls(due.run_id), run["retention_ms"]
        while self._calls_left > 0:
            reply = await self._ask("SRANDMEMBER", calls, min(CALLS_PAGE, self._calls_left))
            page = cast("Sequence[str]", reply)
            if not page:
                await self._books.reader.drop(keys.ended, due)
                return
            # Off the list only when they expire: who dies in between leaves no call for ever.
            await self._pages.ask_each(
                [("PEXPIRE", keys.call(due.run_id, name), keep_ms) for name in page]
            )
            await self._ask("SREM", calls, *page)
            self._calls_left -= len(page)

    async def _ask(self, *args: str | int) -> object:
        return await retrying(
            lambda: command(self._books.redis, *args), deadline_s=self._books.deadline_s
        )

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
        books, after = self._books, self._after[run_id]
        # Whatever fails in between is begun anew.
        self._after[run_id] = START
        done = await close_open_calls(
            books.ledger,
            books.reader,
            books.blobs,
            run_id,
            actor=books.actor,
            after=after,
            limit=self._calls_left,
        )
        self._calls_left -= done.seen
        self._after[run_id] = done.after
        # What it ends as was decided before; the script only takes this for a run without it.
        status = run.get("ending") or run.get("status") or "failed"
        code = run.get("ending_code") or run.get("code") or ""
        await self._books.ledger.end_run(run_id, status=status, code=code, actor=self._books.actor)

    async def _end_if_idle(self, due: Due) -> None:
        run_id = due.run_id
        if await self._books.reader.run(run_id) is None:
            raise RunNotFound
        last_ms = await self._last_event_ms(run_id)
        if last_ms > due.score or await self._books.reader.has_open(run_id):
            # Looked at again when it could have been idle for the whole time.
            score = max(last_ms, due.score + self._idle_ms)
            await self._put_off(self._books.keys.runs, run_id, score)
            return
        log.warning("run.abandoned", extra={"run_id": run_id})
        await self._books.ledger.end_run(
            run_id, status="failed", code="run.abandoned", actor=self._books.actor
        )

    async def _last_event_ms(self, run_id: str) -> int:
        key = self._books.keys.journal(run_id)
        try:
            reply = await self._ask("XREVRANGE", key, "+", "-", "COUNT", 1)
        except RedisUnavailable:
            raise
        except RedisError:
            # A journal that cannot be read has no life in it.
            return 0
        entries = cast("Sequence[tuple[str, Mapping[str, str]]]", reply)
        return int(float(entries[0][1]["ts"])) if entries else 0

    async def _put_off(self, zset: str, run_id: str, score: int) -> None:
        await self._ask("ZADD", zset, "XX", score, run_id)
