"""Name every kind of journal event, and close the payload of the eight tool events.

Is: `EventType` and one payload model per tool event (semantics 2.3). Is not: the envelope
(`journal.py`) or the order they may come in (`lifecycle.py`).
Above: `journal.py`. Below: `_base.py`, `refs.py`.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from toolrail_schemas._base import (
    CalledName,
    CallId,
    CallKey,
    Count,
    ErrorCode,
    Flag,
    Label,
    Positive,
    Sha256Hex,
    ShortText,
    TimestampMs,
    WireModel,
)
from toolrail_schemas._error_info import ErrorClass
from toolrail_schemas.annotations import Rollback, SideEffect
from toolrail_schemas.approval import ApprovalScope
from toolrail_schemas.call import Caller
from toolrail_schemas.policy import Layer, OnDenied
from toolrail_schemas.refs import ResourceRefStr
from toolrail_schemas.tool import Source


class EventType(StrEnum):
    """What happened. The first eight are the life of a call; the rest are open facts."""

    TOOL_CALL_REQUESTED = "tool_call_requested"
    TOOL_CALL_AWAITING_APPROVAL = "tool_call_awaiting_approval"
    TOOL_CALL_APPROVED = "tool_call_approved"
    TOOL_CALL_DENIED = "tool_call_denied"
    TOOL_CALL_STARTED = "tool_call_started"
    TOOL_RESULT_STORED = "tool_result_stored"
    TOOL_CALL_COMPLETED = "tool_call_completed"
    TOOL_CALL_FAILED = "tool_call_failed"

    TOOL_ATTEMPT_LOST = "tool_attempt_lost"
    """A lease ran out and the call was queued again under the next attempt."""
    TOOL_RESULT_LATE = "tool_result_late"
    """A worker finished with a stale fence; its result was discarded."""

    RUN_CREATED = "run_created"
    RUN_STATUS_CHANGED = "run_status_changed"
    RUN_CANCEL_REQUESTED = "run_cancel_requested"
    RUN_COMPLETED = "run_completed"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    POLICY_SNAPSHOT_FROZEN = "policy_snapshot_frozen"
    TOOL_SURFACE_SNAPSHOTTED = "tool_surface_snapshotted"
    TOOL_SURFACE_UPDATED = "tool_surface_updated"
    WORKSPACE_FILE_WRITTEN = "workspace_file_written"
    WORKSPACE_PATCH_APPLIED = "workspace_patch_applied"
    WORKSPACE_PATCH_FAILED = "workspace_patch_failed"
    CHECKPOINT_CREATED = "checkpoint_created"
    CHECKPOINT_RESTORED = "checkpoint_restored"
    CONTEXT_ASSEMBLED = "context_assembled"
    CONTEXT_COMPONENT_SKIPPED = "context_component_skipped"
    MODEL_REQUEST_CREATED = "model_request_created"
    MCP_SERVER_STARTED = "mcp_server_started"
    MCP_SERVER_STOPPED = "mcp_server_stopped"
    MCP_SERVER_ERROR = "mcp_server_error"
    MCP_TOOLS_UPDATED = "mcp_tools_updated"
    EXTENSION_BRIDGE_CONNECTED = "extension_bridge_connected"
    EXTENSION_BRIDGE_DISCONNECTED = "extension_bridge_disconnected"
    EXTENSION_LATE_RESULT = "extension_late_result"
    APPROVAL_SUPERSEDED = "approval_superseded"
    PLAN_NODE_STARTED = "plan_node_started"
    PLAN_NODE_COMPLETED = "plan_node_completed"
    PLAN_POLICY_VIOLATION = "plan_policy_violation"
    BUDGET_EXHAUSTED = "budget_exhausted"


RUN_TERMINAL_EVENTS = frozenset(
    {EventType.RUN_COMPLETED, EventType.RUN_FAILED, EventType.RUN_CANCELLED}
)
CALL_TERMINAL_EVENTS = frozenset(
    {EventType.TOOL_CALL_DENIED, EventType.TOOL_CALL_COMPLETED, EventType.TOOL_CALL_FAILED}
)


class CallPayload(WireModel):
    """What every event of a call says."""

    call_id: CallId
    call_key: CallKey
    name: CalledName
    turn: Count


class RequestedPayload(CallPayload):
    """A model asked for this call, or an operator on behalf of a dead letter."""

    caller: Caller
    source: Source | None = None
    """Null when no such tool is known."""
    spec_hash: Sha256Hex | None = None
    args_ref: ResourceRefStr
    args_bytes: Count
    args_sha256: Sha256Hex
    provider_metadata_ref: ResourceRefStr | None = None
    redrive_of: Label | None = None
    """The dead letter that an operator made this call of, as `run_id.call_key`."""
    redrive_by: Label | None = None


class AwaitingApprovalPayload(CallPayload):
    """A person is being asked."""

    approval_id: Label
    args_summary: ShortText
    args_ref: ResourceRefStr
    side_effect: SideEffect
    destructive: Flag
    source: Source
    rollback: Rollback
    policy_reason: ShortText
    expires_at: TimestampMs


class ApprovedPayload(CallPayload):
    """A person, or an earlier decision of a person, said yes."""

    approval_id: Label
    decided_by: Label
    decided_at: TimestampMs
    scope: ApprovalScope
    args_sha256: Sha256Hex | None = None
    """Digest of the arguments that were asked about."""
    edited_args_sha256: Sha256Hex | None = None
    """Digest of the arguments that were approved instead."""


class DeniedPayload(CallPayload):
    """The call ends here, refused."""

    denied_by: Literal["policy", "user", "expiry"]
    layer: Layer | None = None
    rule: ShortText | None = None
    policy_reason: ShortText
    on_denied: OnDenied
    approval_id: Label | None = None


class StartedPayload(CallPayload):
    """A worker holds the lease and is about to cause the first effect."""

    attempt: Positive
    worker: Label
    queue: Literal["builtin", "mcp", "extension"]
    timeout_ms: Count
    queue_ms: Count
    policy_hash: Sha256Hex | None = None


class ResultStoredPayload(CallPayload):
    """The result is durable."""

    result_ref: ResourceRefStr
    sha256: Sha256Hex
    bytes: Count
    truncated: Flag


class CompletedPayload(CallPayload):
    """The call ends here, answered."""

    result_ref: ResourceRefStr
    is_error: Literal[False] = False
    duration_ms: Count
    output_tokens: Count
    resource_refs: tuple[ResourceRefStr, ...] = Field(default=(), max_length=16)


class FailedPayload(CallPayload):
    """The call ends here, failed; it says nothing about the run."""

    error_class: ErrorClass
    error_code: ErrorCode
    message: ShortText
    """What the code means, in our words; what the tool said stands in the stored result."""
    result_ref: ResourceRefStr | None = None
    duration_ms: Count


CALL_PAYLOADS: dict[EventType, type[CallPayload]] = {
    EventType.TOOL_CALL_REQUESTED: RequestedPayload,
    EventType.TOOL_CALL_AWAITING_APPROVAL: AwaitingApprovalPayload,
    EventType.TOOL_CALL_APPROVED: ApprovedPayload,
    EventType.TOOL_CALL_DENIED: DeniedPayload,
    EventType.TOOL_CALL_STARTED: StartedPayload,
    EventType.TOOL_RESULT_STORED: ResultStoredPayload,
    EventType.TOOL_CALL_COMPLETED: CompletedPayload,
    EventType.TOOL_CALL_FAILED: FailedPayload,
}
"""The closed payload of each tool event; nothing else can enter the journal under its type."""
