"""Carry one question to a person and its answer.

Is: `ApprovalRecord` and its vocabulary (semantics 6). Is not: the transition itself, which is a
compare-and-set of the ledger.
Above: ledger, gateway, CLI. Below: `annotations.py`, `tool.py`, `_summary.py`.
"""

from enum import StrEnum
from typing import Self

from pydantic import model_validator

from toolrail_schemas._base import (
    CalledName,
    CallId,
    CallKey,
    Flag,
    Label,
    RunId,
    Sha256Hex,
    ShortText,
    TimestampMs,
    WireModel,
)
from toolrail_schemas._summary import summarize_arguments
from toolrail_schemas.annotations import Annotations, Rollback
from toolrail_schemas.call import Caller
from toolrail_schemas.policy import Layer
from toolrail_schemas.refs import ResourceRefStr
from toolrail_schemas.tool import Source, SourceRef

__all__ = ["ApprovalRecord", "ApprovalScope", "ApprovalState", "summarize_arguments"]


class ApprovalState(StrEnum):
    """Where an approval is; every state but the first is final."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


class ApprovalScope(StrEnum):
    """What an approval covers."""

    ONCE = "once"
    RUN = "run"
    ALWAYS = "always"


_DECIDED = frozenset({ApprovalState.APPROVED, ApprovalState.DENIED})


class ApprovalRecord(WireModel):
    """One question: may this call, with these arguments, run?"""

    approval_id: Label
    run_id: RunId
    call_id: CallId
    call_key: CallKey
    tenant: Label = "default"
    profile: Label = "default"
    caller: Caller = Caller.ASSISTANT
    name: CalledName
    """Canonical; the tool's part of it is whatever its server calls it, as is the title."""
    title: CalledName
    description: ShortText = ""
    """What the tool's author says of it; untrusted plain text, never markup."""
    source: Source
    source_ref: SourceRef | None = None
    trusted: Flag = False
    """Whether the operator vouches for the source's own words."""
    spec_hash: Sha256Hex
    args_sha256: Sha256Hex
    policy_hash: Sha256Hex
    args_summary: ShortText
    args_ref: ResourceRefStr
    annotations: Annotations
    rollback: Rollback
    effects: tuple[Label, ...] = ()
    """What these arguments add to the tool's side effects, such as `destructive`."""
    policy_reason: ShortText
    """The layers and rules that asked."""
    layers: tuple[Layer, ...] = ()
    """The layers that asked."""
    scopes: tuple[ApprovalScope, ...] = (ApprovalScope.ONCE,)
    """What may be chosen."""
    requested_at: TimestampMs
    expires_at: TimestampMs
    state: ApprovalState = ApprovalState.PENDING
    decided_by: Label | None = None
    decided_at: TimestampMs | None = None
    scope: ApprovalScope | None = None
    comment: ShortText | None = None
    """What the person says to the model, at most 500 characters."""
    edited_args_sha256: Sha256Hex | None = None
    """Digest of the arguments the person approved instead of the model's."""

    @model_validator(mode="after")
    def _decision_is_whole(self) -> Self:
        decided = self.state in _DECIDED
        if decided != (self.decided_by is not None) or decided != (self.decided_at is not None):
            raise ValueError("decided_by and decided_at are set exactly when a person decided")
        if (self.scope is not None) != (self.state is ApprovalState.APPROVED):
            raise ValueError("scope is set exactly when the approval was given")
        if self.edited_args_sha256 is not None and self.state is not ApprovalState.APPROVED:
            raise ValueError("only an approved call has edited arguments")
        if self.comment is not None and len(self.comment) > 500:
            raise ValueError("a comment has at most 500 characters")
        if self.expires_at <= self.requested_at:
            raise ValueError("an approval expires after it was requested")
        return self
