"""Each guard of the scripts, one at a time: what it refuses must not happen.

Written after a review deleted guards one by one and found the tests still green.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import cast

import pytest

from tests.calls import SPEC_HASH, LedgerBench, ledger_bench
from toolrail.errors import CallConflict, RunClosed
from toolrail.ledger import Claim, Dispatched, Held, Refusal, Renewal, unaccounted
from toolrail.redis_io import command
from toolrail.settings import Settings


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[LedgerBench]:
    """Give a bench, and balance the books afterwards."""
    async with ledger_bench(settings) as bench:
        yield bench

        assert unaccounted(await bench.reader.totals()) == 0


async def claim(bench: LedgerBench, call_id: str, *, lease_ms: int = 60_000) -> Claim | Refusal:
    """Claim the first attempt of a call."""
    return await bench.ledger.claim(
        bench.run_id, bench.key(call_id), attempt=1, nonce="n", worker="w", lease_ms=lease_ms
    )


async def started(bench: LedgerBench, call_id: str, *, lease_ms: int = 60_000) -> Claim:
    """Dispatch and claim a call."""
    await bench.ledger.dispatch(bench.new_call(call_id))
    granted = await claim(bench, call_id, lease_ms=lease_ms)
    assert isinstance(granted, Claim)
    return granted


async def end(bench: LedgerBench, status: str, code: str = "") -> None:
    """Begin the run's end."""
    await bench.ledger.end_run(bench.run_id, status=status, code=code, actor="runtime:test")


async def close(bench: LedgerBench, call_id: str, guard: str, code: str = "tool.cancelled") -> str:
    """Close a call without a worker; return what the ledger did."""
    closed = await bench.ledger.finish(
        bench.run_id,
        bench.key(call_id),
        await bench.ending(call_id, code=code),
        fence=(await bench.call(call_id)).number("fence"),
        actor="runtime:test",
        guard=guard,
    )
    return closed.status


async def approve(bench: LedgerBench, call_id: str) -> Dispatched:
    """Say yes to a parked call."""
    call = await bench.call(call_id)
    return await bench.ledger.approve(
        bench.run_id,
        call.call_key,
        bench.approval(call.call_key, args_sha256=call.fields["args_sha256"]),
    )


async def status(bench: LedgerBench) -> tuple[str, str]:
    """Return how the run ended, and why."""
    record = await bench.reader.run(bench.run_id)
    assert record is not None
    return record["status"], record.get("code", "")


async def test_nothing_is_approved_in_an_ending_run(bench: LedgerBench) -> None:
    """A person's yes comes too late for a run that is being cancelled."""
    running = await started(bench, "running")
    await bench.ledger.dispatch(await bench.parked_call("parked"))
    await end(bench, "cancelled")

    with pytest.raises(RunClosed):
        await approve(bench, "parked")
    await close(bench, "parked", "awaiting_approval")
    await bench.ledger.finish(
        bench.run_id,
        running.call_key,
        await bench.ending("running"),
        fence=running.fence,
        actor="worker:w",
    )

    assert (await status(bench))[0] == "cancelled"


async def test_nothing_starts_in_an_ending_run(bench: LedgerBench) -> None:
    """A queued call of a failing run is not claimed, however quick the worker."""
    running = await started(bench, "running")
    await bench.ledger.dispatch(bench.new_call("queued"))
    await end(bench, "failed", "a.reason")
    refused = await claim(bench, "queued")
    news = await bench.ledger.renew(
        [Held(bench.run_id, running.call_key, running.fence)], lease_ms=60_000
    )

    assert refused is Refusal.RUN_CLOSED
    assert news == [Renewal.CANCEL]


async def test_a_lost_call_is_not_queued_again_in_an_ending_run(bench: LedgerBench) -> None:
    """Its next attempt could never be claimed."""
    lost = await started(bench, "c1", lease_ms=0)
    await end(bench, "cancelled")
    requeued = await bench.ledger.requeue(
        bench.run_id,
        lost.call_key,
        fence=lost.fence,
        attempt=2,
        envelope=bench.envelope(lost.call_key, 2),
        actor="runtime:reaper",
    )

    assert not requeued
    assert await close(bench, "c1", "lost", "tool.worker_lost") == "closed"


