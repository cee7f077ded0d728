"""Free the places that tools have in the ledger's counters once nobody offers them.

Is: which tools have one, and giving some up, which resets their counters. Is not: the decision
(`toolrail_workers.name_sweep`), or counting (the Lua scripts). Above: the reaper. Below:
`scripts.py`, `paging.py`.
"""

from collections.abc import Collection
from typing import cast

from redis.asyncio import Redis

from toolrail.ledger.scripts import Scripts, strings
from toolrail.paging import Pages

AT_ONCE = 50
"""Tools of one step; each has some dozen fields."""


class ToolPlaces:
    """The counters by tool of one cell."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._scripts = Scripts(redis, prefix=prefix)
        self._pages = Pages(redis, prefix=prefix, deadline_s=deadline_s)
        self._deadline_s = deadline_s

    async def taken(self) -> int:
        """Return how many places are taken."""
        key = self._pages.keys.totals_tools
        return int(cast("str | None", await self._pages.ask("HGET", key, "names")) or 0)

    async def retire(self, offered: Collection[str]) -> int:
        """Free every place of a tool that is not among `offered` (`queue:tool`); return how many.

        Its counters are gone: if it comes back they begin at 0 again, as Prometheus expects of a
        counter that was reset.
        """
        fields = await self._pages.scan(self._pages.keys.totals_tools)
        owners = {field.removeprefix("name:") for field in fields if field.startswith("name:")}
        gone = sorted(owners.difference(offered))
        freed = 0
        for start in range(0, len(gone), AT_ONCE):
            freed += await self._drop(gone[start : start + AT_ONCE], fields)
        return freed

    async def _drop(self, names: list[str], fields: Collection[str]) -> int:
        # `ran:edge:outcome:queue:tool`; the tool's name may have colons, so it is last.
        wanted = set(names)
        counters = [
            field
            for field in fields
            if field.startswith("ran:") and field.split(":", 3)[-1] in wanted
        ]
        reply = await self._scripts.call(
            "retire", "", len(names), *names, *counters, deadline_s=self._deadline_s
        )
        return int(strings(reply)[1])
