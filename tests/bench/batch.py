"""Measure a turn of 100 calls at once against single calls, and count a dispatch's round trips.

Is: `call_many(100)`, single calls and single dispatches in one run, interleaved. Is not: several
clients (`phases.py`). Above: `measurements.py`. Below: `rail.py`, Redis' MONITOR.

`call_many` returns results, so its rate is set against single calls that are awaited with their
results; the rate of dispatches alone, whose results come later, is told beside it.
"""

import time

from redis.asyncio import Redis

from tests.bench.figures import Size, median_of
from tests.bench.phases import Figures
from tests.bench.rail import Rail, check, fresh_rail, request
from tests.bench.tools import PER_TURN
from toolrail.redis_io import command, connect

COUNTED = 100
"""Dispatches whose commands are counted."""


async def measure(size: Size) -> Figures:
    """Return rates per second, their ratio, and the round trips of one dispatch."""
    rows: list[Figures] = []
    async with fresh_rail() as rail:
        for _ in range(size.rounds):
            row = {
                "single_per_s": await _singles(rail, size.lone),
                "dispatch_per_s": await _dispatches(rail, size.lone),
                f"call_many_{PER_TURN}_per_s": await _turns(rail, size.drain // PER_TURN),
            }
            row["call_many_vs_single"] = row[f"call_many_{PER_TURN}_per_s"] / row["single_per_s"]
            rows.append(row)
        trips = await _commands_of_dispatches(rail) / COUNTED
    return median_of(rows) | {"dispatch_round_trips": trips}


async def _singles(rail: Rail, count: int) -> float:
    begun = time.perf_counter()
    for _ in range(count):
        await rail.burst(1)
    return count / (time.perf_counter() - begun)


async def _dispatches(rail: Rail, count: int) -> float:
    first, rail.number = rail.number, rail.number + count
    begun = time.perf_counter()
    tickets = [await rail.run.dispatch(request(n)) for n in range(first, first + count)]
    took_s = time.perf_counter() - begun
    await rail.wait(tickets)
    return count / took_s


async def _turns(rail: Rail, turns: int) -> float:
    calls = [rail.turn() for _ in range(turns)]
    begun = time.perf_counter()
    for turn in calls:
        check(await rail.run.call_many(turn))
    return turns * PER_TURN / (time.perf_counter() - begun)


async def _commands_of_dispatches(rail: Rail) -> int:
    """Return how many commands the client sent for its dispatches, one awaited after the other.

    As Redis saw them; each is a round trip, since the next dispatch waits for its reply. The
    client's other connection only waits for the inbox.
    """
    redis = connect(rail.cluster.settings.redis_url, timeout_s=10, name="bench")
    try:
        ours = await _addresses(redis, "toolrail-client-")
        async with redis.monitor() as monitor:
            for number in range(COUNTED):
                await rail.run.dispatch(request(rail.number + number))
            rail.number += COUNTED
            await command(redis, "ECHO", "the end")
            count = 0
            while True:
                seen = await monitor.next_command()
                if seen["command"] == "ECHO the end":
                    return count
                address = f"{seen['client_address']}:{seen['client_port']}"
                count += address in ours and not seen["command"].startswith("XREAD")
    finally:
        await redis.aclose()


async def _addresses(redis: Redis, name: str) -> set[str]:
    clients = await redis.client_list()
    return {client["addr"] for client in clients if client["name"].startswith(name)}
