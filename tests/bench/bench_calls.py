"""Measure governed calls from one client through one worker, against bare Redis round trips.

Is: drain, concurrent and lone calls with policy, validation, journal, lease, MAC and budget, and
Toolrail's share of what pipelined Redis from Python can do on the same machine in the same run.
Is not: a test, nor the comparison with other queues (a later bench).
Run: `python -m tests.bench.bench_calls [calls]`. Above: a person. Below: `toolrail.testing`.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from toolrail import CallRequest, Run, Settings
from toolrail.redis_io import RoundTrips, connect
from toolrail.testing import Cluster
from toolrail_schemas import ToolResult

PAYLOAD: dict[str, JsonValue] = {"payload": {"x": "y" * 200, "n": 1}}
ROUND_TRIPS_OF_A_CALL = 5
"""Dispatch, pop, claim, finish, and the read of the inbox."""
POLICY = 'allow = ["bench.*"]\n'
PER_TURN = 16


def write_policy(folder: Path) -> Path:
    """Write a policy that allows the bench tools and counts their calls."""
    for name, text in {"platform": "", "source": "", "profiles/bench": POLICY}.items():
        file = folder / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def request(number: int, tool: str = "bench.echo") -> CallRequest:
    """Return one call; a turn has 16, the most that the tool's own budget allows."""
    return CallRequest(id=f"c{number}", name=tool, arguments=PAYLOAD, turn=number // PER_TURN)


async def burst(run: Run, first: int, count: int, tool: str = "bench.echo") -> float:
    """Return calls per second from the first dispatch to the last result, a turn at a time."""
    started = time.perf_counter()
    turns = [
        run.call_many([request(n, tool) for n in range(start, start + PER_TURN)], timeout_s=120)
        for start in range(first, first + count, PER_TURN)
    ]
    results = [result for turn in await asyncio.gather(*turns) for result in turn]
    took_s = time.perf_counter() - started
    check(results)
    return len(results) / took_s


def check(results: Sequence[ToolResult]) -> None:
    """A refused call is quick, so it must not be counted as a fast one."""
    failed = [result.error_code for result in results if result.is_error]
    if failed:
        raise SystemExit(f"{len(failed)} calls failed, the first with {failed[0]}")


async def clients(run: Run, first: int, count: int, at_once: int) -> tuple[float, list[float]]:
    """Return calls per second and each call's seconds, with so many callers at once."""
    numbers = iter(range(first, first + count))
    latencies: list[float] = []

    async def caller() -> None:
        for number in numbers:
            started = time.perf_counter()
            check([await run.wait(await run.dispatch(request(number)), timeout_s=60)])
            latencies.append(time.perf_counter() - started)

    started = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    return count / (time.perf_counter() - started), latencies


async def bare(url: str, count: int) -> float:
    """Return how many calls per second their bare round trips alone would allow."""
    redis = connect(url, timeout_s=10, name="bench")
    trips = RoundTrips(redis)
    started = time.perf_counter()
    for _ in range(ROUND_TRIPS_OF_A_CALL):
        await asyncio.gather(*(trips.send("ECHO", "x" * 300) for _ in range(count)))
    rate = count / (time.perf_counter() - started)
    await redis.aclose()
    return rate


async def main(calls: int) -> None:
    """Print one table."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            tool_modules=("tests.bench.bench_tools",), policy_dir=write_policy(Path(folder) / "p")
        )
        async with (
            Cluster(Path(folder), settings=settings, scale={"builtin": 1}) as cluster,
            cluster.client() as rail,
        ):
            run = await rail.open_run(profile="bench")
            await burst(run, 0, 1000)
            limit = await bare(cluster.settings.redis_url, calls)
            drain = await burst(run, 10_000, calls)
            process = await burst(run, 200_000, calls // 4, "bench.echo_process")
            rate32, _ = await clients(run, 300_000, calls // 2, 32)
            _, alone = await clients(run, 400_000, 300, 1)
            await run.complete()
    rows = {
        "burst, calls/s": f"{drain:,.0f}",
        "burst through child processes, calls/s": f"{process:,.0f}",
        "32 callers, calls/s": f"{rate32:,.0f}",
        "one caller, p50": f"{statistics.median(alone) * 1000:.2f} ms",
        "bare Redis round trips, calls/s": f"{limit:,.0f}",
        "share of that": f"{drain / limit:.2f}",
    }
    for name, value in rows.items():
        print(f"{name:>40}: {value}")  # the result


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000))
