"""The reaper: every accepted call ends, once, whatever happened to doorbell, worker or client."""

import asyncio
from dataclasses import replace

import pytest

from tests.functions import SENDS, Gate
from tests.waiting import await_until
from tests.workers import WorkerBench
from toolrail.doorbell import RedisDoorbell
from toolrail.ledger import Claim
from toolrail.redis_io import command
from toolrail_schemas import ToolSpec
from toolrail_workers.assembly import create_books
from toolrail_workers.letter_sweep import EVERY_MS, PAGE, ForgottenLetters
from toolrail_workers.run_sweeps import RunSweeps


async def claim(bench: WorkerBench, call_id: str, spec: ToolSpec, **fields: str | int) -> Claim:
    """Queue a call, take its doorbell away and claim it for a worker that will never come back."""
    await bench.dispatch(call_id, spec, **fields)
    await bench.pop()
    calls = bench.calls
    claimed = await calls.ledger.claim(
        calls.run_id, calls.key(call_id), attempt=1, nonce="n", worker="lost", lease_ms=60_000
    )
    assert isinstance(claimed, Claim)
    return claimed


async def test_a_lost_attempt_of_a_reading_tool_runs_again(bench: WorkerBench) -> None:
    """Under the next attempt, which another worker finishes."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    await claim(bench, "c1", spec)
    await bench.end_lease("c1")
    await bench.tick(reaper)
    await bench.start_worker()
    result = await bench.result("c1")

    assert not result.is_error
    assert result.usage.attempts == 2
    assert (await bench.calls.kinds())[3:] == [
        "tool_call_started",
        "tool_attempt_lost",
        "tool_call_started",
        "tool_result_stored",
        "tool_call_completed",
    ]


async def test_a_lost_attempt_of_any_other_tool_is_never_repeated(bench: WorkerBench) -> None:
    """The caller is told that nobody knows."""
    spec, reaper = bench.add("demo.send", annotations=SENDS), bench.reaper()
    await claim(bench, "c1", spec)
    await bench.end_lease("c1")
    await bench.tick(reaper)

    assert (await bench.result("c1")).error_code == "tool.outcome_unknown"
    assert await bench.queue_length() == 0


async def test_attempts_that_are_used_up_go_to_the_dead_letters(bench: WorkerBench) -> None:
    """An operator sees what kills workers."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    await claim(bench, "c1", spec, max_attempts=1)
    await bench.end_lease("c1")
    await bench.tick(reaper)
    letters = await command(bench.calls.redis, "ZRANGE", bench.calls.keys.dead_letters, 0, -1)

    assert (await bench.result("c1")).error_code == "tool.worker_lost"
    assert letters == [f"{bench.calls.run_id}|{bench.calls.key('c1')}"]


async def test_a_call_that_may_not_run_again_is_a_dead_letter_at_once(bench: WorkerBench) -> None:
    """Its one attempt is used up, and nobody but an operator can look whether its effect came."""
    spec, reaper = bench.add("demo.send", annotations=SENDS), bench.reaper()
    await claim(bench, "c1", spec)
    await bench.end_lease("c1")
    await bench.tick(reaper)
    letters = await command(bench.calls.redis, "ZRANGE", bench.calls.keys.dead_letters, 0, -1)

    assert letters == [f"{bench.calls.run_id}|{bench.calls.key('c1')}"]
    assert await bench.total("dead_letter:builtin") == 1


