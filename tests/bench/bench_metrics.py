"""Measure what metrics cost: the ledger's counts on and off in one run, and one large scrape.

Is: rounds of dispatch, claim and finish that count and rounds that do not, one after the other on
one server, as calls per second and as CPU time; and a scrape of 500 tools over HTTP.
Is not: a test. Run: `python -m tests.bench.bench_metrics [rounds]`. Above: a person. Below:
`toolrail.ledger`, `toolrail.metrics`.

The three steps are all of a call that the counts can slow down. Policy, validation, the doorbell,
the worker and the inbox come on top, so a whole governed call through a real worker is measured as
well, as the CPU time of all its processes: where the CPU is the limit, the counts' share of that is
what they cost of the throughput, and no other program on the machine disturbs it.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import SecretStr

from tests.bench.phases import used_cpu_s
from tests.bench.rail import open_rail
from tests.calls import LedgerBench, ledger_bench
from tests.scrapes import scrape
from tests.waiting import await_until
from toolrail.embedded import EmbeddedRedis
from toolrail.ledger import Claim, Ending, Ledger
from toolrail.metrics.exporter import Exporter
from toolrail.metrics.labels import OUTCOME, TOOLS_MAX
from toolrail.metrics.serve import Server
from toolrail.redis_io import command
from toolrail.settings import Settings

CALLS_OF_A_ROUND = 500
CALLS_OF_A_BURST = 4_000
SCRAPES = 50
TOOLS_CALLED = 20


@dataclass
class Rounds:
    """What the rounds of one kind showed."""

    per_s: list[float] = field(default_factory=list[float])
    redis_us: list[float] = field(default_factory=list[float])
    """CPU time of the server per call."""
    all_us: list[float] = field(default_factory=list[float])
    """CPU time of client and server per call."""


async def one_round(bench: LedgerBench, ledger: Ledger, ending: Ending, rounds: Rounds) -> None:
    """Run calls to their end and note how long that took, in all and inside Redis."""
    await bench.open_run()
    calls = [
        bench.new_call(f"c{n}", tool=f"demo.t{n % TOOLS_CALLED}") for n in range(CALLS_OF_A_ROUND)
    ]

    async def live(n: int) -> None:
        call = calls[n]
        await ledger.dispatch(call)
        claim = await ledger.claim(
            bench.run_id, call.call_key, attempt=1, nonce="n", worker="w", lease_ms=60_000
        )
        assert isinstance(claim, Claim)
        await ledger.finish(
            bench.run_id, call.call_key, ending, fence=claim.fence, actor="worker:w"
        )

    begun, cpu, in_redis = time.perf_counter(), time.process_time(), await redis_cpu_s(bench)
    await asyncio.gather(*map(live, range(CALLS_OF_A_ROUND)))
    took_s, cpu = time.perf_counter() - begun, time.process_time() - cpu
    in_redis = await redis_cpu_s(bench) - in_redis
    rounds.per_s.append(CALLS_OF_A_ROUND / took_s)
    rounds.redis_us.append(in_redis / CALLS_OF_A_ROUND * 1e6)
    rounds.all_us.append((in_redis + cpu) / CALLS_OF_A_ROUND * 1e6)


async def redis_cpu_s(bench: LedgerBench) -> float:
    """Return the CPU seconds that the server has used, which other programs do not disturb."""
    info = cast("dict[str, float]", await bench.redis.info("cpu"))
    return info["used_cpu_user"] + info["used_cpu_sys"]


async def on_and_off(bench: LedgerBench, count: int) -> dict[bool, Rounds]:
    """Return the rounds with and without counts; each pair in another order."""
    ledgers = {
        measured: Ledger(
            bench.redis, prefix=bench.settings.key_prefix, deadline_s=30, measured=measured
        )
        for measured in (True, False)
    }
    ending = await bench.ending("c")
    found = {True: Rounds(), False: Rounds()}
    for measured in (True, False):
        await one_round(bench, ledgers[measured], ending, Rounds())
    for n in range(count):
        for measured in (n % 2 == 0, n % 2 == 1):
            await one_round(bench, ledgers[measured], ending, found[measured])
    return found


async def whole_call_us(folder: Path) -> float:
    """Return the CPU time, over all processes, of one governed call through a real worker."""
    with EmbeddedRedis(folder / "redis") as server:
        async with open_rail(server.url, folder / "cell") as rail:
            await rail.burst(CALLS_OF_A_BURST // 4)
            begun = used_cpu_s()
            await rail.burst(CALLS_OF_A_BURST)
            took_s = used_cpu_s() - begun
    return took_s / CALLS_OF_A_BURST * 1e6


async def fill(bench: LedgerBench) -> None:
    """Count calls of as many tools as have a place, with several outcomes and durations each."""
    counters: list[str | int] = []
    for n in range(TOOLS_MAX):
        for edge in (5, 100, 2000, "never"):
            for outcome in OUTCOME.values[:4]:
                counters += [f"ran:{edge}:{outcome}:builtin:bench.tool{n}", n + 1]
    await command(bench.redis, "HSET", bench.keys.totals_tools, *counters)


async def scrapes(settings: Settings) -> tuple[list[float], int]:
    """Return the milliseconds of each scrape, and how many series one has."""
    stop, servers = asyncio.Event(), list[Server]()
    exporter = Exporter(replace_port(settings))
    task = asyncio.create_task(exporter.run(stop, on_ready=servers.append))
    await await_until(
        lambda: servers and exporter.page.problem() is None, "a reading", timeout_s=30
    )
    url = f"http://{servers[0].address}/metrics"
    took_ms = [await asyncio.to_thread(timed_ms, lambda: scrape(url)) for _ in range(SCRAPES)]
    series = len((await asyncio.to_thread(scrape, url)).lines)
    stop.set()
    await task
    return took_ms, series


def replace_port(settings: Settings) -> Settings:
    """Return the settings with any free port for metrics."""
    return settings.model_copy(update={"metrics_port": 0})


def timed_ms(action: Callable[[], object]) -> float:
    """Return how long an action took."""
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1000


async def main(rounds: int = 20) -> None:
    """Print one table."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedRedis(Path(folder) / "redis", append_only=True)
        server.start()
        try:
            settings = Settings(redis_url=server.url, secret=SecretStr("only for this bench"))
            async with ledger_bench(settings) as bench:
                found = await on_and_off(bench, rounds)
                await fill(bench)
                took_ms, series = await scrapes(settings)
        finally:
            server.stop()
        whole_us = await whole_call_us(Path(folder) / "cluster")
    print_table(found, whole_us, took_ms, series)


