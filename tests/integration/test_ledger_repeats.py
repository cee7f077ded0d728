"""Each guard of a question about a repeated effect, one at a time, in the ledger alone.

Is: `ask_again.lua`, and what approve, claim and finish make of such a question. Is not: what a
worker does with it (`test_repeats.py`). Above: nothing. Below: `tests/calls.py`.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.calls import LedgerBench, ledger_bench
from toolrail.errors import ApprovalConflict
from toolrail.ledger import ANY_UNKNOWN, unaccounted
from toolrail.redis_io import command
from toolrail.settings import Settings

HOUR_MS = 3_600_000


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[LedgerBench]:
    """Give a bench, and balance the books afterwards."""
    async with ledger_bench(settings) as bench:
        yield bench

        assert unaccounted(await bench.reader.totals()) == 0


async def queued(bench: LedgerBench, call_id: str = "c1", *, deadline_ms: int = 60_000) -> None:
    """Queue a call that may not run twice."""
    call = bench.new_call(call_id, retry_safe=False, deadline_ms=deadline_ms)
    await bench.ledger.dispatch(call)


async def lost(bench: LedgerBench, name: str = "lost1", call_id: str = "c1") -> None:
    """An equal call of the run, of this name, ends with an unknown outcome."""
    arguments = (await bench.call(call_id)).fields["args_sha256"]
    run = bench.keys.run(bench.run_id)
    await command(bench.redis, "HSET", run, f"unknown:demo.echo:{arguments}", name)


async def approve(bench: LedgerBench, *, told_unknown: str = "") -> str:
    """Say yes to the call; return what the ledger did."""
    call = await bench.call("c1")
    approval = bench.approval(call.call_key, args_sha256=call.fields["args_sha256"])
    told = replace(approval, told_unknown=told_unknown)
    return (await bench.ledger.approve(bench.run_id, call.call_key, told)).status


async def close(bench: LedgerBench, call_id: str = "c1", guard: str = "awaiting_approval") -> str:
    """Close a call without a worker; return what the ledger did."""
    closed = await bench.ledger.finish(
        bench.run_id,
        bench.key(call_id),
        await bench.ending(call_id, code="tool.cancelled"),
        fence=0,
        actor="runtime:test",
        guard=guard,
    )
    return closed.status


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ("", "repeats_unknown"),
        ("lost1", "repeats_unknown"),
        ("lost2", "accepted"),
        (ANY_UNKNOWN, "accepted"),
    ],
)
async def test_a_yes_counts_for_the_loss_its_person_was_told_of(
    bench: LedgerBench, told: str, status: str
) -> None:
    """Not for none, nor for one of before, as somebody says it who saw an earlier question."""
    await queued(bench)
    await lost(bench, "lost1")
    await bench.ask_again("c1")
    first = (await bench.call("c1")).fields["asked_unknown"]
    await lost(bench, "lost2")
    taken = await approve(bench, told_unknown=told)
    await close(bench, guard="queued" if status == "accepted" else "awaiting_approval")

    assert (first, taken) == ("lost1", status)


async def test_a_new_question_tells_of_the_loss_that_it_was_asked_for(bench: LedgerBench) -> None:
    """A call that comes in after the loss is parked with its name."""
    await queued(bench)
    await lost(bench)
    await close(bench, guard="queued")
    await bench.ledger.dispatch(replace(await bench.parked_call("c2"), memory="!"))
    asked = (await bench.call("c2")).fields["asked_unknown"]
    await close(bench, "c2")

    assert asked == "lost1"


async def test_a_call_that_is_too_late_is_not_asked_about(bench: LedgerBench) -> None:
    """The sweep of deadlines ends it, and no question stands on a call that has ended."""
    await queued(bench, deadline_ms=0)
    await lost(bench)
    asked = await bench.ask_again("c1")
    closed = await close(bench, guard="deadline_over")

    assert (asked, closed) == (False, "closed")
    assert "approval_state" not in (await bench.call("c1")).fields


async def test_whoever_saw_a_deadline_pass_does_not_end_a_question(bench: LedgerBench) -> None:
    """Until the question expires it is a person's time."""
    await queued(bench)
    await lost(bench)
    await bench.ask_again("c1")
    fields = (await bench.call("c1")).fields
    refused = await close(bench, guard="deadline_over")
    await close(bench)

    assert refused == "refused"
    assert fields["deadline_ms"] == fields["approval_expires_ms"]


async def test_a_question_ends_with_its_call_whatever_the_closer_saw(bench: LedgerBench) -> None:
    """Its closer read a queued call, says nothing of a question, and none is left pending."""
    await queued(bench)
    await lost(bench)
    await bench.ask_again("c1", expires_in_ms=-1)
    closed = await close(bench, guard="deadline_over")

    assert (closed, (await bench.call("c1")).fields["approval_state"]) == ("closed", "cancelled")


