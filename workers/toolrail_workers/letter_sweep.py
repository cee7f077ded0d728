"""Forget the dead letters whose call was forgotten.

Is: the list of letters, kept as short as the records behind it; their keys expire with their run,
the members of a zset do not. Is not: what becomes a letter (`lost.py`), or what operators do with
one (`toolrail.dead_letters`). Above: `reaper.py`. Below: `books.py`, `toolrail.paging`.
"""

import logging
from typing import cast

from toolrail.ledger import Due
from toolrail.paging import Pages
from toolrail_workers.books import Books

log = logging.getLogger(__name__)

EVERY_MS = 60_000
PAGE = 500
"""Letters looked at in one sweep; the next one goes on behind them."""


class ForgottenLetters:
    """The letters that nobody can do anything about any more."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._pages = Pages(books.redis, prefix=books.keys.prefix, deadline_s=books.deadline_s)
        self._sweep_at = 0
        self._start = 0

    async def sweep(self, now_ms: int) -> None:
        """The next page of the list has only letters with a record, once a minute."""
        if now_ms < self._sweep_at:
            return
        self._sweep_at = now_ms + EVERY_MS
        zset = self._books.keys.dead_letters
        end = self._start + PAGE - 1
        members = cast("list[str]", await self._pages.ask("ZRANGE", zset, self._start, end))
        lines = [("EXISTS", self._books.keys.call_of(member)) for member in members]
        known = await self._pages.ask_each(lines)
        gone = [m for m, is_there in zip(members, known, strict=True) if str(is_there) == "0"]
        for member in gone:
            run_id, _, call_key = member.partition("|")
            await self._books.reader.drop(zset, Due(run_id, call_key, 0))
        if gone:
            log.info("letters.forgotten", extra={"letters": len(gone)})
        # What was dropped moved the others up.
        self._start = self._start + PAGE - len(gone) if len(members) == PAGE else 0
