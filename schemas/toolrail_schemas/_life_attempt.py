"""Decide what a worker, or its silence, does to a call.

Is: claim, renew, finish, lost lease: the fence (semantics 2.6). Is not: the work itself.
Above: `lifecycle.py`. Below: `_life_ends.py`.
"""

from dataclasses import replace
from typing import assert_never

from toolrail_schemas._error_info import ErrorClass
from toolrail_schemas._life import (
    CallRecord,
    CallState,
    Claim,
    DeadLetter,
    EndRun,
    Entry,
    Finish,
    LeaseExpired,
    NotifyInbox,
    Outcome,
    Refusal,
    RefusalReason,
    Renew,
)
from toolrail_schemas._life_ends import end_failed, enqueue, entry_of, refuse
from toolrail_schemas.events import EventType
from toolrail_schemas.run import RunStatus

_OUTCOME_UNKNOWN = "tool.outcome_unknown"
_RESULT_LOST = "store.result_write_failed"


def attempt(record: CallRecord, event: Claim | Renew | Finish | LeaseExpired) -> Outcome | Refusal:
    """Return what the event does to the attempt."""
    match event:
        case Claim():
            return _claim(record, event)
        case Renew():
            return _renew(record, event)
        case Finish():
            return _finish(record, event)
        case LeaseExpired():
            return _lease_expired(record, event)
        case _:
            assert_never(event)


def _claim(record: CallRecord, event: Claim) -> Outcome | Refusal:
    if record.state is CallState.RUNNING and record.nonce == event.nonce:
        return Outcome(record=record)
    reason = _why_unclaimable(record, event)
    if reason is not None:
        return refuse(record, reason)
    running = replace(
        record,
        state=CallState.RUNNING,
        fence=record.fence + 1,
        nonce=event.nonce,
        worker=event.worker,
        lease_until_ms=event.now_ms + event.lease_ms,
    )
    entry = Entry(type=EventType.TOOL_CALL_STARTED, attempt=record.attempt)
    return Outcome(record=running, journal=(entry,))


def _why_unclaimable(record: CallRecord, event: Claim) -> RefusalReason | None:
    if record.is_terminal:
        return RefusalReason.ALREADY_DONE
    if record.attempt != event.attempt:
        return RefusalReason.STALE_ATTEMPT
    if record.state is CallState.RUNNING:
        return RefusalReason.ALREADY_RUNNING
    if record.state is not CallState.QUEUED:
        return RefusalReason.NOT_APPLICABLE
    if not event.run_open:
        return RefusalReason.RUN_CLOSED
    if record.cancel_requested:
        return RefusalReason.CANCELLED
    if event.now_ms >= record.deadline_ms:
        return RefusalReason.DEADLINE_PASSED
    if event.repeats_unknown and not record.retry_safe:
        return RefusalReason.REPEATS_UNKNOWN
    return None


def _renew(record: CallRecord, event: Renew) -> Outcome | Refusal:
    if record.state is not CallState.RUNNING or record.fence != event.fence:
        return refuse(record, RefusalReason.STALE_FENCE)
    # A lease that ran out unnoticed is still the holder's: the fence has not moved.
    return Outcome(record=replace(record, lease_until_ms=event.now_ms + event.lease_ms))


def _finish(record: CallRecord, event: Finish) -> Outcome | Refusal:
    if record.fence != event.fence or not record.has_started:
        return _late(record, event.fence)
    if record.state is not CallState.RUNNING:
        if record.is_terminal and record.result_sha256 == event.result_sha256:
            return Outcome(record=record)
        return _late(record, event.fence)
    # The tool's work is done, so its result stands, even when a cancel is on its way: to report
    # "cancelled" would hide an effect that happened.
    held = replace(record, result_sha256=event.result_sha256)
    if event.error_code is not None:
        error_class = event.error_class or ErrorClass.RECOVERABLE
        stored = event.result_sha256 is not None
        return end_failed(held, code=event.error_code, error_class=error_class, stored=stored)
    if event.result_sha256 is None:
        return end_failed(held, code=_RESULT_LOST, error_class=ErrorClass.SYSTEM, stored=False)
    ending = (EndRun(RunStatus.COMPLETED),) if event.completes_run else ()
    return Outcome(
        record=replace(held, state=CallState.COMPLETED),
        journal=(
            entry_of(held, EventType.TOOL_RESULT_STORED),
            entry_of(held, EventType.TOOL_CALL_COMPLETED),
        ),
        effects=(NotifyInbox(), *ending),
    )


def _late(record: CallRecord, fence: int) -> Refusal:
    if fence in record.late_fences:
        return refuse(record, RefusalReason.STALE_FENCE)
    return Refusal(
        reason=RefusalReason.STALE_FENCE,
        record=replace(record, late_fences=(*record.late_fences, fence)),
        journal=(entry_of(record, EventType.TOOL_RESULT_LATE),),
    )


def _lease_expired(record: CallRecord, event: LeaseExpired) -> Outcome | Refusal:
    if record.state is not CallState.RUNNING or record.fence != event.fence:
        return refuse(record, RefusalReason.NOT_APPLICABLE)
    if event.now_ms < record.lease_until_ms:
        return refuse(record, RefusalReason.NOT_DUE)
    # The fence moves at once, so that whatever the lost worker still sends is late.
    lost = replace(record, fence=record.fence + 1, nonce=None, worker=None, lease_until_ms=0)
    if not record.retry_safe:
        ended = end_failed(lost, code=_OUTCOME_UNKNOWN)
        return replace(ended, effects=(*ended.effects, DeadLetter()))
    if record.cancel_requested:
        return end_failed(lost, code="tool.cancelled")
    if record.attempt >= record.max_attempts:
        ended = end_failed(lost, code="tool.worker_lost")
        return replace(ended, effects=(*ended.effects, DeadLetter()))
    if not event.run_open:
        return end_failed(lost, code="tool.worker_lost")
    again = enqueue(replace(lost, attempt=record.attempt + 1))
    return replace(again, journal=(entry_of(record, EventType.TOOL_ATTEMPT_LOST),))
