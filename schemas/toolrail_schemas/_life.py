"""Name what the life of a call is made of: record, events, journal entries, effects, refusals.

Is: plain frozen values. Is not: the rules (`lifecycle.py`).
Above: `lifecycle.py`, which exports everything here. Below: `events.py`, `run.py`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from toolrail_schemas._error_info import ErrorClass
from toolrail_schemas.events import EventType
from toolrail_schemas.run import RunStatus


class CallState(StrEnum):
    """Where a call is; the last three are final."""

    REQUESTED = "requested"
    AWAITING_APPROVAL = "awaiting_approval"
    QUEUED = "queued"
    RUNNING = "running"
    DENIED = "denied"
    COMPLETED = "completed"
    FAILED = "failed"


TERMINAL_STATES = frozenset({CallState.DENIED, CallState.COMPLETED, CallState.FAILED})


class Answer(StrEnum):
    """What came of asking a person."""

    NOT_ASKED = "not_asked"
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """The whole truth of one call, as far as its life goes."""

    state: CallState = CallState.REQUESTED
    digest: str = ""
    """SHA-256 of what was dispatched; the same key with another digest is a conflict."""
    attempt: int = 0
    """1 from dispatch on; each retry adds one."""
    max_attempts: int = 1
    retry_safe: bool = False
    """The tool is trusted to be read-only or idempotent, so a lost attempt may run again."""
    fence: int = 0
    """Moves at every claim and at every loss; a finish with an older one is late."""
    nonce: str | None = None
    """Names the claim; the same nonce again gets the same answer."""
    worker: str | None = None
    lease_until_ms: int = 0
    deadline_ms: int = 0
    """After this instant a call that waits is not started any more."""
    answer: Answer = Answer.NOT_ASKED
    approved_for_run: bool = False
    approval_expires_ms: int = 0
    args_sha256: str = ""
    spec_hash: str = ""
    cancel_requested: bool = False
    unit_reserved: bool = False
    result_sha256: str | None = None
    error_code: str | None = None
    late_fences: tuple[int, ...] = ()
    """Stale fences whose result was refused and journaled, each once."""

    @property
    def is_terminal(self) -> bool:
        """Whether the call has its outcome; nothing changes it any more."""
        return self.state in TERMINAL_STATES

    @property
    def has_started(self) -> bool:
        """Whether any attempt was ever claimed."""
        return self.fence > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Decided before the queue: it may run."""

    over_budget: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Decided before the queue: a person has to say yes first."""

    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Decided before the queue: policy denies it."""

    error_code: str = "policy.denied"
    fail_run: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Decided before the queue: it cannot run (unknown tool, bad arguments, budget, ...)."""

    error_code: str
    error_class: ErrorClass = ErrorClass.RECOVERABLE


Decision = Enqueue | Ask | Refuse | Reject


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """A caller hands in the call with everything decided about it."""

    now_ms: int
    digest: str
    decision: Decision
    deadline_ms: int
    retry_safe: bool = False
    max_attempts: int = 2
    args_sha256: str = ""
    spec_hash: str = ""
    run_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """A person says yes to these arguments of this tool, or to the arguments they edited."""

    now_ms: int
    args_sha256: str
    """What the person was shown."""
    spec_hash: str
    edited_args_sha256: str | None = None
    for_run: bool = False
    """Answers the same question for the rest of the run, too."""
    over_budget: bool = False
    run_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """A person says no."""

    now_ms: int
    fail_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireApproval:
    """Nobody said anything; told by the reaper."""

    now_ms: int
    fail_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker wants to run one attempt."""

    now_ms: int
    attempt: int
    nonce: str
    worker: str
    lease_ms: int
    run_open: bool = True
    repeats_unknown: bool = False
    """An equal call of the run may have taken effect, and no approver of this one knew of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """A claim was refused as `repeats_unknown`; told by its worker, with what is to happen."""

    now_ms: int
    decision: Ask | Refuse


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """A worker is still at it."""

    now_ms: int
    fence: int
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """A worker hands in the outcome."""

    now_ms: int
    fence: int
    result_sha256: str | None
    """Null when the result could not be stored; then there is an error."""
    error_code: str | None = None
    error_class: ErrorClass | None = None
    completes_run: bool = False
    """The tool was the one that ends a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """The user, or the end of the run, wants the call gone."""

    now_ms: int
    only_marked: bool = False
    """Who cancels died after the mark; a call that waits is closed by whoever sees it next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """The worker was silent for too long; told by the reaper."""

    now_ms: int
    fence: int
    run_open: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed:
    """The call waited for too long; told by the reaper."""

    now_ms: int


Event = (
    Dispatch
    | Approve
    | Deny
    | ExpireApproval
    | Claim
    | Repeat
    | Renew
    | Finish
    | Cancel
    | LeaseExpired
    | DeadlinePassed
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One journal event to append, without the parts only its writer knows."""

    type: EventType
    attempt: int
    error_code: str | None = None
    denied_by: Literal["policy", "user", "expiry"] | None = None


@dataclass(frozen=True, slots=True)
class RingDoorbell:
    """Tell the queue to look at this attempt."""

    attempt: int


@dataclass(frozen=True, slots=True)
class NotifyInbox:
    """Tell the waiting client that the call has its outcome."""


@dataclass(frozen=True, slots=True)
class ReserveUnit:
    """Take one call from the budget."""


@dataclass(frozen=True, slots=True)
class ReturnUnit:
    """Give the call back to the budget; it never started."""


@dataclass(frozen=True, slots=True)
class NudgeWorker:
    """Hurry the news of a cancel to the worker; it would learn of it at its next renewal."""

    worker: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """List the call for an operator."""


@dataclass(frozen=True, slots=True)
class NoteUncertain:
    """Ask a person before the same tool and arguments run again in this run."""


@dataclass(frozen=True, slots=True)
class EndRun:
    """End the run once its other calls have ended."""

    status: RunStatus
    code: str | None = None


Effect = (
    RingDoorbell
    | NotifyInbox
    | ReserveUnit
    | ReturnUnit
    | NudgeWorker
    | DeadLetter
    | NoteUncertain
    | EndRun
)


class RefusalReason(StrEnum):
    """Why nothing happened."""

    CONFLICT = "conflict"
    """The call key was used for another content."""
    OVER_BUDGET = "over_budget"
    RUN_CLOSED = "run_closed"
    NOT_AWAITING = "not_awaiting"
    """Nobody was asked about this call, or it is beyond that."""
    DECIDED_OTHERWISE = "decided_otherwise"
    APPROVAL_EXPIRED = "approval_expired"
    SUPERSEDED = "superseded"
    """The person saw another version of the tool."""
    ASKED_ANEW = "asked_anew"
    """The person saw other arguments: the question is not the one that stands."""
    ALREADY_RUNNING = "already_running"
    ALREADY_DONE = "already_done"
    STALE_ATTEMPT = "stale_attempt"
    CANCELLED = "cancelled"
    """It is marked, and whoever wants to start it closes it instead."""
    DEADLINE_PASSED = "deadline_passed"
    REPEATS_UNKNOWN = "repeats_unknown"
    """An effect that may have happened would be repeated; a person has to say yes first."""
    STALE_FENCE = "stale_fence"
    NOT_DUE = "not_due"
    NOT_APPLICABLE = "not_applicable"
    """The event means nothing in this state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The event was taken. Empty journal and effects mean it had been taken before."""

    record: CallRecord
    journal: tuple[Entry, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The event was not taken. Only a late result leaves a trace, once per fence."""

    reason: RefusalReason
    record: CallRecord
    journal: tuple[Entry, ...] = ()
