"""Carry the answer of the policy resolver: visible, callable, approval, budget, and why.

Is: `PolicyDecision` and its vocabulary (semantics 3.1). Is not: the resolver
(`toolrail/policy/`).
Above: policy, dispatcher, approvals, `toolrail policy explain`. Below: `_base.py`.
"""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from toolrail_schemas._base import Count, Flag, Label, ShortText, WireModel


class Layer(StrEnum):
    """Who said it. The first six are policy layers, the rest are facts the resolver reads."""

    PLATFORM = "platform"
    USER = "user"
    PLAN = "plan"
    PROFILE = "profile"
    SOURCE = "source"
    SPEC = "spec"
    BUDGET = "budget"
    CONTEXT = "context"
    CATALOG = "catalog"


class ReasonCode(StrEnum):
    """Why a tool is, or is not, visible and callable."""

    ALLOWED = "allowed"
    DENY = "deny"
    PLATFORM_NOT_LISTED = "platform.not_listed"
    PLAN_UNLISTED = "plan.unlisted"
    CONTEXT_CALLER = "context.caller"
    CATALOG_SURFACE = "catalog.surface"
    CATALOG_DEPRECATED = "catalog.deprecated"
    NOT_ALLOWED = "policy.not_allowed"
    NOT_MODEL_VISIBLE = "not_model_visible"
    USER_ONLY = "user_only"
    BUDGET_EXHAUSTED = "budget.exhausted"
    SOURCE_UNAVAILABLE = "source.unavailable"
    NOT_LOADED = "tool.not_loaded"


class OnDenied(StrEnum):
    """What a denial does to the run."""

    FAIL_FAST = "fail_fast"
    RETURN_RESULT = "return_result"


class Reason(WireModel):
    """The deciding layer and rule."""

    code: ReasonCode
    layer: Layer | None = None
    rule: ShortText | None = None
    """The rule as it is spelled in the policy, when one decided."""
    message: ShortText = ""
    """For people; the model gets the words of the error code instead."""
    also: tuple[Layer, ...] = ()
    """Further layers that say the same."""


BudgetField = Literal["calls", "calls_turn", "max_output_tokens", "timeout_ms", "max_output_bytes"]


class BudgetDecision(WireModel):
    """What a call may still use."""

    calls_remaining: Count | None = None
    """Null: no cap."""
    calls_remaining_turn: Count | None = None
    max_output_tokens: Count
    timeout_ms: Count
    max_output_bytes: Count | None = None
    exhausted: Flag = False
    source_of: dict[BudgetField, Layer] = Field(default_factory=dict[BudgetField, Layer])
    """Which layer set each field."""


class PolicyDecision(WireModel):
    """The whole answer for one tool, one caller, one moment."""

    visible: Flag
    callable: Flag
    approval_required: Flag
    reason: Reason
    budget: BudgetDecision
    on_denied: OnDenied = OnDenied.FAIL_FAST
    exposed: Flag = False
    """Whether the full schema is in the prompt now; the context plane's answer, repeated here."""
    approval_required_by: tuple[Layer, ...] = ()
    """Layers that ask for approval and were not waived; decides which scopes are offered."""
    approval_rules: tuple[ShortText, ...] = ()
    """The rule of each of those layers, in the same order."""
    warnings: tuple[Label, ...] = Field(default=(), max_length=64)
    """Rules that had no effect, such as a profile that tries to waive an MCP tool."""