async def test_a_late_yes_to_an_earlier_question_leaves_the_new_one(bench: LedgerBench) -> None:
    """Somebody edited the arguments meanwhile, and the call was asked about anew."""
    parked = await bench.parked_call("c1")
    await bench.ledger.dispatch(replace(parked, fields={**parked.fields, "retry_safe": 0}))
    seen = str(parked.fields["args_sha256"])
    edit = bench.approval(parked.call_key, args_sha256=seen, edited=b'{"text":"2"}')
    await bench.ledger.approve(bench.run_id, parked.call_key, edit)
    await lost(bench)
    await bench.ask_again("c1")
    late = bench.approval(parked.call_key, args_sha256=seen, by="bob")
    with pytest.raises(ApprovalConflict, match="asked about anew"):
        await bench.ledger.approve(bench.run_id, parked.call_key, late)
    stands = await bench.call("c1")
    await close(bench)

    assert (stands.state, stands.fields["approval_state"]) == ("awaiting_approval", "pending")


async def test_time_in_the_queue_is_no_time_of_a_person(bench: LedgerBench) -> None:
    """A wait for a decision begins with its question, which may come long after the call."""
    await queued(bench)
    await lost(bench)
    key = bench.keys.call(bench.run_id, bench.key("c1"))
    await command(bench.redis, "HINCRBY", key, "accepted_ms", -HOUR_MS)
    before = await bench.reader.totals()
    await bench.ask_again("c1")
    await close(bench)
    after = await bench.reader.totals()

    assert after["decided:ms:builtin"] - before.get("decided:ms:builtin", 0) < HOUR_MS


async def test_a_refused_repeat_counts_against_the_drift_limit(bench: LedgerBench) -> None:
    """As the same call does that comes in now: with nobody to ask, too, a model is stopped."""
    for call_id in ("c1", "c2", "c3"):
        await queued(bench, call_id)
    await lost(bench)
    for call_id in ("c1", "c2", "c3"):
        ending = replace(await bench.ending(call_id, code="approval.denied"), state="denied")
        await bench.ledger.finish(
            bench.run_id,
            bench.key(call_id),
            ending,
            fence=0,
            actor="worker:w",
            guard="repeats",
        )
    record = await bench.reader.run(bench.run_id)
    assert record is not None

    assert (record["denied"], record["status"]) == ("3", "failed")
    assert record["code"] == "run.drift_limit"


async def test_only_a_repeat_is_refused_as_one(bench: LedgerBench) -> None:
    """A call that no loss stands against may run, and nobody denies it for one."""
    await queued(bench)
    refused = await close(bench, guard="repeats")
    await lost(bench)
    closed = await close(bench, guard="repeats")

    assert (refused, closed) == ("refused", "closed")


async def test_a_call_that_is_being_cancelled_is_not_asked_about(bench: LedgerBench) -> None:
    """Whoever cancels closes it; a person would be asked for nothing."""
    await queued(bench)
    await lost(bench)
    await bench.ledger.cancel(bench.run_id, bench.key("c1"))
    asked = await bench.ask_again("c1")
    await close(bench, guard="queued")

    assert not asked


async def test_nobody_is_asked_about_a_call_of_an_ending_run(bench: LedgerBench) -> None:
    """Nothing of it may start any more, so nothing waits for a yes."""
    await queued(bench)
    await lost(bench)
    await bench.ledger.end_run(bench.run_id, status="cancelled", code="", actor="runtime:test")
    asked = await bench.ask_again("c1")
    await close(bench, guard="queued")

    assert not asked


async def test_nobody_is_asked_about_a_call_of_a_run_that_broke(bench: LedgerBench) -> None:
    """Its journal takes no question, and it has failed already."""
    await queued(bench)
    await lost(bench)
    await command(bench.redis, "HSET", bench.keys.run(bench.run_id), "status", "failed")
    asked = await bench.ask_again("c1")
    await close(bench, guard="queued")

    assert not asked


async def test_a_finishing_call_that_waits_for_a_person_lets_others_in(bench: LedgerBench) -> None:
    """The run goes on meanwhile; the yes then waits until it is alone again."""
    finish = bench.new_call("c1", retry_safe=False, alone=True)
    await bench.ledger.dispatch(finish)
    shut = await bench.ledger.dispatch(bench.new_call("c2"))
    await lost(bench)
    await bench.ask_again("c1")
    open_again = await bench.ledger.dispatch(bench.new_call("c2", arguments={"text": "b"}))
    early = await approve(bench, told_unknown="lost1")
    await close(bench, "c2", guard="queued")
    alone = await approve(bench, told_unknown="lost1")
    await close(bench, guard="queued")

    assert (shut.status, open_again.status) == ("after_finish", "accepted")
    assert (early, alone) == ("calls_pending", "accepted")
