"""What happens to a call from its first claim on does what the table says.

Is: one test per transition of claim, renew, finish, loss, cancel and deadline (semantics 2.6, rows
32 to 35 of 7). Is not: any order of events (`test_lifecycle_machine.py`).
Below: `toolrail_schemas.lifecycle`.
"""

import pytest

from tests.lives import (
    DEADLINE_MS,
    LEASE_MS,
    accepted,
    claim,
    queued,
    refused,
    running,
    took,
    types,
)
from toolrail_schemas import ErrorClass, RunStatus
from toolrail_schemas.lifecycle import (
    Answer,
    Ask,
    CallRecord,
    CallState,
    Cancel,
    DeadLetter,
    DeadlinePassed,
    Dispatch,
    Effect,
    EndRun,
    Enqueue,
    Event,
    Finish,
    LeaseExpired,
    NoteUncertain,
    NotifyInbox,
    NudgeWorker,
    Outcome,
    RefusalReason,
    Renew,
    ReturnUnit,
    RingDoorbell,
    step,
)


def test_a_claim_starts_the_attempt_and_is_idempotent_by_nonce() -> None:
    """A reply may be lost with its connection; asking again must not start a second time."""
    answer = took(step(queued(), claim(1, "n1", now_ms=5)))

    assert types(answer) == ["tool_call_started"]
    assert (answer.record.fence, answer.record.lease_until_ms) == (1, 5 + LEASE_MS)
    assert step(answer.record, claim(1, "n1", now_ms=99)) == Outcome(record=answer.record)


@pytest.mark.parametrize(
    ("record", "event", "reason"),
    [
        (running(), claim(1, "n2"), RefusalReason.ALREADY_RUNNING),
        (running(), claim(2, "n2"), RefusalReason.STALE_ATTEMPT),
        (queued(), claim(2, "n1"), RefusalReason.STALE_ATTEMPT),
        (queued(), claim(1, "n1", run_open=False), RefusalReason.RUN_CLOSED),
        (queued(), claim(1, "n1", now_ms=DEADLINE_MS), RefusalReason.DEADLINE_PASSED),
        (took(step(queued(), Cancel(now_ms=0))).record, claim(1, "n1"), RefusalReason.ALREADY_DONE),
        (CallRecord(), claim(0, "n1"), RefusalReason.NOT_APPLICABLE),
        (CallRecord(), Cancel(now_ms=0), RefusalReason.NOT_APPLICABLE),
        (running(), DeadlinePassed(now_ms=DEADLINE_MS), RefusalReason.NOT_APPLICABLE),
        (queued(), DeadlinePassed(now_ms=DEADLINE_MS - 1), RefusalReason.NOT_DUE),
        (running(), LeaseExpired(now_ms=LEASE_MS - 1, fence=1), RefusalReason.NOT_DUE),
        (running(), LeaseExpired(now_ms=LEASE_MS, fence=2), RefusalReason.NOT_APPLICABLE),
        (queued(), Renew(now_ms=0, fence=0, lease_ms=1), RefusalReason.STALE_FENCE),
    ],
)
def test_an_event_that_does_not_fit_changes_nothing(
    record: CallRecord, event: Event, reason: RefusalReason
) -> None:
    """The reason says which check failed."""
    answer = step(record, event)

    assert refused(answer) is reason
    assert (answer.record, answer.journal) == (record, ())


def test_a_renewal_moves_the_end_of_the_lease() -> None:
    """Also when the lease ran out unnoticed: the fence has not moved, so nobody else has it."""
    answer = took(step(running(), Renew(now_ms=5000, fence=1, lease_ms=LEASE_MS)))

    assert answer.record.lease_until_ms == 5000 + LEASE_MS
    assert answer.journal == ()


def test_a_finish_stores_the_result_before_the_outcome() -> None:
    """The same finish again, by fence and digest, changes nothing."""
    finish = Finish(now_ms=1, fence=1, result_sha256="r")

    answer = took(step(running(), finish))

    assert types(answer) == ["tool_result_stored", "tool_call_completed"]
    assert answer.effects == (NotifyInbox(),)
    assert step(answer.record, finish) == Outcome(record=answer.record)


@pytest.mark.parametrize(
    ("event", "journal", "effects"),
    [
        (
            Finish(now_ms=1, fence=1, result_sha256="r", completes_run=True),
            ["tool_result_stored", "tool_call_completed"],
            (NotifyInbox(), EndRun(RunStatus.COMPLETED)),
        ),
        (
            Finish(now_ms=1, fence=1, result_sha256="r", error_code="tool.timeout"),
            ["tool_result_stored", "tool_call_failed"],
            (NotifyInbox(),),
        ),
        (
            Finish(now_ms=1, fence=1, result_sha256="r", error_code="tool.outcome_unknown"),
            ["tool_result_stored", "tool_call_failed"],
            (NotifyInbox(), NoteUncertain()),
        ),
        (
            Finish(
                now_ms=1,
                fence=1,
                result_sha256="r",
                error_code="tool.internal_error",
                error_class=ErrorClass.SYSTEM,
            ),
            ["tool_result_stored", "tool_call_failed"],
            (NotifyInbox(), EndRun(RunStatus.FAILED, "tool.internal_error")),
        ),
        (
            Finish(now_ms=1, fence=1, result_sha256=None),
            ["tool_call_failed"],
            (NotifyInbox(), EndRun(RunStatus.FAILED, "store.result_write_failed")),
        ),
        (
            Finish(now_ms=1, fence=1, result_sha256=None, error_code="tool.timeout"),
            ["tool_call_failed"],
            (NotifyInbox(),),
        ),
    ],
)
def test_a_finish_tells_the_run_what_it_must_know(
    event: Finish, journal: list[str], effects: tuple[Effect, ...]
) -> None:
    """Only a system error, or the tool that ends a run, ends the run."""
    answer = took(step(running(), event))

    assert types(answer) == journal
    assert answer.effects == effects


