"""Lost doorbells: rung again once, and no other call is rung for."""

from tests.workers import WorkerBench
from toolrail.doorbell import read_envelope
from toolrail.redis_io import command


async def test_a_lost_doorbell_is_rung_again_once(bench: WorkerBench) -> None:
    """However often the reaper looks, as long as the new one is there."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    await bench.dispatch_unheard("c1", spec)

    async def has_rung() -> bool:
        return await bench.queue_length() == 1

    await bench.tick_until(reaper, has_rung, "the doorbell is rung again")
    for _ in range(3):
        await bench.clock_moves(100)
        await bench.tick(reaper)

    assert await bench.total("rerung:builtin") == 1
    assert await bench.queue_length() == 1


async def test_only_calls_before_the_oldest_message_are_lost(bench: WorkerBench) -> None:
    """A long backlog is not rung again; the one lost in its middle is not known yet."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    await bench.dispatch_unheard("lost", spec)
    for number in range(50):
        await bench.dispatch(f"c{number}", spec)
    await bench.dispatch_unheard("lost later", spec)
    for _ in range(4):
        await bench.tick(reaper)
        await bench.clock_moves(100)

    assert await bench.total("rerung:builtin") == 1
    assert await bench.queue_length() == 51
    newest = await command(bench.calls.redis, "LINDEX", bench.calls.keys.queue("builtin"), 0)
    bell = read_envelope(str(newest))
    assert bell is not None
    assert bell.call_key == bench.calls.key("lost")


async def test_a_doorbell_on_its_way_into_a_claim_is_not_lost(bench: WorkerBench) -> None:
    """Popped and not yet claimed looks like lost; the grace tells them apart."""
    spec, reaper = bench.add("demo.echo"), bench.reaper(ring_grace_s=60.0)
    await bench.dispatch("c1", spec)
    await bench.pop()
    await bench.tick(reaper)
    await bench.tick(reaper)

    assert await bench.queue_length() == 0


async def test_stale_and_foreign_messages_do_not_mislead(bench: WorkerBench) -> None:
    """Messages that mean nothing are looked past; one with a forged name is not believed."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    queue = bench.calls.keys.queue("builtin")
    await bench.dispatch("done", spec)
    await bench.cancel("done")
    await bench.dispatch("waits", spec)
    forged = bench.bell("waits").model_copy(update={"mac": "0" * 64})
    text = bench.calls.doorbell.inline("builtin", forged)
    await command(bench.calls.redis, "RPUSH", queue, text, "no message at all")
    await bench.dispatch_unheard("behind", spec)
    for _ in range(3):
        await bench.tick(reaper)
        await bench.clock_moves(100)

    assert await bench.total("rerung:builtin") == 0


async def test_a_foreign_broker_is_rung_by_age_with_growing_patience(bench: WorkerBench) -> None:
    """Nobody can look into it, so a call that waits is rung for, ever less often."""
    spec = bench.add("demo.echo")
    reaper = bench.reaper(broker_url="memory://")
    record = bench.calls.keys.call(bench.calls.run_id, bench.calls.key("c1"))
    await bench.dispatch_unheard("c1", spec)
    await bench.tick(reaper)
    at_once = await bench.total("rerung:builtin")
    now = await bench.calls.reader.now_ms()
    await command(bench.calls.redis, "HSET", record, "rung_ms", now - 11_000)
    await bench.tick(reaper)
    first = await bench.total("rerung:builtin")
    await command(bench.calls.redis, "HSET", record, "rung_ms", now - 11_000)
    await bench.tick(reaper)

    assert (at_once, first) == (0, 1)
    assert await bench.total("rerung:builtin") == 1