async def test_a_dead_letter_is_forgotten_with_its_call(bench: WorkerBench) -> None:
    """The list does not grow for ever; a letter whose record stands is left alone, on any page."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    await claim(bench, "c1", spec, max_attempts=1)
    await bench.end_lease("c1")
    await bench.tick(reaper)
    redis, zset = bench.calls.redis, bench.calls.keys.dead_letters
    for number in range(PAGE + 10):
        await command(redis, "ZADD", zset, number, f"run_gone|{number}")
    books = create_books(
        bench.settings, redis, doorbell=RedisDoorbell(), actor="runtime:test", deadline_s=5
    )
    letters = ForgottenLetters(books)
    for minute in range(3):
        await letters.sweep(minute * EVERY_MS)
        await letters.sweep(minute * EVERY_MS + 1)
    left = await command(redis, "ZRANGE", zset, 0, -1)

    assert left == [f"{bench.calls.run_id}|{bench.calls.key('c1')}"]


async def test_a_lost_call_that_was_cancelled_does_not_run_again(bench: WorkerBench) -> None:
    """The cancel outlives its worker."""
    spec, reaper = bench.add("demo.echo"), bench.reaper()
    await claim(bench, "c1", spec)
    await bench.cancel("c1")
    await bench.end_lease("c1")
    await bench.tick(reaper)

    assert (await bench.result("c1")).error_code == "tool.cancelled"


async def test_a_lease_that_is_kept_is_left_alone(bench: WorkerBench) -> None:
    """Renewals are what keeps it."""
    gate = Gate()
    spec, reaper = bench.add("demo.gate", gate), bench.reaper()
    await bench.start_worker(lease_s=0.4)
    await bench.dispatch("c1", spec)
    await gate.entered.wait()
    for _ in range(3):
        await bench.clock_moves(200)
        await bench.tick(reaper)
    gate.open.set()

    assert not (await bench.result("c1")).is_error
    assert "tool_attempt_lost" not in await bench.calls.kinds()


async def test_two_reapers_at_once_give_one_outcome(bench: WorkerBench) -> None:
    """Leadership is no lock; the guards decide."""
    reads, sends = bench.add("demo.echo"), bench.add("demo.send", annotations=SENDS)
    first, second = bench.reaper("first"), bench.reaper("second")
    for number in range(10):
        await claim(bench, f"r{number}", reads)
        await claim(bench, f"s{number}", sends)
        await bench.end_lease(f"r{number}")
        await bench.end_lease(f"s{number}")
    await asyncio.gather(*(bench.tick(reaper) for reaper in (first, second) * 3))
    kinds = await bench.calls.kinds()

    assert kinds.count("tool_attempt_lost") == 10
    assert kinds.count("tool_call_failed") == 10
    assert await bench.queue_length() == 10


async def test_one_reaper_leads_until_it_lets_go(bench: WorkerBench) -> None:
    """A drained worker hands the duty over at once."""
    first, second = bench.reaper("first"), bench.reaper("second")
    leader = bench.calls.keys.reaper_leader
    await first.tick()
    await second.tick()
    before = await command(bench.calls.redis, "GET", leader)
    await second.release()
    await first.release()
    await second.tick()

    assert before == "first"
    assert await command(bench.calls.redis, "GET", leader) == "second"


async def test_a_result_that_comes_late_is_journaled_and_discarded(bench: WorkerBench) -> None:
    """The first attempt was lost and came back: the second one's result stands."""
    gate = Gate()
    spec, reaper = bench.add("demo.gate", gate), bench.reaper()
    await bench.start_worker(renew_s=10.0)
    await bench.dispatch("c1", spec)
    await gate.entered.wait()
    await bench.end_lease("c1")
    await bench.tick(reaper)
    await await_until(lambda: len(bench.executor.started) == 2, "the second attempt runs")
    gate.open.set()
    await bench.ended("c1")

    async def is_journaled() -> bool:
        return "tool_result_late" in await bench.calls.kinds()

    await await_until(is_journaled, "the late result is journaled")
    assert (await bench.result("c1")).usage.attempts == 2
    assert await bench.total("late:builtin") == 1
    assert (await bench.calls.kinds()).count("tool_call_completed") == 1


async def test_a_worker_that_lost_its_lease_stops_its_tool(bench: WorkerBench) -> None:
    """It learns of it at the next renewal, and finishes nothing."""
    gate = Gate()
    spec, reaper = bench.add("demo.send", gate, annotations=SENDS), bench.reaper()
    await bench.start_worker()
    await bench.dispatch("c1", spec)
    await gate.entered.wait()

    async def is_settled() -> bool:
        # A renewal may come between, and make the lease good again.
        await bench.end_lease("c1")
        return (await bench.calls.call("c1")).is_terminal

    await bench.tick_until(reaper, is_settled, "the call is settled")
    await await_until(lambda: gate.was_cancelled, "the tool is stopped")

    assert (await bench.result("c1")).error_code == "tool.outcome_unknown"
    assert await bench.total("late:builtin") == 0


async def test_an_approval_nobody_gave_is_a_denial(bench: WorkerBench) -> None:
    """The model reads that nobody answered; the run goes on."""
    reaper = bench.reaper()
    await bench.calls.ledger.dispatch(await bench.calls.parked_call("c1", expires_in_ms=1))
    await bench.clock_moves(1)
    await bench.tick(reaper)
    record = await bench.calls.call("c1")
    denied = (await bench.calls.events())[-1]

    assert (await bench.result("c1")).error_code == "approval.expired"
    assert (record.state, record.fields["approval_state"]) == ("denied", "expired")
    assert denied.payload["denied_by"] == "expiry"
    assert await bench.run_status() == "open"


