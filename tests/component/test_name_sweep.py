"""Places in the counters by tool: given up by tools that are gone, when others need them."""

import pytest

from tests.policies import native
from tests.totals import Totals
from tests.workers import WorkerBench
from toolrail.doorbell import RedisDoorbell
from toolrail.ledger.places import ToolPlaces
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail_workers.assembly import create_books
from toolrail_workers.name_sweep import EVERY_MS, NEARLY_ALL, FormerTools

OFFERED = "demo.echo"


def sweeper(bench: WorkerBench) -> FormerTools:
    """Return a sweep that has not run yet."""
    books = create_books(
        bench.settings,
        bench.calls.redis,
        doorbell=RedisDoorbell(),
        actor="runtime:reaper",
        deadline_s=5,
    )
    return FormerTools(books)


async def take_places(bench: WorkerBench, taken: int) -> None:
    """Count a call of an offered tool, one of a former tool, and pretend that more are taken."""
    registry = Registry(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5)
    await registry.announce("builtin", "builtin", [native(OFFERED)], worker="w", available=True)
    for call_id, tool in {"c1": OFFERED, "c2": "demo.a:former"}.items():
        calls = bench.calls
        await calls.ledger.dispatch(calls.new_call(call_id, tool=tool))
        await calls.ledger.claim(
            calls.run_id, calls.key(call_id), attempt=1, nonce="n", worker="w", lease_ms=60_000
        )
        ending = await calls.ending(call_id)
        await calls.ledger.finish(calls.run_id, calls.key(call_id), ending, fence=1, actor="w")
    await command(bench.calls.redis, "HSET", bench.calls.keys.totals_tools, "names", taken)


async def named(bench: WorkerBench) -> set[str]:
    """Return the tools that have counters of their own."""
    totals = await Totals.read(bench.calls.redis, bench.calls.keys)
    return {name.rpartition("builtin:")[2] for name in totals.tools if ":builtin:" in name}


async def test_a_tool_that_nobody_offers_gives_its_place_to_others(bench: WorkerBench) -> None:
    """All of its fields go, those of tools that exist stay."""
    await take_places(bench, NEARLY_ALL)
    await sweeper(bench).sweep(EVERY_MS)
    places = ToolPlaces(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5)

    assert await named(bench) == {OFFERED}
    assert await places.taken() == NEARLY_ALL - 1


async def test_nothing_is_given_up_while_there_is_room(bench: WorkerBench) -> None:
    """A counter that somebody may still look at does no harm."""
    await take_places(bench, NEARLY_ALL - 1)
    await sweeper(bench).sweep(EVERY_MS)

    assert await named(bench) == {OFFERED, "demo.a:former"}


async def test_a_place_given_up_twice_is_counted_once(bench: WorkerBench) -> None:
    """Two reapers, or a lost reply, free no place that is not there."""
    await take_places(bench, NEARLY_ALL)
    places = ToolPlaces(bench.calls.redis, prefix=bench.settings.key_prefix, deadline_s=5)
    freed = [await places.retire({f"builtin:{OFFERED}"}) for _ in range(2)]

    assert freed == [1, 0]
    assert await places.taken() == NEARLY_ALL - 1


@pytest.mark.one_redis
async def test_it_looks_every_ten_minutes(bench: WorkerBench) -> None:
    """The reaper ticks once a second, and reading all names is not for every tick."""
    sweep = sweeper(bench)
    await sweep.sweep(EVERY_MS)
    await take_places(bench, NEARLY_ALL)
    await sweep.sweep(2 * EVERY_MS - 1)
    before = await named(bench)
    await sweep.sweep(2 * EVERY_MS)

    assert before == {OFFERED, "demo.a:former"}
    assert await named(bench) == {OFFERED}
