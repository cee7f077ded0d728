"""Know which workers live, what each is doing, and ask one to claim no more.

Is: the record that every worker keeps of itself in Redis, and the request to drain. Is not: which
tools can be run (`registry.py`), nor how a worker drains (`toolrail_workers.presence`).
Above: workers write; `toolrail workers`, `toolrail drain`, the exporter and `toolrail up` read.
Below: `redis_io`, `keys`.

All instants are by the clock of Redis, in milliseconds, so that ages of workers on different
machines can be compared.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import cast

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.redis_io import command, retrying

log = logging.getLogger(__name__)

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DRAIN_TTL_MS = DAY_MS
"""A worker that drains renews its request; one that is gone leaves it for a day."""
NUDGES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """What one worker last said of itself."""

    worker: str
    """Its id, unique over hosts and restarts."""
    sources: tuple[str, ...]
    """Whose tools it runs: builtin, mcp, extension."""
    queues: tuple[str, ...]
    """What it takes doorbells from."""
    slots: int
    """Calls it may run at once."""
    busy: int
    """Calls it runs."""
    draining: bool
    """It claims no more calls."""
    pid: int
    host: str
    version: str
    """Of Toolrail."""
    build: str
    """`TOOLRAIL_BUILD`; empty when it is not set."""
    started_ms: int
    seen_ms: int
    """When it said this."""
    metrics_address: str
    """`host:port` of its /metrics; empty when it has none."""
    loop_lag_ms: int
    """The longest delay of its event loop since it last spoke."""
    last_progress_ms: int
    """When it last took a doorbell or found its queues empty; 0 when it never did."""


_RECORD = TypeAdapter(WorkerRecord)
_LISTS = ("sources", "queues")


class Fleet:
    """The workers of one cell."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        """Prepare.

        Args:
            redis: Of the ledger.
            prefix: Of its keys.
            deadline_s: Patience with Redis in each method, all of which raise `RedisUnavailable`.
        """
        self._redis = redis
        self._keys = Keys(prefix)
        self._deadline_s = deadline_s

    async def workers(self) -> list[WorkerRecord]:
        """Return the workers that live, by sources and id.

        One that ended without a word is listed until its record expires, three announcements on.
        """
        now_ms = await self.now_ms()
        reply = await retrying(
            lambda: command(self._redis, "ZRANGEBYSCORE", self._keys.workers, f"({now_ms}", "+inf"),
            deadline_s=self._deadline_s,
        )
        names = cast("list[str]", reply)

        async def read() -> list[dict[str, str]]:
            pipe = self._redis.pipeline(transaction=False)
            for name in names:
                pipe.hgetall(self._keys.worker(name))
            return cast("list[dict[str, str]]", await pipe.execute())

        found = await retrying(read, deadline_s=self._deadline_s) if names else []
        records = [_read(name, fields) for name, fields in zip(names, found, strict=True)]
        return sorted(
            (record for record in records if record is not None),
            key=lambda record: (record.sources, record.worker),
        )

    async def now_ms(self) -> int:
        """Return the clock of Redis."""
        reply = await retrying(lambda: command(self._redis, "TIME"), deadline_s=self._deadline_s)
        seconds, micros = cast("tuple[int, int]", reply)
        return int(seconds) * 1000 + int(micros) // 1000

    async def say(self, record: WorkerRecord, *, ttl_ms: int) -> bool:
        """The record stands for so long from `seen_ms`; return whether the worker is to drain."""
        keys, name = self._keys, record.worker

        async def write() -> bool:
            pipe = self._redis.pipeline(transaction=True)
            pipe.hset(keys.worker(name), items=_written(record))
            pipe.pexpire(keys.worker(name), ttl_ms)
            pipe.zremrangebyscore(keys.workers, "-inf", record.seen_ms)
            pipe.zadd(keys.workers, {name: record.seen_ms + ttl_ms})
            pipe.pexpire(keys.workers, DAY_MS)
            # As long as the worker lives: one that was drained must not wake up after a day.
            pipe.pexpire(keys.drain(name), DRAIN_TTL_MS)
            pipe.exists(keys.drain(name))
            return bool((await pipe.execute())[-1])

        return await retrying(write, deadline_s=self._deadline_s)

    async def withdraw(self, worker: str) -> None:
        """The worker is listed no more, and nobody needs to drain it."""

        async def write() -> None:
            pipe = self._redis.pipeline(transaction=True)
            pipe.delete(self._keys.worker(worker), self._keys.drain(worker))
            pipe.zrem(self._keys.workers, worker)
            await pipe.execute()

        await retrying(write, deadline_s=self._deadline_s)

    async def ask_drain(self, worker: str) -> None:
        """The worker claims no more calls, within its next tick and mostly at once.

        It runs to their end those it has, and then stays up idle, until it is stopped or the
        request is undone. A name that no worker has is a request that expires in a day.
        """
        await self._set_drain(worker, is_asked=True)

    async def undo_drain(self, worker: str) -> None:
        """The worker claims calls again; without effect on one that is stopping."""
        await self._set_drain(worker, is_asked=False)

    async def _set_drain(self, worker: str, *, is_asked: bool) -> None:
        key, nudge = self._keys.drain(worker), self._keys.nudge(worker)

        async def write() -> None:
            pipe = self._redis.pipeline(transaction=True)
            if is_asked:
                pipe.set(key, "1", px=DRAIN_TTL_MS)
            else:
                pipe.delete(key)
            # Only a hint to look at once; the key is the truth.
            pipe.xadd(nudge, {"drain": int(is_asked)}, maxlen=NUDGES_MAX, approximate=True)
            pipe.pexpire(nudge, HOUR_MS)
            await pipe.execute()

        await retrying(write, deadline_s=self._deadline_s)


def _written(record: WorkerRecord) -> list[str | int]:
    """Return field, value, field, value, and so on."""
    fields = asdict(record)
    del fields["worker"]
    fields["draining"] = int(record.draining)
    fields.update({name: ",".join(fields[name]) for name in _LISTS})
    return [part for field in fields.items() for part in field]


def _read(worker: str, fields: Mapping[str, str]) -> WorkerRecord | None:
    """Return a record as it was written; None if it is gone, or of another version of us."""
    if not fields:
        return None
    lists = {name: tuple(filter(None, fields.get(name, "").split(","))) for name in _LISTS}
    try:
        return _RECORD.validate_python({**fields, **lists, "worker": worker})
    except ValidationError as error:
        log.warning("fleet.unreadable", extra={"worker": worker, "errors": error.error_count()})
        return None