async def test_a_call_past_its_deadline_times_out_in_the_queue(bench: WorkerBench) -> None:
    """No worker ever came for it."""
    reaper, call = bench.reaper(), bench.calls.new_call("c1")
    await bench.calls.ledger.dispatch(replace(call, deadline_ms=1))
    await bench.clock_moves(1)
    await bench.tick(reaper)
    result = await bench.result("c1")

    assert result.error_code == "tool.timeout"
    assert result.usage.attempts == 0


async def test_a_run_that_ends_closes_what_it_has_open(bench: WorkerBench) -> None:
    """Waiting, parked and running calls get an outcome before the run does."""
    gate = Gate()
    spec, reaper = bench.add("demo.gate", gate), bench.reaper()
    runtime = await bench.start_worker()
    await bench.dispatch("runs", spec)
    await gate.entered.wait()
    await bench.stop_pop(runtime)
    await bench.dispatch("waits", spec)
    await bench.calls.ledger.dispatch(await bench.calls.parked_call("parked"))
    calls = bench.calls
    await calls.ledger.end_run(calls.run_id, status="failed", code="x.y", actor="runtime:test")

    async def has_ended() -> bool:
        return await bench.run_status() == "failed"

    await bench.tick_until(reaper, has_ended, "the run has ended")
    kinds = await bench.calls.kinds()

    assert gate.was_cancelled
    assert kinds.count("tool_call_failed") == 3
    assert kinds[-1] == "run_failed"
    for call_id in ("runs", "waits", "parked"):
        assert (await bench.result(call_id)).error_code == "tool.cancelled"


async def test_a_run_that_was_left_is_abandoned(bench: WorkerBench) -> None:
    """A day without a call, and nothing open; a run with an open call is waited for."""
    calls = bench.calls
    left = calls.run_id
    waits = await calls.open_run()
    spec = bench.add("demo.echo")
    await bench.dispatch("c1", spec)
    books = create_books(
        bench.settings, calls.redis, doorbell=calls.doorbell, actor="runtime:test", deadline_s=5.0
    )
    sweeps = RunSweeps(books, idle_ms=50)

    async def is_abandoned() -> bool:
        await sweeps.idle(await calls.reader.now_ms())
        run = await calls.reader.run(left)
        return run is not None and run["status"] == "failed"

    await await_until(is_abandoned, "the run is abandoned")
    run, other = await calls.reader.run(left), await calls.reader.run(waits)

    assert run is not None
    assert run["code"] == "run.abandoned"
    assert other is not None
    assert other["status"] == "open"


async def test_a_broken_journal_lets_no_further_effect_start(bench: WorkerBench) -> None:
    """The run fails out of band, what runs is stopped, and every call has an outcome."""
    gate = Gate()
    spec, reaper = bench.add("demo.gate", gate), bench.reaper()
    runtime = await bench.start_worker(pops=False)
    await bench.dispatch("runs", spec)
    await bench.dispatch("waits", spec)
    handling = asyncio.create_task(runtime.handle(bench.bell("runs")))
    await gate.entered.wait()
    journal = bench.calls.keys.journal(bench.calls.run_id)
    await command(bench.calls.redis, "DEL", journal)
    await command(bench.calls.redis, "SET", journal, "broken", "PX", 60_000)
    await runtime.handle(bench.bell("waits"))

    async def is_closed() -> bool:
        runs, waits = await bench.calls.call("runs"), await bench.calls.call("waits")
        return runs.is_terminal and waits.is_terminal

    await bench.tick_until(reaper, is_closed, "both calls have an outcome")
    await handling
    run = await bench.calls.reader.run(bench.calls.run_id)

    assert run is not None
    assert (run["status"], run["code"]) == ("failed", "journal.append_failed")
    assert bench.executor.started == ["runs"]
    assert gate.was_cancelled


@pytest.mark.one_redis
async def test_records_that_are_gone_do_not_come_up_for_ever(bench: WorkerBench) -> None:
    """A zset may outlive what it speaks of, after a restore from a backup."""
    calls, reaper = bench.calls, bench.reaper()
    asked = calls.keys.asked("mcp")
    for zset in (calls.keys.leases, calls.keys.deadlines, calls.keys.approvals, asked):
        await command(calls.redis, "ZADD", zset, 1, f"{calls.run_id}|{'0' * 16}")
    for zset in (calls.keys.runs, calls.keys.ending):
        await command(calls.redis, "ZADD", zset, 1, "run_gone")
    await bench.tick(reaper)
    left = [
        await command(calls.redis, "ZRANGEBYSCORE", zset, 1, 1)
        for zset in (
            calls.keys.leases,
            calls.keys.deadlines,
            calls.keys.approvals,
            asked,
            calls.keys.runs,
            calls.keys.ending,
        )
    ]

    assert left == [[], [], [], [], [], []]
