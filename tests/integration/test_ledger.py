"""The ledger's scripts on real servers: once, in order, within budget, or refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from tests.calls import LedgerBench, ledger_bench
from toolrail.errors import (
    ApprovalConflict,
    CallConflict,
    JournalAppendFailed,
    JournalConflict,
    RunClosed,
    RunConflict,
    RunNotFound,
)
from toolrail.ledger import Claim, Ending, EventLine, Held, Refusal, Renewal, unaccounted
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail_schemas import EventType


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


async def test_dispatching_the_same_call_twice_starts_it_once(bench: LedgerBench) -> None:
    """A client that retries after a lost reply gets the same call."""
    first = await bench.ledger.dispatch(bench.new_call("c1"))
    second = await bench.ledger.dispatch(bench.new_call("c1"))

    assert (first.status, second.status) == ("accepted", "duplicate")
    assert (await bench.kinds()).count("tool_call_requested") == 1
    assert await command(bench.redis, "LLEN", bench.keys.queue("builtin")) == 1


async def test_other_content_under_the_same_key_is_a_conflict(bench: LedgerBench) -> None:
    """Neither call is mixed up with the other."""
    await bench.ledger.dispatch(bench.new_call("c1"))

    with pytest.raises(CallConflict):
        await bench.ledger.dispatch(bench.new_call("c1", arguments={"text": "other"}))


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
        (await bench.ledger.dispatch(bench.new_call("a", turn=turn, cap_turn=1))).status
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


async def test_one_of_many_racing_decisions_wins(bench: LedgerBench) -> None:
    """Approve, deny and expire race thirty times; each parked call is decided once."""
    for n in range(30):
        call = await bench.parked_call(f"c{n}", expires_in_ms=20)
        await bench.ledger.dispatch(call)
        ending = await bench.ending(f"c{n}", code="approval.denied")

        async def approve(key: str = call.call_key, sha: str = call.digest) -> bool:
            try:
                await bench.ledger.approve(
                    bench.run_id,
                    key,
                    by="ann",
                    payload={
                        "approval_id": f"{bench.run_id}.{key}",
                        "decided_by": "ann",
                        "decided_at": 1,
                        "scope": "once",
                    },
                    cap_run=None,
                    cap_turn=None,
                    envelope=bench.envelope(key),
                    args_sha256=sha,
                    spec_hash="0" * 64,
                )
            except ApprovalConflict:
                return False
            return True

        async def close(
            guard: str, n: int = n, key: str = call.call_key, e: Ending = ending
        ) -> bool:
            closed = await bench.ledger.finish(
                bench.run_id,
                key,
                e,
                fence=0,
                actor="user:bob",
                guard=guard,
                approval_state="denied",
            )
            return closed.status == "closed"

        won = await asyncio.gather(approve(), close("awaiting_approval"), close("approval_over"))

        assert sum(won) == 1


async def test_an_approval_after_its_expiry_is_refused(bench: LedgerBench) -> None:
    """The clock of Redis decides, even before the reaper has swept."""
    call = await bench.parked_call("c1", expires_in_ms=-1)
    await bench.ledger.dispatch(call)

    with pytest.raises(ApprovalConflict):
        await bench.ledger.approve(
            bench.run_id,
            call.call_key,
            by="ann",
            payload={},
            cap_run=None,
            cap_turn=None,
            envelope="",
            args_sha256=call.digest,
            spec_hash="0" * 64,
        )


async def test_an_approval_holds_for_the_arguments_that_were_shown(bench: LedgerBench) -> None:
    """A decision about other arguments or another spec approves nothing."""
    call = await bench.parked_call("c1")
    await bench.ledger.dispatch(call)

    with pytest.raises(ApprovalConflict):
        await bench.ledger.approve(
            bench.run_id,
            call.call_key,
            by="ann",
            payload={},
            cap_run=None,
            cap_turn=None,
            envelope="",
            args_sha256=call.digest,
            spec_hash="f" * 64,
        )


async def test_a_parked_call_holds_no_unit_and_rings_no_doorbell(bench: LedgerBench) -> None:
    """Waiting for a person costs a record and nothing else."""
    await bench.ledger.dispatch(await bench.parked_call("c1"))
    record = await bench.reader.run(bench.run_id)

    assert record is not None
    assert "used:demo.echo" not in record
    assert await command(bench.redis, "LLEN", bench.keys.queue("builtin")) == 0


async def test_nothing_starts_after_the_journal_broke(bench: LedgerBench) -> None:
    """A journal that cannot be written fails the run out of band; claims are then refused."""
    await bench.ledger.dispatch(bench.new_call("queued"))
    running = await claimed(bench, "running")
    await command(bench.redis, "DEL", bench.keys.journal(bench.run_id))
    await command(bench.redis, "SET", bench.keys.journal(bench.run_id), "not a stream", "EX", 60)

    with pytest.raises(JournalAppendFailed):
        await bench.ledger.dispatch(bench.new_call("next"))
    claim = await bench.ledger.claim(
        bench.run_id, bench.key("queued"), attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    news = await bench.ledger.renew(
        [Held(bench.run_id, running.call_key, running.fence)], lease_ms=60_000
    )
    closed = await bench.ledger.finish(
        bench.run_id,
        running.call_key,
        await bench.ending("running"),
        fence=running.fence,
        actor="worker:w",
    )
    swept = await bench.ledger.finish(
        bench.run_id,
        bench.key("queued"),
        await bench.ending("queued", code="tool.cancelled"),
        fence=0,
        actor="system:reaper",
        guard="queued",
    )
    record = await bench.reader.run(bench.run_id)

    assert claim is Refusal.RUN_CLOSED
    assert swept.status == "journal_failed"
    assert news == [Renewal.CANCEL]
    assert closed.status == "journal_failed"
    assert record is not None
    assert (record["status"], record["code"]) == ("failed", "journal.append_failed")
    assert (await bench.call("running")).fields["error_code"] == "journal.append_failed"


async def test_a_run_ends_when_its_last_call_has_ended(bench: LedgerBench) -> None:
    """Every call has its terminal event before the run has its own."""
    claim = await claimed(bench, "c1")
    refused = await bench.ledger.end_run(
        bench.run_id, status="completed", code="", actor="runtime:client"
    )
    ending = await bench.ledger.end_run(
        bench.run_id, status="cancelled", code="run.cancelled", actor="runtime:client"
    )
    with pytest.raises(RunClosed):
        await bench.ledger.dispatch(bench.new_call("c2"))
    await bench.ledger.finish(
        bench.run_id,
        claim.call_key,
        await bench.ending("c1", code="tool.cancelled"),
        fence=claim.fence,
        actor="worker:w",
    )

    assert refused.status == "calls_pending"
    assert ending.status == "ending"
    assert (await bench.kinds())[-2:] == ["tool_call_failed", "run_cancelled"]


async def test_too_many_refusals_fail_the_run(bench: LedgerBench) -> None:
    """A model that loops on a denied tool is stopped by the drift limit."""
    for n in range(3):
        ending = await bench.ending(f"c{n}", code="policy.denied")
        await bench.ledger.dispatch(
            bench.new_call(f"c{n}", state="denied", ending=ending, drift="denied")
        )
    record = await bench.reader.run(bench.run_id)

    assert record is not None
    assert (record["status"], record["code"]) == ("failed", "run.drift_limit")


async def test_an_unknown_outcome_is_not_repeated_without_a_person(bench: LedgerBench) -> None:
    """The same tool and arguments are refused until a person approves; others are not."""
    await bench.ledger.dispatch(bench.new_call("c1", retry_safe=False))
    await bench.ledger.claim(
        bench.run_id, bench.key("c1"), attempt=1, nonce="n", worker="w", lease_ms=0
    )
    await bench.ledger.finish(
        bench.run_id,
        bench.key("c1"),
        await bench.ending("c1", code="tool.outcome_unknown"),
        fence=1,
        actor="system:reaper",
        guard="lost",
    )
    same = await bench.ledger.dispatch(bench.new_call("c2"))
    other = await bench.ledger.dispatch(bench.new_call("c3", arguments={"text": "other"}))

    assert same.status == "repeats_unknown"
    assert other.status == "accepted"


async def test_scripts_come_back_after_redis_forgot_them(bench: LedgerBench) -> None:
    """A restart or SCRIPT FLUSH costs one more round trip and nothing else."""
    await command(bench.redis, "SCRIPT", "FLUSH")

    assert (await bench.ledger.dispatch(bench.new_call("c1"))).status == "accepted"


async def test_an_event_is_appended_once_per_id(bench: LedgerBench) -> None:
    """The same id and content give the same number; other content is a conflict."""
    event = EventLine(EventType.TOOL_SURFACE_UPDATED, {"added": 1})
    numbers = [
        await bench.ledger.append(
            bench.run_id, event, event_id="e1", digest="d1", actor="runtime:client"
        )
        for _ in range(2)
    ]
    with pytest.raises(JournalConflict):
        await bench.ledger.append(
            bench.run_id, event, event_id="e1", digest="d2", actor="runtime:client"
        )

    assert numbers[0] == numbers[1]


async def test_a_run_id_names_one_run(bench: LedgerBench) -> None:
    """Opening it again with the same spec is nothing new; with another it is a conflict."""

    async def open_again(digest: str) -> None:
        await bench.ledger.open_run(bench.run_id, digest=digest, fields={}, created={}, snapshot={})

    await open_again("d")

    with pytest.raises(RunConflict):
        await open_again("e")


async def test_a_call_of_no_run_is_refused(bench: LedgerBench) -> None:
    """Nothing is made for a run that does not exist."""
    bench.run_id = "run_" + "0" * 26

    with pytest.raises(RunNotFound):
        await bench.ledger.dispatch(bench.new_call("c1"))


async def test_arguments_and_results_never_enter_the_journal(bench: LedgerBench) -> None:
    """A needle in arguments and result is in the record and in no event."""
    call = bench.new_call("c1", arguments={"text": "needle-in-arguments"})
    await bench.ledger.dispatch(call)
    await bench.ledger.claim(
        bench.run_id, call.call_key, attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    await bench.ledger.finish(
        bench.run_id,
        call.call_key,
        await bench.ending("c1", text="needle-in-result"),
        fence=1,
        actor="worker:w",
    )
    raw = str(await command(bench.redis, "XRANGE", bench.keys.journal(bench.run_id), "-", "+"))

    assert "needle-in-arguments" in (await bench.call("c1")).fields["args"]
    assert "needle" not in raw


async def test_every_key_of_an_ended_run_expires(bench: LedgerBench) -> None:
    """Record, journal, calls and event ids all carry a TTL once the run has ended."""
    claim = await claimed(bench, "c1")
    await bench.ledger.append(
        bench.run_id,
        EventLine(EventType.TOOL_SURFACE_UPDATED, {}),
        event_id="e",
        digest="d",
        actor="runtime:client",
    )
    await bench.ledger.finish(
        bench.run_id, claim.call_key, await bench.ending("c1"), fence=1, actor="worker:w"
    )
    await bench.ledger.end_run(bench.run_id, status="completed", code="", actor="runtime:client")
    pattern = f"{bench.keys.run(bench.run_id)}*"
    keys = cast("list[str]", await command(bench.redis, "KEYS", pattern))
    lasting = [key for key in keys if cast("int", await command(bench.redis, "PTTL", key)) < 0]

    assert len(keys) >= 4
    assert lasting == []
