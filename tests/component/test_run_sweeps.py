"""The reaper and large runs: a bounded piece of one in each pass, nothing lost, nothing started."""

import asyncio
import itertools
from typing import cast

from tests.workers import WorkerBench
from toolrail.ledger import Claim, Held, Refusal, Renewal, RunEnd
from toolrail.redis_io import command
from toolrail_workers.assembly import create_books
from toolrail_workers.run_sweeps import AGAIN_MS, RunSweeps

CALLS, RUNNING, AT_ONCE = 300, 150, 64
EXPIRED_AT_ONCE = 1_000
"""As in the prelude: a run with more calls is left to the reaper."""


def sweeps_of(bench: WorkerBench) -> RunSweeps:
    """Return sweeps that look at so many calls in one pass."""
    books = create_books(
        bench.settings,
        bench.calls.redis,
        doorbell=bench.calls.doorbell,
        actor="runtime:test",
        deadline_s=5.0,
    )
    return RunSweeps(books, calls_max=AT_ONCE)


async def queue(bench: WorkerBench, count: int) -> list[str]:
    """Queue so many calls of the bench's run; return their keys."""
    calls = [bench.calls.new_call(f"c{number}") for number in range(count)]
    await asyncio.gather(*map(bench.calls.ledger.dispatch, calls))
    return [call.call_key for call in calls]


async def ask_for(bench: WorkerBench, call_key: str) -> Claim | Refusal:
    """Ask for a call as a worker does."""
    return await bench.calls.ledger.claim(
        bench.calls.run_id, call_key, attempt=1, nonce="n", worker="w", lease_ms=60_000
    )


async def claim(bench: WorkerBench, call_key: str) -> Claim:
    """Take a call as a worker does."""
    granted = await ask_for(bench, call_key)
    assert isinstance(granted, Claim)
    return granted


async def end_run(bench: WorkerBench) -> RunEnd:
    """Cancel the bench's run."""
    ledger = bench.calls.ledger
    return await ledger.end_run(bench.calls.run_id, status="cancelled", code="x.y", actor="user:x")


async def count_open(bench: WorkerBench, run_id: str) -> int:
    """Return how many calls of a run have no outcome."""
    key = bench.calls.keys.open_calls(run_id)
    return cast("int", await command(bench.calls.redis, "SCARD", key))


async def test_a_large_run_ends_in_bounded_passes_and_nothing_of_it_starts(
    bench: WorkerBench,
) -> None:
    """A pass looks at about as many calls as it may, and the next goes on behind those that run."""
    calls, sweeps = bench.calls, sweeps_of(bench)
    keys = await queue(bench, CALLS)
    running, waiting = keys[:RUNNING], keys[RUNNING:]
    fences = {key: (await claim(bench, key)).fence for key in running}
    end = await end_run(bench)
    left, claims = [CALLS], set[Claim | Refusal]()
    for _ in range(CALLS // AT_ONCE + 4):
        claims |= {await ask_for(bench, key) for key in waiting[-5:]}
        await sweeps.ending(await calls.reader.now_ms() + 1)
        left.append(await count_open(bench, calls.run_id))
    status = await bench.run_status()
    stopped = [await calls.ending(f"c{n}", code="tool.cancelled") for n in range(RUNNING)]
    for key, ending in zip(running, stopped, strict=True):
        await calls.ledger.finish(calls.run_id, key, ending, fence=fences[key], actor="worker:w")
    totals = await calls.reader.totals()

    assert (end.status, len(end.open_calls)) == ("ending", 100)
    assert max(before - after for before, after in itertools.pairwise(left)) <= 2 * AT_ONCE
    assert left[-1] == RUNNING
    assert claims <= {Refusal.RUN_CLOSED, Refusal.DUP_DONE}
    assert (status, await bench.run_status()) == ("open", "cancelled")
    assert totals["finished:builtin:cancelled"] == CALLS


async def test_a_large_run_does_not_keep_others_from_their_end(bench: WorkerBench) -> None:
    """Whoever was not looked at in this pass comes first in the next."""
    calls, sweeps = bench.calls, sweeps_of(bench)
    await queue(bench, CALLS)
    await end_run(bench)
    large = calls.run_id
    await calls.open_run()
    await queue(bench, 1)
    await end_run(bench)
    for _ in range(2):
        await sweeps.ending(await calls.reader.now_ms())

    assert await bench.run_status() == "cancelled"
    assert await count_open(bench, large) > 0
    while await count_open(bench, large):
        await sweeps.ending(await calls.reader.now_ms())


async def test_a_running_call_is_told_once_that_its_run_ends(bench: WorkerBench) -> None:
    """The mark in its record stays, and every renewal carries it; the hint is not repeated."""
    calls, sweeps = bench.calls, sweeps_of(bench)
    [key] = await queue(bench, 1)
    running = await claim(bench, key)
    await end_run(bench)
    for times in range(3):
        await sweeps.ending(await calls.reader.now_ms() + 2 * times * AGAIN_MS)
    nudges = await command(calls.redis, "XLEN", calls.keys.nudge("w"))
    held = Held(calls.run_id, key, running.fence)

    assert nudges == 1
    assert await calls.ledger.renew([held], lease_ms=60_000) == [Renewal.CANCEL]


async def test_the_calls_of_a_large_run_expire_in_bounded_passes(bench: WorkerBench) -> None:
    """All of them, with their run; a reaper that dies in between leaves the rest to the next."""
    calls = bench.calls
    refusal = await calls.ending("c0", code="policy.denied")
    await calls.open_run(max_denied=EXPIRED_AT_ONCE * 2)
    denied = [
        calls.new_call(f"c{number}", state="denied", ending=refusal)
        for number in range(EXPIRED_AT_ONCE + 1)
    ]
    await asyncio.gather(*map(calls.ledger.dispatch, denied))
    await end_run(bench)
    passes = 0
    while await command(calls.redis, "ZCARD", calls.keys.ended):
        await sweeps_of(bench).ended(await calls.reader.now_ms())
        passes += 1
    kept = [
        call.call_key
        for call in denied
        if await command(calls.redis, "PTTL", calls.keys.call(calls.run_id, call.call_key)) == -1
    ]

    assert passes > EXPIRED_AT_ONCE // AT_ONCE
    assert kept == []
