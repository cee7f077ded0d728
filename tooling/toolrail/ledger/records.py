"""What goes into the ledger and what comes out of it, as plain frozen values.

Is: shapes and units of the ledger's arguments and replies. Is not: wire models (those are
`toolrail_schemas`) nor Redis calls (`ledger.py`). Above: dispatcher, worker, reaper, client.
Below: the schemas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import orjson
from pydantic import JsonValue

from toolrail.redaction import clean_payload
from toolrail_schemas import EventType, Level

_WORDLESS = frozenset(
    {
        EventType.TOOL_CALL_REQUESTED,
        EventType.TOOL_RESULT_STORED,
        EventType.TOOL_CALL_COMPLETED,
    }
)
"""Events of every call that hold numbers, digests and refs only; most of a journal."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """One journal event before it has a number."""

    type: EventType
    payload: Mapping[str, JsonValue]
    level: Level = Level.INFO

    def triple(self) -> tuple[str, str, str]:
        """Return type, level and payload as the scripts take them; no secret goes further."""
        payload = self.payload if self.type in _WORDLESS else clean_payload(self.payload)
        return self.type.value, self.level.value, orjson.dumps(payload).decode()


class Outcome(StrEnum):
    """How a call ended, for counters; a closed set (`finished:{queue}:{outcome}`)."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    DENIED = "denied"
    APPROVAL_EXPIRED = "approval_expired"
    OVER_BUDGET = "over_budget"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SYSTEM_ERROR = "system_error"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One outcome of one call, with the result that goes to its caller."""

    state: Literal["completed", "failed", "denied"]
    outcome: Outcome
    error_class: str = ""
    error_code: str = ""
    result: str = ""
    """The ToolResult as JSON, when it is small enough to stand in the record."""
    result_blob: str = ""
    """SHA-256 of the blob that holds it otherwise."""
    result_sha256: str
    inbox_result: str = ""
    """Sent along to the client's inbox when small; else the client reads the record."""
    run_end: Literal["completed", "failed", ""] = ""
    """Ends the run as this, once its other calls have ended."""
    run_end_code: str = ""
    events: tuple[EventLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """One call with all that was decided before the queue."""

    run_id: str
    call_key: str
    digest: str
    """SHA-256 of what the caller asked for; the same key with another digest is a conflict."""
    state: Literal["queued", "awaiting_approval", "denied", "failed"]
    fields: Mapping[str, str | int]
    """What the record holds; at least call_id, tool, turn, queue and client."""
    events: tuple[EventLine, ...]
    cap_run: int | None = None
    cap_turn: int | None = None
    deadline_ms: int
    """From now, for waiting and running together up to the claim."""
    envelope: str = ""
    approval_expires_ms: int = 0
    """By the clock of Redis."""
    alone: bool = False
    """Refuse while other calls of the run are open; for the tool that ends the run."""
    memory: str = "-"
    """What the run was taken to remember of approvals of this tool; "-" where it does not count."""
    drift: Literal["denied", "unknown", ""] = ""
    ending: Ending | None = None
    """Given iff `state` is terminal."""


@dataclass(frozen=True, slots=True)
class EditedArguments:
    """Arguments that a person approved instead of the model's."""

    sha256: str
    inline: str
    """The JSON text, when it is small enough to stand in the record."""
    blob: str
    """SHA-256 of the blob that holds it otherwise."""
    size_bytes: int
    summary: str
    """For the model; see `notice.py`."""


ANY_UNKNOWN = "*"
"""In place of the lost call that a person was told of: they answer for whichever there is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A person's yes, bound to what they saw."""

    by: str
    payload: Mapping[str, JsonValue]
    """Of `tool_call_approved`."""
    cap_run: int | None
    envelope: str
    args_sha256: str
    spec_hash: str
    memory_field: str = ""
    """Field of the run that remembers the decision; "" for once."""
    memory: str = ""
    caps: Mapping[str, int] = field(default_factory=dict[str, int])
    """Fields of the record that bound an attempt with the approved arguments: `entry.caps_of`."""
    edited: EditedArguments | None = None
    told_unknown: str = ""
    """The equal call of the run that may have taken effect and of which the person was told; "" for
    none, `ANY_UNKNOWN` for whichever there is."""


@dataclass(frozen=True, slots=True)
class Parked:
    """One page of the calls that wait for a person."""

    now_ms: int
    total: int
    records: tuple[str, ...]
    """Each an `ApprovalRecord` as JSON."""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """What the ledger did with a new call."""

    status: Literal[
        "accepted",
        "duplicate",
        "over_run_budget",
        "over_turn_budget",
        "calls_pending",
        "after_finish",
        "repeats_unknown",
        "remembered",
        "superseded",
    ]
    state: str = ""
    memory: str = ""
    """With `remembered`: what the run remembers now."""
    by: str = ""
    """With a `duplicate` approval: who had decided."""
    at_ms: int = 0
    """With a `duplicate` approval: when."""


class Refusal(StrEnum):
    """Why a claim was refused; every reason means: drop this doorbell."""

    DUP_RUNNING = "DUP_RUNNING"
    DUP_DONE = "DUP_DONE"
    STALE = "STALE"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"
    RUN_CLOSED = "RUN_CLOSED"
    NO_CALL = "NO_CALL"
    JOURNAL_FAILED = "JOURNAL_FAILED"
    ELSEWHERE = "ELSEWHERE"
    """This worker cannot run the tool, or not this version of it."""
    REPEATS_UNKNOWN = "REPEATS_UNKNOWN"
    """An equal call of the run may have taken effect, and no person has been told."""


CLAIM_FIELDS = (
    "call_id",
    "tool",
    "source",
    "queue",
    "spec_hash",
    "args",
    "args_blob",
    "caller",
    "tenant",
    "profile",
    "turn",
    "timeout_ms",
    "max_output_bytes",
    "max_output_tokens",
    "policy_hash",
    "client",
    "retry_safe",
    "max_attempts",
    "attempt",
    "edited",
)
"""What `lua/claim.lua` answers with, in this order."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A granted claim: the fence, and what the worker needs to run the call."""

    run_id: str
    call_key: str
    fence: int
    queue_ms: int
    fields: Mapping[str, str]


class Renewal(StrEnum):
    """What a lease renewal says about one running call."""

    KEPT = "kept"
    LOST = "lost"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Held:
    """One call that a worker runs."""

    run_id: str
    call_key: str
    fence: int


@dataclass(frozen=True, slots=True)
class Closed:
    """What the ledger did with an ending."""

    status: Literal["closed", "duplicate", "late", "refused", "gone", "journal_failed"]
    state: str = ""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call's record as it stands."""

    run_id: str
    call_key: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def state(self) -> str:
        """awaiting_approval, queued, running, completed, failed or denied."""
        return self.fields.get("state", "")

    @property
    def is_terminal(self) -> bool:
        """Whether the call has its outcome."""
        return self.state in {"completed", "failed", "denied"}

    def number(self, name: str) -> int:
        """Return a field as an integer, 0 when absent."""
        return int(float(self.fields.get(name) or 0))


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How far a run's end has come."""

    status: Literal["ended", "ending", "calls_pending"]
    run_status: str = ""
    open_calls: tuple[str, ...] = ()
    """Calls without an outcome; of many, some 100."""
