"""Approvals, runs and the journal on real servers: decided once, ended once, never leaking."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from tests.calls import LedgerBench, ledger_bench
from tests.promises import promise
from toolrail.errors import (
    ApprovalConflict,
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


@promise("approval.decided-once")
async def test_one_of_many_racing_decisions_wins(bench: LedgerBench) -> None:
    """Approve, deny and expire race thirty times; each parked call is decided once."""
    await bench.open_run(max_denied=30)
    for n in range(30):
        call = await bench.parked_call(f"c{n}", expires_in_ms=20)
        await bench.ledger.dispatch(call)
        ending = await bench.ending(f"c{n}", code="approval.denied")

        async def approve(key: str = call.call_key, sha: str = call.digest) -> bool:
            try:
                await bench.ledger.approve(bench.run_id, key, bench.approval(key, args_sha256=sha))
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

        won = await asyncio.gather(approve(), close("undecided"), close("approval_over"))

        assert sum(won) == 1


async def test_an_approval_after_its_expiry_is_refused(bench: LedgerBench) -> None:
    """The clock of Redis decides, even before the reaper has swept."""
    call = await bench.parked_call("c1", expires_in_ms=-1)
    await bench.ledger.dispatch(call)

    with pytest.raises(ApprovalConflict):
        await bench.ledger.approve(
            bench.run_id,
            call.call_key,
            bench.approval(call.call_key, args_sha256=call.digest, spec_hash="0" * 64),
        )


async def test_an_approval_holds_for_the_arguments_that_were_shown(bench: LedgerBench) -> None:
    """A decision about other arguments or another spec approves nothing."""
    call = await bench.parked_call("c1")
    await bench.ledger.dispatch(call)

    answer = await bench.ledger.approve(
        bench.run_id,
        call.call_key,
        bench.approval(call.call_key, args_sha256=call.digest, spec_hash="f" * 64),
    )

    assert answer.status == "superseded"
    assert (await bench.call("c1")).state == "awaiting_approval"


async def test_a_parked_call_holds_no_unit_and_rings_no_doorbell(bench: LedgerBench) -> None:
    """Waiting for a person costs a record and nothing else."""
    await bench.ledger.dispatch(await bench.parked_call("c1"))

    assert await bench.reader.run_used(bench.run_id) == {}
    assert await command(bench.redis, "LLEN", bench.keys.queue("builtin")) == 0


@promise("journal.failure-stops-effects")
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


@promise("call.unknown-not-repeated")
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


@promise("journal.gapless-and-free-of-content")
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


async def test_an_approval_of_other_arguments_than_were_asked_is_void(bench: LedgerBench) -> None:
    """The digest that the person saw is compared; the question that stands is left alone."""
    call = await bench.parked_call("c1")
    await bench.ledger.dispatch(call)
    approval = bench.approval(call.call_key, args_sha256="f" * 64)

    with pytest.raises(ApprovalConflict, match="look at it again"):
        await bench.ledger.approve(bench.run_id, call.call_key, approval)
    assert (await bench.call("c1")).state == "awaiting_approval"
