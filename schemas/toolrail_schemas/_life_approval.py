"""Decide what a person's answer, or their silence, does to a call.

Is: approve, deny, expire (semantics 6), and a question that comes up in the queue. Is not: who
may answer.
Above: `lifecycle.py`. Below: `_life_ends.py`.
"""

from dataclasses import replace
from typing import assert_never

from toolrail_schemas._life import (
    Answer,
    Approve,
    Ask,
    CallRecord,
    CallState,
    Deny,
    Entry,
    ExpireApproval,
    Outcome,
    Refusal,
    RefusalReason,
    Refuse,
    Repeat,
    ReserveUnit,
    ReturnUnit,
)
from toolrail_schemas._life_ends import end_denied, enqueue, refuse
from toolrail_schemas.events import EventType


def answer(
    record: CallRecord, event: Approve | Deny | ExpireApproval | Repeat
) -> Outcome | Refusal:
    """Return what the answer, or the need of one, does."""
    match event:
        case Approve():
            return _approve(record, event)
        case Deny():
            return _deny(record, event)
        case ExpireApproval():
            return _expire(record, event)
        case Repeat():
            return _repeat(record, event)
        case _:
            assert_never(event)


def _approve(record: CallRecord, event: Approve) -> Outcome | Refusal:
    approved_args = event.edited_args_sha256 or event.args_sha256
    said_before = (record.answer, record.args_sha256, record.approved_for_run)
    if said_before == (Answer.APPROVED, approved_args, event.for_run):
        return Outcome(record=record)
    refusal = _why_undecidable(record, event.now_ms)
    if refusal is not None:
        return refusal
    if not event.run_open:
        return refuse(record, RefusalReason.RUN_CLOSED)
    if record.args_sha256 != event.args_sha256:
        return refuse(record, RefusalReason.ASKED_ANEW)
    if record.spec_hash != event.spec_hash:
        return refuse(record, RefusalReason.SUPERSEDED)
    if event.over_budget:
        return refuse(record, RefusalReason.OVER_BUDGET)
    approved = replace(
        record,
        answer=Answer.APPROVED,
        approved_for_run=event.for_run,
        args_sha256=approved_args,
        unit_reserved=True,
    )
    entry = Entry(type=EventType.TOOL_CALL_APPROVED, attempt=record.attempt)
    return replace(enqueue(approved, first=(ReserveUnit(),)), journal=(entry,))


def _deny(record: CallRecord, event: Deny) -> Outcome | Refusal:
    if record.answer is Answer.DENIED:
        return Outcome(record=record)
    refusal = _why_undecidable(record, event.now_ms)
    if refusal is not None:
        return refusal
    denied = replace(record, answer=Answer.DENIED)
    return end_denied(denied, code="approval.denied", by="user", fail_run=event.fail_run)


def _why_undecidable(record: CallRecord, now_ms: int) -> Refusal | None:
    """Return why no person can decide now; the clock counts even before the reaper has swept."""
    if record.state is not CallState.AWAITING_APPROVAL:
        if record.answer is Answer.NOT_ASKED:
            return refuse(record, RefusalReason.NOT_AWAITING)
        return refuse(record, RefusalReason.DECIDED_OTHERWISE)
    if now_ms >= record.approval_expires_ms:
        return refuse(record, RefusalReason.APPROVAL_EXPIRED)
    return None


def _expire(record: CallRecord, event: ExpireApproval) -> Outcome | Refusal:
    if record.state is not CallState.AWAITING_APPROVAL:
        return refuse(record, RefusalReason.NOT_APPLICABLE)
    if event.now_ms < record.approval_expires_ms:
        return refuse(record, RefusalReason.NOT_DUE)
    expired = replace(record, answer=Answer.EXPIRED)
    return end_denied(expired, code="approval.expired", by="expiry", fail_run=event.fail_run)


def _repeat(record: CallRecord, event: Repeat) -> Outcome | Refusal:
    """Ask about a call that was about to start, or deny it; a unit is not held meanwhile."""
    if record.state is not CallState.QUEUED or record.retry_safe:
        return refuse(record, RefusalReason.NOT_APPLICABLE)
    waiting = replace(record, unit_reserved=False)
    match event.decision:
        case Ask() if record.cancel_requested:
            return refuse(record, RefusalReason.CANCELLED)
        case Ask() if event.now_ms >= record.deadline_ms:
            return refuse(record, RefusalReason.DEADLINE_PASSED)
        case Ask(expires_ms=expires_ms):
            asked = replace(
                waiting,
                state=CallState.AWAITING_APPROVAL,
                answer=Answer.PENDING,
                approval_expires_ms=expires_ms,
                deadline_ms=expires_ms,
            )
            entry = Entry(type=EventType.TOOL_CALL_AWAITING_APPROVAL, attempt=record.attempt)
            return Outcome(record=asked, journal=(entry,), effects=(ReturnUnit(),))
        case Refuse(error_code=code, fail_run=fail_run):
            denied = end_denied(waiting, code=code, by="policy", fail_run=fail_run)
            return replace(denied, effects=(ReturnUnit(), *denied.effects))
        case _:
            assert_never(event.decision)