def test_a_late_finish_is_refused_and_journaled_once_per_fence() -> None:
    """The lost worker comes back after its call was given to another."""
    lost = took(step(running(retry_safe=True), LeaseExpired(now_ms=LEASE_MS, fence=1))).record
    late = Finish(now_ms=LEASE_MS, fence=1, result_sha256="r")

    first = step(lost, late)
    second = step(first.record, late)

    assert refused(first) is refused(second) is RefusalReason.STALE_FENCE
    assert (types(first), types(second)) == (["tool_result_late"], [])
    assert first.record.state is CallState.QUEUED


def test_another_result_under_the_right_fence_is_late() -> None:
    """A call has one result; the first one stands."""
    done = took(step(running(), Finish(now_ms=1, fence=1, result_sha256="r"))).record

    answer = step(done, Finish(now_ms=1, fence=1, result_sha256="other"))

    assert refused(answer) is RefusalReason.STALE_FENCE
    assert answer.record.result_sha256 == "r"


def test_a_lost_attempt_runs_again_only_if_that_is_safe() -> None:
    """Semantics 2.6: read-only or idempotent, and attempts left."""
    answer = took(step(running(retry_safe=True), LeaseExpired(now_ms=LEASE_MS, fence=1)))

    assert types(answer) == ["tool_attempt_lost"]
    assert answer.effects == (RingDoorbell(2),)
    assert (answer.record.state, answer.record.attempt) == (CallState.QUEUED, 2)


@pytest.mark.parametrize(
    ("record", "run_open", "code", "effects"),
    [
        (
            running(),
            True,
            "tool.outcome_unknown",
            (NotifyInbox(), NoteUncertain(), DeadLetter()),
        ),
        (running(retry_safe=True), False, "tool.worker_lost", (NotifyInbox(),)),
        (
            running(retry_safe=True, most=1),
            True,
            "tool.worker_lost",
            (NotifyInbox(), DeadLetter()),
        ),
    ],
)
def test_a_lost_attempt_that_may_not_run_again_ends_the_call(
    record: CallRecord, run_open: bool, code: str, effects: tuple[Effect, ...]
) -> None:
    """Rows 33 and 34 of semantics 7."""
    answer = took(step(record, LeaseExpired(now_ms=LEASE_MS, fence=1, run_open=run_open)))

    assert answer.record.error_code == code
    assert answer.effects == effects


def test_a_cancel_wins_over_everything_that_has_not_happened_yet() -> None:
    """Waiting calls end at once and give their unit back; a running one is told to stop."""
    parked = took(step(accepted(Ask(expires_ms=10)).record, Cancel(now_ms=0)))
    waiting = took(step(queued(), Cancel(now_ms=0)))
    told = took(step(running(retry_safe=True), Cancel(now_ms=0)))
    lost = took(step(told.record, LeaseExpired(now_ms=LEASE_MS, fence=1)))

    assert parked.record.answer is Answer.CANCELLED
    assert parked.effects == (NotifyInbox(),)
    assert waiting.record.error_code == "tool.cancelled"
    assert waiting.effects == (NotifyInbox(), ReturnUnit())
    assert told.effects == (NudgeWorker("w1"),)
    assert step(told.record, Cancel(now_ms=1)) == Outcome(record=told.record)
    assert lost.record.error_code == "tool.cancelled"


def test_a_lost_cancelled_call_with_effects_ends_unknown() -> None:
    """Saying "cancelled" would hide an effect that may have happened."""
    told = took(step(running(), Cancel(now_ms=0))).record

    answer = took(step(told, LeaseExpired(now_ms=LEASE_MS, fence=1)))

    assert answer.record.error_code == "tool.outcome_unknown"


def test_a_result_in_hand_stands_though_a_cancel_was_on_its_way() -> None:
    """The effect happened; the model must know."""
    told = took(step(running(), Cancel(now_ms=0))).record

    answer = took(step(told, Finish(now_ms=1, fence=1, result_sha256="r")))

    assert answer.record.state is CallState.COMPLETED


def test_a_call_that_waits_too_long_times_out() -> None:
    """A unit goes back only if no attempt ever started."""
    passed = DeadlinePassed(now_ms=DEADLINE_MS)
    again = took(step(running(retry_safe=True), LeaseExpired(now_ms=LEASE_MS, fence=1))).record

    first = took(step(queued(), passed))
    second = took(step(again, passed))

    assert first.record.error_code == second.record.error_code == "tool.timeout"
    assert first.effects == (NotifyInbox(), ReturnUnit())
    assert second.effects == (NotifyInbox(),)


def test_the_same_dispatch_again_is_the_same_call() -> None:
    """Idempotent by digest, in every state; another digest is a conflict."""
    for record in (queued(), running(), took(step(queued(), Cancel(now_ms=0))).record):
        same = Dispatch(now_ms=9, digest="d", decision=Enqueue(), deadline_ms=1)
        other = Dispatch(now_ms=9, digest="e", decision=Enqueue(), deadline_ms=1)

        assert step(record, same) == Outcome(record=record)
        assert refused(step(record, other)) is RefusalReason.CONFLICT


def test_a_closed_run_takes_no_calls() -> None:
    """Nothing new after the end of a run."""
    event = Dispatch(now_ms=0, digest="d", decision=Enqueue(), deadline_ms=1, run_open=False)

    assert refused(step(CallRecord(), event)) is RefusalReason.RUN_CLOSED