def pairs(on: Sequence[float], off: Sequence[float]) -> float:
    """Return the median of on divided by off, round by round."""
    return statistics.median(a / b for a, b in zip(on, off, strict=True))


def print_table(
    found: dict[bool, Rounds], whole_us: float, took_ms: list[float], series: int
) -> None:
    """Print medians, and how much the counts take."""
    on, off = found[True], found[False]
    speed = pairs(on.per_s, off.per_s)
    inside = statistics.median(on.redis_us) - statistics.median(off.redis_us)
    rows = {
        "ledger steps of a call, counts on, calls/s": f"{statistics.median(on.per_s):,.0f}",
        "the same, counts off, calls/s": f"{statistics.median(off.per_s):,.0f}",
        "throughput on / off, median of pairs": f"{speed:.3f}",
        "CPU of both per call, on / off": f"{pairs(on.all_us, off.all_us):.3f}",
        "CPU in Redis per call, on": f"{statistics.median(on.redis_us):.1f} us",
        "counts' part of it": f"{inside:.1f} us",
        "CPU of a whole governed call": f"{whole_us:.0f} us",
        "counts' share of that": f"{inside / whole_us:.1%}",
        f"scrape of {series:,} series, p50": f"{statistics.median(took_ms):.1f} ms",
        "the slowest of 50": f"{max(took_ms):.1f} ms",
    }
    for name, value in rows.items():
        print(f"{name:>44}: {value}")  # the result


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