async def test_the_first_end_of_a_run_stands(bench: LedgerBench) -> None:
    """A cancel that began is not turned into a failure or a completion by what comes later."""
    running = await started(bench, "running")
    await end(bench, "cancelled", "first")
    await end(bench, "failed", "second")
    broken = replace(await bench.ending("running"), run_end="failed", run_end_code="third")
    await bench.ledger.finish(
        bench.run_id, running.call_key, broken, fence=running.fence, actor="worker:w"
    )

    assert await status(bench) == ("cancelled", "first")


async def test_a_failure_overrides_a_completion_that_has_not_happened(bench: LedgerBench) -> None:
    """A run never reports success over a system failure."""
    finish, other = await started(bench, "finish"), await started(bench, "other")
    done = replace(await bench.ending("c"), run_end="completed")
    broken = replace(await bench.ending("c"), run_end="failed", run_end_code="a.reason")
    for claimed, ending in ((finish, done), (other, broken)):
        await bench.ledger.finish(
            bench.run_id, claimed.call_key, ending, fence=claimed.fence, actor="worker:w"
        )

    assert await status(bench) == ("failed", "a.reason")


async def test_a_result_that_was_not_journaled_is_not_given_out(bench: LedgerBench) -> None:
    """Neither the record nor the inbox has it."""
    running = await started(bench, "c1")
    journal = bench.keys.journal(bench.run_id)
    await command(bench.redis, "DEL", journal)
    await command(bench.redis, "SET", journal, "not a stream", "EX", 60)
    await bench.ledger.finish(
        bench.run_id,
        running.call_key,
        await bench.ending("c1", text="secret"),
        fence=running.fence,
        actor="worker:w",
    )
    inbox = str(await command(bench.redis, "XRANGE", bench.keys.inbox("client1"), "-", "+"))

    assert "secret" not in inbox
    assert "secret" not in str((await bench.call("c1")).fields)


