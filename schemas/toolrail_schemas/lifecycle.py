"""Decide what one event does to one call.

Is: `step`, a pure function without clock or I/O: (record, event) -> outcome or refusal, with the
guarantees of semantics 2.4 to 2.6. Is not: where it is true; the Lua scripts of the ledger
implement the same machine, and a test drives both.
Above: the ledger's tests, anyone who reasons about a call. Below: `_life_approval.py`,
`_life_attempt.py`, `_life_ends.py`, and `_life.py` with the words.

    requested -> denied | failed                         (decided before the queue)
    requested -> awaiting_approval -> queued | denied | failed
    requested -> queued -> running -> completed | failed
    queued -> awaiting_approval | denied                 (an equal call was lost meanwhile)
    running -> queued                                    (lost, safe to retry, attempts left)
"""

from dataclasses import replace
from typing import assert_never

from toolrail_schemas._life import (
    TERMINAL_STATES,
    Answer,
    Approve,
    Ask,
    CallRecord,
    CallState,
    Cancel,
    Claim,
    DeadLetter,
    DeadlinePassed,
    Decision,
    Deny,
    Dispatch,
    Effect,
    EndRun,
    Enqueue,
    Entry,
    Event,
    ExpireApproval,
    Finish,
    LeaseExpired,
    NoteUncertain,
    NotifyInbox,
    NudgeWorker,
    Outcome,
    Refusal,
    RefusalReason,
    Refuse,
    Reject,
    Renew,
    Repeat,
    ReserveUnit,
    ReturnUnit,
    RingDoorbell,
)
from toolrail_schemas._life_approval import answer
from toolrail_schemas._life_attempt import attempt
from toolrail_schemas._life_ends import end_denied, end_failed, enqueue, refuse
from toolrail_schemas.events import EventType

__all__ = [
    "TERMINAL_STATES",
    "Answer",
    "Approve",
    "Ask",
    "CallRecord",
    "CallState",
    "Cancel",
    "Claim",
    "DeadLetter",
    "DeadlinePassed",
    "Decision",
    "Deny",
    "Dispatch",
    "Effect",
    "EndRun",
    "Enqueue",
    "Entry",
    "Event",
    "ExpireApproval",
    "Finish",
    "LeaseExpired",
    "NoteUncertain",
    "NotifyInbox",
    "NudgeWorker",
    "Outcome",
    "Refusal",
    "RefusalReason",
    "Refuse",
    "Reject",
    "Renew",
    "Repeat",
    "ReserveUnit",
    "ReturnUnit",
    "RingDoorbell",
    "step",
]


def step(record: CallRecord, event: Event) -> Outcome | Refusal:
    """Return the record after the event with what to journal and do, or why it is not taken."""
    match event:
        case Dispatch():
            return _dispatch(record, event)
        case Approve() | Deny() | ExpireApproval() | Repeat():
            return answer(record, event)
        case Claim() | Renew() | Finish() | LeaseExpired():
            return attempt(record, event)
        case Cancel():
            return _cancel(record, event)
        case DeadlinePassed():
            return _deadline_passed(record, event)
        case _:
            assert_never(event)


def _dispatch(record: CallRecord, event: Dispatch) -> Outcome | Refusal:
    if record.state is not CallState.REQUESTED:
        if record.digest == event.digest:
            return Outcome(record=record)
        return refuse(record, RefusalReason.CONFLICT)
    if not event.run_open:
        return refuse(record, RefusalReason.RUN_CLOSED)
    accepted = replace(
        record,
        digest=event.digest,
        attempt=1,
        max_attempts=event.max_attempts,
        retry_safe=event.retry_safe,
        deadline_ms=event.deadline_ms,
        args_sha256=event.args_sha256,
        spec_hash=event.spec_hash,
    )
    requested = Entry(type=EventType.TOOL_CALL_REQUESTED, attempt=1)
    decided = _decide(accepted, event.decision)
    if isinstance(decided, Refusal):
        return refuse(record, decided.reason)
    return replace(decided, journal=(requested, *decided.journal))


def _decide(record: CallRecord, decision: Decision) -> Outcome | Refusal:
    match decision:
        case Enqueue():
            if decision.over_budget:
                return refuse(record, RefusalReason.OVER_BUDGET)
            return enqueue(replace(record, unit_reserved=True), first=(ReserveUnit(),))
        case Ask():
            asked = replace(
                record,
                state=CallState.AWAITING_APPROVAL,
                answer=Answer.PENDING,
                approval_expires_ms=decision.expires_ms,
            )
            entry = Entry(type=EventType.TOOL_CALL_AWAITING_APPROVAL, attempt=1)
            return Outcome(record=asked, journal=(entry,))
        case Refuse():
            return end_denied(
                record, code=decision.error_code, by="policy", fail_run=decision.fail_run
            )
        case Reject():
            return end_failed(record, code=decision.error_code, error_class=decision.error_class)
        case _:
            assert_never(decision)


def _cancel(record: CallRecord, event: Cancel) -> Outcome | Refusal:
    match record.state:
        case CallState.REQUESTED:
            return refuse(record, RefusalReason.NOT_APPLICABLE)
        case CallState.AWAITING_APPROVAL | CallState.QUEUED:
            marked = replace(record, cancel_requested=True)
            if event.only_marked:
                return Outcome(record=marked)
            return end_failed(marked, code="tool.cancelled")
        case CallState.RUNNING:
            if record.cancel_requested:
                return Outcome(record=record)
            return Outcome(
                record=replace(record, cancel_requested=True),
                effects=(NudgeWorker(record.worker or ""),),
            )
        case CallState.DENIED | CallState.COMPLETED | CallState.FAILED:
            return Outcome(record=record)
        case _:
            assert_never(record.state)


def _deadline_passed(record: CallRecord, event: DeadlinePassed) -> Outcome | Refusal:
    if record.state not in (CallState.AWAITING_APPROVAL, CallState.QUEUED):
        return refuse(record, RefusalReason.NOT_APPLICABLE)
    if event.now_ms < record.deadline_ms:
        return refuse(record, RefusalReason.NOT_DUE)
    return end_failed(record, code="tool.timeout")
