"""Read the fleet's totals as the scripts write them.

Is: sums over the fields of the totals' hashes, and the check that the books balance. Is not: the
exporter's reading of them (`toolrail.metrics`), which has tests of its own. Above: tests of the
ledger. Below: `toolrail.keys`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.redis_io import command


@dataclass(frozen=True, slots=True)
class Totals:
    """All counters at one moment, or what they grew by between two."""

    plain: Mapping[str, int]
    tools: Mapping[str, int]
    rules: Mapping[str, int]

    @classmethod
    async def read(cls, redis: Redis, keys: Keys) -> "Totals":
        """Return them as they stand."""
        return cls(
            plain=await _hash(redis, keys.totals),
            tools=await _hash(redis, keys.totals_tools),
            rules=await _hash(redis, keys.totals_rules),
        )

    def since(self, before: "Totals") -> "Totals":
        """Return what changed, without what did not."""
        return Totals(
            plain=_grown(self.plain, before.plain),
            tools=_grown(self.tools, before.tools),
            rules=_grown(self.rules, before.rules),
        )

    def of(self, kind: str) -> dict[str, int]:
        """Return the counters of one kind, by the rest of their names."""
        head = kind + ":"
        return {k.removeprefix(head): n for k, n in self.plain.items() if k.startswith(head)}

    def observed(self, kind: str) -> int:
        """Return how many durations of one kind were counted, over all buckets and labels."""
        return sum(n for name, n in self.of(kind).items() if not name.startswith("ms:"))

    def ran(self, *, to_its_end: bool = False) -> dict[str, int]:
        """Return finished calls by `outcome:queue:tool`, all or only those a worker ran."""
        counts: dict[str, int] = {}
        for name, n in self.tools.items():
            kind, _, rest = name.partition(":")
            edge, _, labels = rest.partition(":")
            if kind == "ran" and edge != "ms" and not (to_its_end and edge == "never"):
                counts[labels] = counts.get(labels, 0) + n
        return counts

    def open_calls(self) -> dict[str, int]:
        """Return the states, as `queue:state`, that some open call is in."""
        return {name: n for name, n in self.of("open").items() if n}


def _grown(now: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    names = now.keys() | before.keys()
    grown = {name: now.get(name, 0) - before.get(name, 0) for name in names}
    return {name: by for name, by in grown.items() if by}


async def _hash(redis: Redis, key: str) -> dict[str, int]:
    fields = cast("dict[str, str]", await command(redis, "HGETALL", key))
    return {name: int(value) for name, value in fields.items()}
