"""What workers say of themselves, as an operator's commands read it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import cast

import pytest
from redis.asyncio import Redis

from toolrail.fleet import DRAIN_TTL_MS, Fleet, WorkerRecord
from toolrail.keys import Keys
from toolrail.redis_io import command, connect, xread
from toolrail.settings import Settings

TTL_MS = 30_000
RECORD = WorkerRecord(
    worker="mcp-host-1-ab",
    sources=("mcp",),
    queues=("mcp",),
    slots=200,
    busy=3,
    draining=False,
    pid=17,
    host="host",
    version="0.1.0",
    build="abc123",
    started_ms=1_000,
    seen_ms=2_000,
    metrics_address="127.0.0.1:9464",
    loop_lag_ms=4,
    last_progress_ms=1_500,
)


@dataclass
class Bench:
    """A fleet, and the Redis below it."""

    redis: Redis
    keys: Keys
    fleet: Fleet

    async def say(self, record: WorkerRecord, *, ttl_ms: int = TTL_MS) -> bool:
        """Say a record now; return whether a drain is asked for."""
        return await self.fleet.say(
            replace(record, seen_ms=await self.fleet.now_ms()), ttl_ms=ttl_ms
        )

    async def ttl_ms(self, key: str) -> int:
        """Return the time that a key has left."""
        return cast("int", await command(self.redis, "PTTL", key))


@pytest.fixture
async def bench(settings: Settings) -> AsyncGenerator[Bench]:
    """Give a fleet without workers."""
    redis = connect(settings.redis_url, timeout_s=5.0, name="test")
    prefix = settings.key_prefix
    yield Bench(redis, Keys(prefix), Fleet(redis, prefix=prefix, deadline_s=5.0))
    await redis.aclose()


async def test_a_record_is_read_as_it_was_said(bench: Bench) -> None:
    """Every field comes back with its type; what was said last stands."""
    both = replace(RECORD, worker="both", sources=("builtin", "mcp"), queues=("builtin", "mcp"))
    await bench.say(RECORD)
    await bench.say(both)
    now_ms = await bench.fleet.now_ms()
    last = replace(RECORD, draining=True, busy=0, metrics_address="", build="", seen_ms=now_ms)
    await bench.fleet.say(last, ttl_ms=TTL_MS)
    first, second = await bench.fleet.workers()

    assert replace(first, seen_ms=0) == replace(both, seen_ms=0)
    assert second == last


async def test_a_worker_that_speaks_no_more_is_listed_no_more(bench: Bench) -> None:
    """Its record and its place in the list expire, and the list is cleaned by the others."""
    await bench.say(replace(RECORD, worker="silent"), ttl_ms=1)

    while await bench.ttl_ms(bench.keys.worker("silent")) != -2:
        pass
    assert await bench.fleet.workers() == []
    await bench.say(RECORD)
    assert await command(bench.redis, "ZRANGE", bench.keys.workers, 0, -1) == [RECORD.worker]


async def test_a_worker_that_withdraws_is_gone_at_once(bench: Bench) -> None:
    """With the request to drain it, which nobody would ever look at again."""
    await bench.say(RECORD)
    await bench.fleet.ask_drain(RECORD.worker)
    await bench.fleet.withdraw(RECORD.worker)

    assert await bench.fleet.workers() == []
    assert await command(bench.redis, "EXISTS", bench.keys.drain(RECORD.worker)) == 0


async def test_a_drain_is_asked_for_and_undone(bench: Bench) -> None:
    """The worker reads the key with each record, and a nudge tells it to look now."""
    before = await bench.say(RECORD)
    await bench.fleet.ask_drain(RECORD.worker)
    asked = await bench.say(RECORD)
    await bench.fleet.undo_drain(RECORD.worker)
    undone = await bench.say(RECORD)
    stream = bench.keys.nudge(RECORD.worker)
    nudges = await xread(bench.redis, {stream: "0-0"}, count=10, block_ms=None)

    assert (before, asked, undone) == (False, True, False)
    assert [fields for _, _, fields in nudges] == [{"drain": "1"}, {"drain": "0"}]
    assert 0 < await bench.ttl_ms(stream) <= 3_600_000


async def test_a_request_lasts_as_long_as_its_worker(bench: Bench) -> None:
    """A worker that was drained for a day must not begin to claim in the night."""
    await bench.fleet.ask_drain(RECORD.worker)
    await command(bench.redis, "PEXPIRE", bench.keys.drain(RECORD.worker), 60_000)
    await bench.say(RECORD)

    assert await bench.ttl_ms(bench.keys.drain(RECORD.worker)) > DRAIN_TTL_MS - 60_000


async def test_a_record_of_another_version_does_not_hide_the_others(bench: Bench) -> None:
    """More fields are ignored; a record that lacks one is left out, with a line in the log."""
    await bench.say(RECORD)
    await command(bench.redis, "HSET", bench.keys.worker(RECORD.worker), "shoe_size", 43)
    await bench.say(replace(RECORD, worker="older"))
    await command(bench.redis, "HDEL", bench.keys.worker("older"), "slots")

    assert [record.worker for record in await bench.fleet.workers()] == [RECORD.worker]
