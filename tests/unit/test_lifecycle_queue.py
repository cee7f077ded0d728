"""What happens to a call before a worker claims it does what the table says.

Is: one test per transition of dispatch and approval (semantics 2.4 and 6). Is not: any order of
events (`test_lifecycle_machine.py`). Below: `toolrail_schemas.lifecycle`.
"""

import pytest

from tests.lives import DEADLINE_MS, accepted, approve, claim, queued, refused, took, types
from toolrail_schemas import ErrorClass, RunStatus
from toolrail_schemas.lifecycle import (
    Ask,
    CallRecord,
    Decision,
    Deny,
    Dispatch,
    Effect,
    EndRun,
    Enqueue,
    Event,
    ExpireApproval,
    NotifyInbox,
    Outcome,
    RefusalReason,
    Refuse,
    Reject,
    ReserveUnit,
    RingDoorbell,
    step,
)


def test_a_dispatched_call_is_queued_with_one_doorbell() -> None:
    """Acceptance reserves a unit and rings for attempt 1."""
    answer = accepted(Enqueue())

    assert types(answer) == ["tool_call_requested"]
    assert answer.effects == (ReserveUnit(), RingDoorbell(1))


@pytest.mark.parametrize(
    ("decision", "journal", "effects"),
    [
        (
            Refuse(),
            ["tool_call_requested", "tool_result_stored", "tool_call_denied"],
            (NotifyInbox(), EndRun(RunStatus.FAILED, "policy.denied")),
        ),
        (
            Refuse(fail_run=False),
            ["tool_call_requested", "tool_result_stored", "tool_call_denied"],
            (NotifyInbox(),),
        ),
        (
            Reject(error_code="tool.not_found"),
            ["tool_call_requested", "tool_result_stored", "tool_call_failed"],
            (NotifyInbox(),),
        ),
        (
            Reject(error_code="dispatch.publish_failed", error_class=ErrorClass.SYSTEM),
            ["tool_call_requested", "tool_result_stored", "tool_call_failed"],
            (NotifyInbox(), EndRun(RunStatus.FAILED, "dispatch.publish_failed")),
        ),
        (Ask(expires_ms=9), ["tool_call_requested", "tool_call_awaiting_approval"], ()),
    ],
)
def test_a_decision_before_the_queue_is_journaled_whole(
    decision: Decision, journal: list[str], effects: tuple[Effect, ...]
) -> None:
    """The journal never shows half a decision."""
    answer = accepted(decision)

    assert types(answer) == journal
    assert answer.effects == effects


def test_dispatch_is_refused_over_budget_and_leaves_no_record() -> None:
    """The dispatcher then hands the call in again as rejected."""
    event = Dispatch(
        now_ms=0, digest="d", decision=Enqueue(over_budget=True), deadline_ms=DEADLINE_MS
    )

    answer = step(CallRecord(), event)

    assert refused(answer) is RefusalReason.OVER_BUDGET
    assert answer.record == CallRecord()


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (approve(args_sha256="other"), RefusalReason.ASKED_ANEW),
        (approve(spec_hash="other"), RefusalReason.SUPERSEDED),
        (approve(now_ms=10), RefusalReason.APPROVAL_EXPIRED),
        (Deny(now_ms=10), RefusalReason.APPROVAL_EXPIRED),
        (approve(over_budget=True), RefusalReason.OVER_BUDGET),
        (approve(run_open=False), RefusalReason.RUN_CLOSED),
        (ExpireApproval(now_ms=9), RefusalReason.NOT_DUE),
        (claim(1, "n1"), RefusalReason.NOT_APPLICABLE),
    ],
)
def test_an_approval_that_does_not_fit_is_refused(event: Event, reason: RefusalReason) -> None:
    """Hash binding and the clock hold even before the reaper has swept."""
    parked = accepted(Ask(expires_ms=10)).record

    assert refused(step(parked, event)) is reason


def test_an_approver_may_edit_the_arguments() -> None:
    """The record then binds to the edited digest, and the same decision again changes nothing."""
    parked = accepted(Ask(expires_ms=10)).record

    answer = took(step(parked, approve(edited="edited")))

    assert types(answer) == ["tool_call_approved"]
    assert answer.effects == (ReserveUnit(), RingDoorbell(1))
    assert answer.record.args_sha256 == "edited"
    assert step(answer.record, approve(edited="edited")) == Outcome(record=answer.record)
    assert refused(step(answer.record, Deny(now_ms=1))) is RefusalReason.DECIDED_OTHERWISE


def test_a_denial_or_silence_ends_the_call() -> None:
    """Both are denials; only the words differ."""
    parked = accepted(Ask(expires_ms=10)).record

    denied = took(step(parked, Deny(now_ms=1)))
    expired = took(step(parked, ExpireApproval(now_ms=10, fail_run=True)))

    assert denied.record.error_code == "approval.denied"
    assert denied.journal[-1].denied_by == "user"
    assert step(denied.record, Deny(now_ms=2)) == Outcome(record=denied.record)
    assert refused(step(denied.record, approve())) is RefusalReason.DECIDED_OTHERWISE
    assert expired.journal[-1].denied_by == "expiry"
    assert EndRun(RunStatus.FAILED, "approval.expired") in expired.effects


def test_a_call_nobody_was_asked_about_cannot_be_decided() -> None:
    """Approval is not a way into the queue."""
    assert refused(step(queued(), approve())) is RefusalReason.NOT_AWAITING
    assert refused(step(queued(), ExpireApproval(now_ms=99))) is RefusalReason.NOT_APPLICABLE
