"""Close or retry the calls whose time is over.

Is: expired leases, approvals and deadlines, each found by its zset and settled under a guard.
Is not: lost doorbells (`rebell.py`) or whole runs (`run_sweeps.py`).
Above: `reaper.py`. Below: `lost.py`, `books.py`, `toolrail.closing`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolrail.closing import expire_approval
from toolrail.errors import ToolrailError
from toolrail.ledger import Due, StoredCall
from toolrail_workers.books import Books
from toolrail_workers.lost import LostCalls

log = logging.getLogger(__name__)

PAGE = 64
PAGES_MAX = 100
"""Per tick and kind, so that one flood does not keep the others waiting for ever."""

Settle = Callable[[StoredCall], Awaitable[bool]]
"""Settles one call; whether it made a difference."""


class CallSweeps:
    """What a clock does to calls."""

    def __init__(self, books: Books, lost: LostCalls) -> None:
        self._books = books
        self._lost = lost

    async def leases(self, now_ms: int) -> None:
        """Every call whose worker stayed silent is queued again or has its outcome."""
        await self._sweep(self._books.keys.leases, now_ms, self._lost.settle)

    async def approvals(self, now_ms: int) -> None:
        """Every question that nobody answered in time is a denial."""
        await self._sweep(self._books.keys.approvals, now_ms, self._expired)

    async def deadlines(self, now_ms: int) -> None:
        """Every call that waited for too long has timed out."""
        await self._sweep(self._books.keys.deadlines, now_ms, self._too_late)

    async def _expired(self, call: StoredCall) -> bool:
        books = self._books
        closed = await expire_approval(books.ledger, books.blobs, call, actor=books.actor)
        return closed.status == "closed"

    async def _too_late(self, call: StoredCall) -> bool:
        closed = await self._books.close(call, guard="deadline_over", code="tool.timeout")
        return closed.status == "closed"

    async def _sweep(self, zset: str, now_ms: int, settle: Settle) -> None:
        for _ in range(PAGES_MAX):
            page = await self._books.reader.due(zset, until=now_ms, limit=PAGE)
            settled = await asyncio.gather(*(self._one(zset, due, settle) for due in page))
            # A page that nothing could be done about would come again and again.
            if len(page) < PAGE or not any(settled):
                return

    async def _one(self, zset: str, due: Due, settle: Settle) -> bool:
        """Settle one member; one that cannot be settled does not keep the others from it."""
        try:
            call = await self._books.reader.call(due.run_id, due.call_key)
            if call is None:
                await self._books.reader.drop(zset, due)
                return True
            return await settle(call)
        except ToolrailError as error:
            log.warning(
                "reaper.not_settled",
                extra={"run_id": due.run_id, "call_key": due.call_key, "reason": error.message},
            )
            return False
