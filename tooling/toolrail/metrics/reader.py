"""Read everything that the exporter shows, in a few round trips.

Is: one `Reading` per call, by read-only commands. Is not: a loop (`exporter.py`) or what the values
mean to Prometheus (`fleet.py`). Above: `exporter.py`. Below: `paging.py`, `toolrail.fleet`.

A read is tried once and not again: the exporter tries at its next turn, and says meanwhile that it
could not. What cannot be read in one step without a bound is looked at from its oldest end.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from toolrail.fleet import Fleet
from toolrail.metrics.labels import NOBODY, QUEUES
from toolrail.metrics.reading import QueueReading, Reading, RedisReading
from toolrail.paging import Pages, number
from toolrail.redis_io import Argument

LOOK_AT = 50
"""Queued calls of a queue that are looked at for the oldest. One that was rung for again moved to
the end of the queue's books, so the first need not be the oldest."""
DEAD_MOST = 5_000
"""Dead letters whose source is looked up; any more are counted under none."""
ONCE_S = 0.0

Replies = Mapping[str, object]


class FleetReader:
    """Reads one cell; keeps what has not changed since."""

    def __init__(self, redis: Redis, *, prefix: str, clock: Callable[[], float]) -> None:
        """Prepare.

        Args:
            redis: Needs the right to read only.
            prefix: Of the cell's keys.
            clock: Seconds since 1970.
        """
        self._clock = clock
        self._pages = Pages(redis, prefix=prefix, deadline_s=ONCE_S)
        self._fleet = Fleet(redis, prefix=prefix, deadline_s=ONCE_S)
        self._tools: tuple[object, Mapping[str, int]] = (None, {})
        self._dead: tuple[object, Mapping[str, int]] = (None, {})

    async def read(self) -> Reading:
        """Return what is true now.

        Raises:
            ToolrailError: Redis is away, or refuses.
        """
        first = await self._first()
        now_ms, totals = _time_ms(first["time"]), _counters(first["totals"])
        return Reading(
            totals=totals,
            tools=await self._by_tool(totals),
            rules=_counters(first["rules"]),
            queues=await self._queues(first, now_ms),
            approval_oldest_ms={
                queue: _age_ms(first[f"first asked {queue}"], now_ms) for queue in QUEUES
            },
            dead_letters=await self._dead_letters(first),
            runs_open=_count(first["runs"]),
            journal_length=_count(first["journal"]),
            redis=_server(cast("Mapping[str, object]", first["info"])),
            read_at_s=self._clock(),
        )

    async def _first(self) -> Replies:
        keys = self._pages.keys
        asked: dict[str, Sequence[Argument]] = {
            "time": ("TIME",),
            "totals": ("HGETALL", keys.totals),
            "rules": ("HGETALL", keys.totals_rules),
            "runs": ("ZCARD", keys.runs),
            "journal": ("XLEN", keys.journal_all),
            "dead": ("ZCARD", keys.dead_letters),
            "newest dead": ("ZRANGE", keys.dead_letters, -1, -1, "WITHSCORES"),
            "info": ("INFO",),
        }
        for queue in QUEUES:
            asked[f"depth {queue}"] = ("ZCARD", keys.queued(queue))
            asked[f"doorbells {queue}"] = ("LLEN", keys.queue(queue))
            asked[f"first {queue}"] = ("ZRANGE", keys.queued(queue), 0, LOOK_AT - 1)
            asked[f"first asked {queue}"] = ("ZRANGE", keys.asked(queue), 0, 0, "WITHSCORES")
        return dict(zip(asked, await self._pages.ask_each(list(asked.values())), strict=True))

    async def _by_tool(self, totals: Mapping[str, int]) -> Mapping[str, int]:
        """Return the counters by tool, read again only when a call has finished since."""
        finished = {name: n for name, n in totals.items() if name.startswith("finished:")}
        if self._tools[0] != finished:
            self._tools = (
                finished,
                _counters(await self._pages.scan(self._pages.keys.totals_tools)),
            )
        return self._tools[1]

    async def _queues(self, first: Replies, now_ms: int) -> dict[str, QueueReading]:
        workers = Counter(q for worker in await self._fleet.workers() for q in worker.queues)
        queues: dict[str, QueueReading] = {}
        for queue in QUEUES:
            calls = await self._calls(cast("list[str]", first[f"first {queue}"]), "queued_ms")
            since = [ms for call in calls if (ms := number(call, "queued_ms"))]
            queues[queue] = QueueReading(
                depth=_count(first[f"depth {queue}"]),
                doorbells=_count(first[f"doorbells {queue}"]),
                oldest_ms=max(0, now_ms - min(since)) if since else 0,
                workers=workers[queue],
            )
        return queues

    async def _dead_letters(self, first: Replies) -> Mapping[str, int]:
        """Return dead letters by source, looked up again only when one came or went."""
        seen = (first["dead"], first["newest dead"])
        if self._dead[0] != seen:
            self._dead = (seen, await self._count_dead(_count(first["dead"])))
        return self._dead[1]

    async def _count_dead(self, total: int) -> Mapping[str, int]:
        if total == 0:
            return {}
        reply = await self._pages.ask("ZRANGE", self._pages.keys.dead_letters, -DEAD_MOST, -1)
        newest = cast("list[str]", reply)
        # A record whose time is over no longer says whose it was.
        counts = Counter(call.get("queue", NOBODY) for call in await self._calls(newest, "queue"))
        counts[NOBODY] += max(0, total - len(newest))
        return counts

    async def _calls(self, members: Sequence[str], *names: str) -> list[dict[str, str]]:
        return await self._pages.fields([self._pages.keys.call_of(m) for m in members], names)


def _count(reply: object) -> int:
    return int(cast("int", reply))


def _age_ms(first: object, now_ms: int) -> int:
    """Return since when the first member of a zset by time is there; 0 when none is."""
    flat = cast("Sequence[str]", first)
    return max(0, now_ms - int(float(flat[1]))) if flat else 0


def _time_ms(reply: object) -> int:
    seconds, micros = cast("tuple[int, int]", reply)
    return int(seconds) * 1000 + int(micros) // 1000


def _counters(reply: object) -> dict[str, int]:
    return {name: int(value) for name, value in cast("dict[str, str]", reply).items()}


def _server(info: Mapping[str, object]) -> RedisReading:
    def count(name: str) -> int:
        return int(str(info.get(name, 0)))

    def is_ok(name: str) -> bool:
        return info.get(name) == "ok"

    return RedisReading(
        memory_used_bytes=count("used_memory"),
        memory_max_bytes=count("maxmemory"),
        evicted_keys=count("evicted_keys"),
        connected_clients=count("connected_clients"),
        aof_enabled=count("aof_enabled") == 1,
        aof_ok=is_ok("aof_last_write_status"),
        rdb_ok=is_ok("rdb_last_bgsave_status"),
    )
