"""Describe one run of an agent: whose it is and what it may do.

Is: `RunSpec` as it is frozen when the run starts, and the statuses of a run. Is not: its live
record, which only the ledger changes.
Above: client, dispatcher, ledger. Below: `_base.py`, `call.py`.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from toolrail_schemas._base import (
    KIB,
    Count,
    JsonObject,
    Label,
    Sha256Hex,
    Slug,
    WireModel,
    check_json,
)
from toolrail_schemas.call import Caller

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class RunStatus(StrEnum):
    """Where a run is; every status but the first is final."""

    OPEN = "open"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ApprovalMode(StrEnum):
    """What happens to a call that needs approval."""

    INTERACTIVE = "interactive"
    DENY_ALL = "deny_all"
    FAIL_RUN = "fail_run"


class RunLimits(WireModel):
    """How much refusal a run survives; beyond it the run fails with `run.drift_limit`."""

    max_denied: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 10
    max_unknown: Annotated[int, Field(strict=True, ge=0, le=10_000)] = 5


class RunSpec(WireModel):
    """What a run is started with; frozen for its whole life."""

    tenant: Slug = "default"
    profile: Slug
    surface: Slug = "core"
    caller: Caller = Caller.ASSISTANT
    """Caller of the run's calls unless a call says otherwise."""
    plan: JsonObject | None = None
    """The plan node's policy, in the shape of a policy file; null without a plan."""
    policy_hash: Sha256Hex | None = None
    """The frozen policy snapshot; null until the dispatcher froze one."""
    approval_mode: ApprovalMode = ApprovalMode.DENY_ALL
    """Nobody is asked unless somebody said that there is somebody to ask."""
    limits: RunLimits = RunLimits()
    user: Label | None = None
    name: Label | None = None
    """The caller's own name for the run, unique per tenant; only an index."""
    chat: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Id of the chat that the run reads, of the same tenant; null: it reads none."""
    chat_messages: Count | None = None
    """How many messages of the chat exist for the run, from the first; null: as many as there are
    when the run first looks."""

    @field_validator("plan")
    @classmethod
    def _small_plan(cls, plan: JsonObject | None) -> JsonObject | None:
        if plan is not None:
            check_json(plan, limit_bytes=64 * KIB, what="plan")
        return plan


def format_run_id(now_ms: int, entropy: bytes) -> str:
    """Return `run_` and the ULID of an instant and ten random bytes.

    Raises:
        ValueError: Not ten bytes, or an instant a ULID cannot carry.
    """
    if len(entropy) != 10 or not 0 <= now_ms < 2**48:
        raise ValueError("a ULID needs 48 bits of time and 80 bits of randomness")
    number = (now_ms << 80) | int.from_bytes(entropy, "big")
    return "run_" + "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))
