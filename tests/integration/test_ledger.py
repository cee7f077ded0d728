"""The ledger's scripts on real servers: once, in order, within budget, or refused."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.calls import LedgerBench, ledger_bench
from tests.promises import promise
from toolrail.errors import (
    CallConflict,
)
from toolrail.ledger import CLAIM_FIELDS, Claim, Held, Refusal, Renewal, unaccounted
from toolrail.redis_io import command
from toolrail.settings import Settings


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[LedgerBench]:
    """Give a bench, and balance the books afterwards."""
    async with ledger_bench(settings) as bench:
        yield bench

        assert unaccounted(await bench.reader.totals()) == 0


async def claimed(bench: LedgerBench, call_id: str, *, lease_ms: int = 60_000) -> Claim:
    """Dispatch a call and claim it."""
    await bench.ledger.dispatch(bench.new_call(call_id))
    claim = await bench.ledger.claim(
        bench.run_id, bench.key(call_id), attempt=1, nonce="n", worker="w", lease_ms=lease_ms
    )
    assert isinstance(claim, Claim)
    return claim


async def test_a_call_goes_from_dispatch_to_its_result(bench: LedgerBench) -> None:
    """The straight path leaves five events and one doorbell."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    doorbells = await command(bench.redis, "LLEN", bench.keys.queue("builtin"))
    claim = await bench.ledger.claim(
        bench.run_id, bench.key("c1"), attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    assert isinstance(claim, Claim)
    closed = await bench.ledger.finish(
        bench.run_id, bench.key("c1"), await bench.ending("c1"), fence=claim.fence, actor="worker:w"
    )

    assert doorbells == 1
    assert closed.status == "closed"
    assert (await bench.call("c1")).state == "completed"
    assert await bench.kinds() == [
        "run_created",
        "policy_snapshot_frozen",
        "tool_call_requested",
        "tool_call_started",
        "tool_result_stored",
        "tool_call_completed",
    ]


@promise("call.dispatched-once")
async def test_dispatching_the_same_call_twice_starts_it_once(bench: LedgerBench) -> None:
    """A client that retries after a lost reply gets the same call."""
    first = await bench.ledger.dispatch(bench.new_call("c1"))
    second = await bench.ledger.dispatch(bench.new_call("c1"))

    assert (first.status, second.status) == ("accepted", "duplicate")
    assert (await bench.kinds()).count("tool_call_requested") == 1
    assert await command(bench.redis, "LLEN", bench.keys.queue("builtin")) == 1


@promise("call.dispatched-once")
async def test_other_content_under_the_same_key_is_a_conflict(bench: LedgerBench) -> None:
    """Neither call is mixed up with the other."""
    await bench.ledger.dispatch(bench.new_call("c1"))

    with pytest.raises(CallConflict):
        await bench.ledger.dispatch(bench.new_call("c1", arguments={"text": "other"}))


async def test_a_claim_brings_every_field_under_its_own_name(bench: LedgerBench) -> None:
    """The list in the script and the one in Python are the same."""
    claim = await claimed(bench, "c1")
    record = await bench.call("c1")

    assert claim.fields == {name: record.fields.get(name, "") for name in CLAIM_FIELDS}


async def test_a_claim_is_granted_again_to_the_same_nonce_only(bench: LedgerBench) -> None:
    """A worker whose reply was lost keeps its claim; another worker does not get one."""
    claim = await claimed(bench, "c1")
    again = await bench.ledger.claim(
        bench.run_id, bench.key("c1"), attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    other = await bench.ledger.claim(
        bench.run_id, bench.key("c1"), attempt=1, nonce="m", worker="v", lease_ms=60_000
    )

    assert again == claim
    assert other is Refusal.DUP_RUNNING
    assert (await bench.kinds()).count("tool_call_started") == 1


@promise("call.stale-result-refused")
async def test_a_finish_repeated_is_the_same_and_a_stale_one_is_late(bench: LedgerBench) -> None:
    """The first result stands; a worker with an old fence is told and journaled once."""
    claim = await claimed(bench, "c1")
    ending = await bench.ending("c1")
    key = bench.key("c1")
    first = await bench.ledger.finish(
        bench.run_id, key, ending, fence=claim.fence, actor="worker:w"
    )
    again = await bench.ledger.finish(
        bench.run_id, key, ending, fence=claim.fence, actor="worker:w"
    )
    other = await bench.ending("c1", text="second")
    late = [
        await bench.ledger.finish(bench.run_id, key, other, fence=claim.fence, actor="worker:w")
        for _ in range(2)
    ]

    assert (first.status, again.status) == ("closed", "duplicate")
    assert [closed.status for closed in late] == ["late", "late"]
    assert (await bench.kinds()).count("tool_result_late") == 1
    assert "hello" in (await bench.call("c1")).fields["result"]


async def test_racing_writers_leave_a_journal_without_a_gap(bench: LedgerBench) -> None:
    """Fifty calls dispatched at once are numbered without a hole or a double."""
    await asyncio.gather(*(bench.ledger.dispatch(bench.new_call(f"c{n}")) for n in range(50)))

    assert [event.seq for event in await bench.events()] == list(range(1, 53))


@promise("budget.never-overshot")
@pytest.mark.parametrize("cap", [0, 1, 7])
async def test_racing_reservations_never_pass_the_cap(bench: LedgerBench, cap: int) -> None:
    """Two hundred racing calls of one tool get exactly as many units as there are."""
    answers = await asyncio.gather(
        *(bench.ledger.dispatch(bench.new_call(f"c{n}", cap_run=cap)) for n in range(200))
    )

    assert sum(answer.status == "accepted" for answer in answers) == cap
    assert sum(answer.status == "over_run_budget" for answer in answers) == 200 - cap


async def test_the_turn_cap_counts_per_turn(bench: LedgerBench) -> None:
    """What was refused in one turn is welcome in the next."""
    statuses = [
        (await bench.ledger.dispatch(bench.new_call(f"a{turn}", turn=turn, cap_turn=1))).status
        for turn in (0, 1)
    ]
    refused = await bench.ledger.dispatch(bench.new_call("b", turn=1, cap_turn=1))

    assert statuses == ["accepted", "accepted"]
    assert refused.status == "over_turn_budget"


async def test_a_call_cancelled_before_its_start_gives_its_unit_back(bench: LedgerBench) -> None:
    """A budget of one is usable after the only call was cancelled in the queue."""
    await bench.ledger.dispatch(bench.new_call("c1", cap_run=1))
    state = await bench.ledger.cancel(bench.run_id, bench.key("c1"))
    await bench.ledger.finish(
        bench.run_id,
        bench.key("c1"),
        await bench.ending("c1", code="tool.cancelled"),
        fence=0,
        actor="runtime:client",
        guard="queued",
    )
    second = await bench.ledger.dispatch(bench.new_call("c2", cap_run=1))

    assert state == "queued"
    assert second.status == "accepted"


async def test_a_unit_whose_attempt_has_started_stays_used(bench: LedgerBench) -> None:
    """A call that was lost, queued again and then cancelled may have had its effect."""
    claim = await claimed(bench, "c1", lease_ms=0)
    await bench.ledger.requeue(
        bench.run_id,
        claim.call_key,
        fence=claim.fence,
        attempt=2,
        envelope=bench.envelope(claim.call_key, 2),
        actor="system:reaper",
    )
    await bench.ledger.finish(
        bench.run_id,
        claim.call_key,
        await bench.ending("c1", code="tool.cancelled"),
        fence=0,
        actor="runtime:client",
        guard="queued",
    )

    assert (await bench.ledger.dispatch(bench.new_call("c2", cap_run=1))).status != "accepted"


async def test_a_cancelled_call_is_never_claimed(bench: LedgerBench) -> None:
    """The mark is durable: a worker that comes later sees it."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    await bench.ledger.cancel(bench.run_id, bench.key("c1"))
    claim = await bench.ledger.claim(
        bench.run_id, bench.key("c1"), attempt=1, nonce="n", worker="w", lease_ms=60_000
    )

    assert claim is Refusal.CANCELLED
    await bench.ledger.finish(
        bench.run_id,
        bench.key("c1"),
        await bench.ending("c1", code="tool.cancelled"),
        fence=0,
        actor="runtime:client",
        guard="queued",
    )


async def test_a_renewal_tells_of_cancel_and_of_loss(bench: LedgerBench) -> None:
    """One script renews all calls of a worker and carries the news back."""
    kept, cancelled = await claimed(bench, "c1"), await claimed(bench, "c2")
    await bench.ledger.cancel(bench.run_id, cancelled.call_key)
    news = await bench.ledger.renew(
        [
            Held(bench.run_id, kept.call_key, kept.fence),
            Held(bench.run_id, cancelled.call_key, cancelled.fence),
            Held(bench.run_id, kept.call_key, kept.fence + 1),
        ],
        lease_ms=60_000,
    )

    assert news == [Renewal.KEPT, Renewal.CANCEL, Renewal.LOST]


async def test_a_living_lease_is_not_taken_away(bench: LedgerBench) -> None:
    """The reaper's view may be old; the script looks again."""
    claim = await claimed(bench, "c1")

    assert not await bench.ledger.requeue(
        bench.run_id,
        claim.call_key,
        fence=claim.fence,
        attempt=2,
        envelope=bench.envelope(claim.call_key, 2),
        actor="system:reaper",
    )


@promise("call.stale-result-refused")
async def test_the_lost_attempt_is_fenced_off_before_the_next_starts(bench: LedgerBench) -> None:
    """From the moment of the requeue the first worker's result is late."""
    claim = await claimed(bench, "c1", lease_ms=0)
    key = claim.call_key
    requeued = await bench.ledger.requeue(
        bench.run_id,
        key,
        fence=claim.fence,
        attempt=2,
        envelope=bench.envelope(key, 2),
        actor="system:reaper",
    )
    late = await bench.ledger.finish(
        bench.run_id, key, await bench.ending("c1"), fence=claim.fence, actor="worker:w"
    )
    stale = await bench.ledger.claim(
        bench.run_id, key, attempt=1, nonce="o", worker="w", lease_ms=60_000
    )
    second = await bench.ledger.claim(
        bench.run_id, key, attempt=2, nonce="p", worker="v", lease_ms=60_000
    )

    assert requeued
    assert late.status == "late"
    assert stale is Refusal.STALE
    assert isinstance(second, Claim)
    assert second.fence > claim.fence
