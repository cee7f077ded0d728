"""Build the endings and steps that several events share.

Is: how a call is queued, denied or failed, with journal and effects. Is not: when.
Above: `lifecycle.py`, `_life_approval.py`, `_life_attempt.py`. Below: `_life.py`.
"""

from dataclasses import replace
from typing import Literal

from toolrail_schemas._error_info import ErrorClass
from toolrail_schemas._life import (
    Answer,
    CallRecord,
    CallState,
    Effect,
    EndRun,
    Entry,
    NoteUncertain,
    NotifyInbox,
    Outcome,
    Refusal,
    RefusalReason,
    ReturnUnit,
    RingDoorbell,
)
from toolrail_schemas.events import EventType
from toolrail_schemas.run import RunStatus

_OUTCOME_UNKNOWN = "tool.outcome_unknown"


def refuse(record: CallRecord, reason: RefusalReason) -> Refusal:
    """Return a refusal that leaves the record as it is."""
    return Refusal(reason=reason, record=record)


def entry_of(record: CallRecord, kind: EventType) -> Entry:
    """Return a journal entry of the record's present attempt."""
    return Entry(type=kind, attempt=record.attempt)


def enqueue(record: CallRecord, *, first: tuple[Effect, ...] = ()) -> Outcome:
    """Return the step into the queue: the record, and a doorbell for its attempt."""
    queued = replace(record, state=CallState.QUEUED)
    return Outcome(record=queued, effects=(*first, RingDoorbell(record.attempt)))


def end_denied(
    record: CallRecord,
    *,
    code: str,
    by: Literal["policy", "user", "expiry"],
    fail_run: bool,
) -> Outcome:
    """Return the end of a call that policy, a person or silence refused."""
    entry = Entry(
        type=EventType.TOOL_CALL_DENIED, attempt=record.attempt, error_code=code, denied_by=by
    )
    ending = (EndRun(RunStatus.FAILED, code),) if fail_run else ()
    return Outcome(
        record=replace(record, state=CallState.DENIED, error_code=code),
        journal=(entry_of(record, EventType.TOOL_RESULT_STORED), entry),
        effects=(NotifyInbox(), *ending),
    )


def end_failed(
    record: CallRecord,
    *,
    code: str,
    error_class: ErrorClass = ErrorClass.RECOVERABLE,
    stored: bool = True,
) -> Outcome:
    """Return the end of a call that failed, wherever it was.

    A unit of budget goes back when no attempt ever started; a system error ends the run.
    """
    answer = Answer.CANCELLED if record.answer is Answer.PENDING else record.answer
    effects: list[Effect] = [NotifyInbox()]
    returned = record.unit_reserved and not record.has_started
    if returned:
        effects.append(ReturnUnit())
    if code == _OUTCOME_UNKNOWN:
        effects.append(NoteUncertain())
    if error_class is ErrorClass.SYSTEM:
        effects.append(EndRun(RunStatus.FAILED, code))
    failed = Entry(type=EventType.TOOL_CALL_FAILED, attempt=record.attempt, error_code=code)
    return Outcome(
        record=replace(
            record,
            state=CallState.FAILED,
            answer=answer,
            error_code=code,
            unit_reserved=record.unit_reserved and not returned,
        ),
        # The result is told before the outcome; only a result that could not be stored is not.
        journal=(*([entry_of(record, EventType.TOOL_RESULT_STORED)] if stored else []), failed),
        effects=tuple(effects),
    )