async def test_a_doorbell_is_rung_again_once_per_ring(bench: LedgerBench) -> None:
    """Two reapers that saw the same ring put one message, and the wait is still counted whole."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    key, queue = bench.key("c1"), bench.keys.queue("builtin")
    queued_ms = (await bench.call("c1")).number("queued_ms")
    ring = await bench.reader.ring_number("builtin", f"{bench.run_id}|{key}")
    assert ring is not None
    await command(bench.redis, "DEL", queue)
    rung = [
        await bench.ledger.ring(
            bench.run_id, key, attempt=1, ring=ring, envelope=bench.envelope(key)
        )
        for _ in range(2)
    ]

    assert rung == [True, False]
    assert await command(bench.redis, "LLEN", queue) == 1
    assert (await bench.call("c1")).number("queued_ms") == queued_ms
    await close(bench, "c1", "queued")


async def test_while_a_finishing_call_is_open_no_other_is_taken(bench: LedgerBench) -> None:
    """Neither dispatched nor approved; afterwards the run would be over."""
    await bench.ledger.dispatch(await bench.parked_call("parked"))
    early = await bench.ledger.dispatch(bench.new_call("finish", alone=True))
    await close(bench, "parked", "awaiting_approval")
    taken = await bench.ledger.dispatch(bench.new_call("finish", alone=True))
    late = await bench.ledger.dispatch(bench.new_call("late"))
    await close(bench, "finish", "queued")
    after = await bench.ledger.dispatch(bench.new_call("late"))

    assert (early.status, taken.status) == ("calls_pending", "accepted")
    assert (late.status, after.status) == ("after_finish", "accepted")


async def test_a_parked_finish_is_approved_only_when_it_is_alone(bench: LedgerBench) -> None:
    """While a person thought, other calls came in."""
    parked = await bench.parked_call("finish")
    await bench.ledger.dispatch(replace(parked, alone=True))
    await bench.ledger.dispatch(bench.new_call("other"))
    refused = await approve(bench, "finish")
    await close(bench, "other", "queued")
    taken = await approve(bench, "finish")

    assert (refused.status, taken.status) == ("calls_pending", "accepted")


async def test_an_open_calls_id_is_not_used_by_another_turn(bench: LedgerBench) -> None:
    """Their results could not be told apart; once the first has ended, the id is free."""
    await bench.ledger.dispatch(bench.new_call("c1", turn=0))
    with pytest.raises(CallConflict, match=r"of another turn .* still open"):
        await bench.ledger.dispatch(bench.new_call("c1", turn=1))
    with pytest.raises(CallConflict, match="before in this turn with other content"):
        await bench.ledger.dispatch(replace(bench.new_call("c1", turn=0), digest="f" * 64))
    await close(bench, "c1", "queued")

    assert (await bench.ledger.dispatch(bench.new_call("c1", turn=1))).status == "accepted"


async def test_a_turns_cap_counts_parked_calls_and_asks_nobody_beyond_it(
    bench: LedgerBench,
) -> None:
    """A person is not asked about a call that has no budget."""
    calls = [await bench.parked_call(f"c{n}") for n in range(3)]
    statuses = [(await bench.ledger.dispatch(replace(call, cap_turn=2))).status for call in calls]

    assert statuses == ["accepted", "accepted", "over_turn_budget"]


async def test_the_same_close_again_is_no_conflict(bench: LedgerBench) -> None:
    """A lost reply is retried; the second time is the first time again."""
    await bench.ledger.dispatch(await bench.parked_call("c1"))
    ending = await bench.ending("c1", code="approval.denied")

    async def deny() -> str:
        closed = await bench.ledger.finish(
            bench.run_id,
            bench.key("c1"),
            ending,
            fence=0,
            actor="user:ann",
            guard="undecided",
            approval_state="denied",
        )
        return closed.status

    assert [await deny(), await deny()] == ["closed", "duplicate"]


async def test_refusals_by_people_count_against_the_drift_limit(bench: LedgerBench) -> None:
    """A model that goes on asking is stopped."""
    for n in range(3):
        await bench.ledger.dispatch(await bench.parked_call(f"c{n}"))
        await bench.ledger.finish(
            bench.run_id,
            bench.key(f"c{n}"),
            await bench.ending(f"c{n}", code="approval.denied"),
            fence=0,
            actor="user:ann",
            guard="undecided",
            approval_state="denied",
        )

    assert await status(bench) == ("failed", "run.drift_limit")


async def test_a_call_is_remembered_as_long_as_its_run_is_open(bench: LedgerBench) -> None:
    """Or the same call would start twice; its TTL comes with the run's end."""
    await bench.open_run(retention_ms=50_000)
    running = await started(bench, "c1")
    await bench.ledger.finish(
        bench.run_id,
        running.call_key,
        await bench.ending("c1"),
        fence=running.fence,
        actor="worker:w",
    )
    key = bench.keys.call(bench.run_id, running.call_key)
    before = cast("int", await command(bench.redis, "PTTL", key))
    await end(bench, "completed")
    after = cast("int", await command(bench.redis, "PTTL", key))

    assert before == -1
    assert 0 < after <= 50_000


async def test_racing_calls_of_one_turn_pass_the_cap_in_no_order_of_luck(
    bench: LedgerBench,
) -> None:
    """Entries that share a round trip are taken in their order."""
    entries = [bench.new_call(f"c{n}", cap_turn=3) for n in range(9)]
    answers = await asyncio.gather(*(bench.ledger.dispatch(entry) for entry in entries))

    assert [answer.status for answer in answers] == ["accepted"] * 3 + ["over_turn_budget"] * 6


async def test_what_a_run_does_not_remember_any_more_lets_nothing_pass(bench: LedgerBench) -> None:
    """A call that was judged by a memory is judged anew when that is gone."""
    field = f"remembered:demo.echo:{SPEC_HASH}"
    run = bench.keys.run(bench.run_id)
    await command(bench.redis, "HSET", run, field, "a memory")
    taken = await bench.ledger.dispatch(bench.new_call("c1", memory="a memory"))
    await command(bench.redis, "HDEL", run, field)
    refused = await bench.ledger.dispatch(bench.new_call("c2", memory="a memory"))
    await close(bench, "c1", "queued")

    assert (taken.status, refused.status, refused.memory) == ("accepted", "remembered", "")
    assert await bench.reader.call(bench.run_id, bench.key("c2")) is None
