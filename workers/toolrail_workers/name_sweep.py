"""Keep places in the counters by tool free for tools that exist.

Is: when that is needed, and which tools are gone. Is not: how places are freed
(`toolrail.ledger.places`). Above: `reaper.py`. Below: `toolrail.registry`.
"""

import logging

from toolrail.ledger.places import ToolPlaces
from toolrail.metrics.labels import TOOLS_MAX
from toolrail.registry import Registry
from toolrail_workers.books import Books

log = logging.getLogger(__name__)

EVERY_MS = 600_000
NEARLY_ALL = TOOLS_MAX * 9 // 10
"""With fewer places taken nothing is given up: old counters do no harm."""


class FormerTools:
    """The tools that have a place and are listed no more."""

    def __init__(self, books: Books) -> None:
        prefix, deadline_s = books.keys.prefix, books.deadline_s
        self._places = ToolPlaces(books.redis, prefix=prefix, deadline_s=deadline_s)
        self._registry = Registry(books.redis, prefix=prefix, deadline_s=deadline_s)
        self._sweep_at = 0

    async def sweep(self, now_ms: int) -> None:
        """Places of tools that nobody lists are free when they run short, every ten minutes.

        The registry lists a tool for a week after its last worker; whoever restarts keeps its
        place.
        """
        if now_ms < self._sweep_at:
            return
        self._sweep_at = now_ms + EVERY_MS
        if await self._places.taken() < NEARLY_ALL:
            return
        offered = {f"{tool.queue}:{tool.spec.name}" for tool in await self._registry.tools()}
        freed = await self._places.retire(offered)
        if freed:
            log.info("totals.tools_retired", extra={"tools": freed})
