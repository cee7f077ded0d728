"""Judge one call before it is accepted: queue it, park it for a person, or refuse it, and why.

Is: steps 3 to 7 of the order in semantics 0 (name, policy, context, arguments, approval) as one
pure function on a snapshot. Is not: any I/O, budget counters (the ledger's script has them) or
the words of policy (`toolrail.policy`). Above: `dispatcher.py`. Below: policy, validation, schemas.
"""

from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from toolrail.errors import InvalidArguments
from toolrail.policy.dynamic import effects_of_arguments
from toolrail.policy.inputs import Facts
from toolrail.policy.remembered import RememberedApproval
from toolrail.policy.snapshot import PolicySnapshot
from toolrail.registry import RegisteredTool
from toolrail.validation import ArgumentValidators
from toolrail_schemas import (
    ApprovalMode,
    Caller,
    OnDenied,
    PolicyDecision,
    Reason,
    ReasonCode,
    RunSpec,
    Source,
    ToolResult,
    error_info,
    error_of_reason,
)

HIDING = frozenset({"tool.not_found", "policy.not_allowed", "tool.after_finish"})
"""Codes given for known, hidden and unknown tools alike: under them a result has the name as the
caller spelled it, or an alias would tell that there is such a tool."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One call as it was asked for, its arguments parsed or found unfit."""

    call_id: str
    name: str
    """Canonical when somebody knows the tool, else what the caller wrote, fit to be shown."""
    arguments: dict[str, JsonValue] | None
    problem: InvalidArguments | None
    caller: Caller
    turn: int
    spelled: str = ""
    """What the caller wrote; empty when that is the name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is to happen with a call.

    `decision` is None only for a tool nobody knows. A refusal has its `result`.
    """

    kind: Literal["queue", "park", "refuse"]
    decision: PolicyDecision | None = None
    result: ToolResult | None = None
    denied: dict[str, JsonValue] | None = None
    """Payload of `tool_call_denied`, when permission is what refused."""
    drift: Literal["denied", "unknown", ""] = ""
    run_end_code: str = ""
    """Fails the run with this code, when set."""
    memory: str = ""
    """What the run remembers of approvals of this tool, as `dumps` wrote it; for a call that is
    queued because of it, or parked in spite of it."""


def judge(
    asked: Asked,
    tool: RegisteredTool | None,
    *,
    run: RunSpec,
    policy: PolicySnapshot,
    validators: ArgumentValidators,
    repeats_unknown: bool = False,
    memory: str = "",
) -> Judgement:
    """Return what is to happen with the call; the same inputs give the same judgement.

    Args:
        asked: The call.
        tool: What the registry knows under its name, or None.
        run: Whose call it is.
        policy: The run's frozen policy, under its plan node.
        validators: Compiled schemas, kept by the caller.
        repeats_unknown: The same tool and arguments ended as outcome_unknown in this run before.
        memory: What the run remembers of approvals of this tool and version; "" for nothing.
    """
    if tool is None:
        return Judgement(kind="refuse", result=failure(asked, "tool.not_found"), drift="unknown")
    facts = Facts(
        source_available=tool.available,
        repeats_unknown=repeats_unknown,
        dynamic=effects_of_arguments(tool.spec, asked.arguments or {}),
        remembered=RememberedApproval.loads(memory).as_fact if memory else None,
    )
    decision = policy.resolve(tool.spec, caller=asked.caller, surface=run.surface, facts=facts)
    if not decision.visible:
        return _denied(asked, decision)
    if not decision.callable:
        code = _unavailable(tool) or error_of_reason(decision.reason.code).code
        return Judgement(
            kind="refuse", decision=decision, result=failure(asked, code, _why(tool, code))
        )
    problem = asked.problem
    if problem is None and asked.arguments is not None:
        try:
            validators.check(tool.spec, asked.arguments)
        except InvalidArguments as error:
            problem = error
    if problem is not None:
        result = failure(asked, "tool.invalid_arguments", problem.message)
        # Counted like a denial, or a model could go on for ever (semantics 3.6).
        return Judgement(kind="refuse", decision=decision, result=result, drift="denied")
    if decision.approval_required:
        return _approval(asked, decision, run.approval_mode, memory)
    return Judgement(kind="queue", decision=decision, memory=memory)


def failure(asked: Asked, code: str, text: str | None = None) -> ToolResult:
    """Return the error result of a call that never ran; the table of codes knows the words."""
    name = (asked.spelled or asked.name) if code in HIDING else asked.name
    return ToolResult.failure(asked.call_id, name, code=code, text=text)


def _unavailable(tool: RegisteredTool) -> str | None:
    if tool.available:
        return None
    return {
        Source.MCP: "mcp.server_unavailable",
        Source.EXTENSION: "extension.unavailable",
    }.get(tool.spec.source)


def _why(tool: RegisteredTool, code: str) -> str | None:
    if tool.available or not tool.reason:
        return None
    info = error_info(code)
    return f"{info.sentence} {tool.reason} {info.remedy}"


def _denied(asked: Asked, decision: PolicyDecision) -> Judgement:
    info = error_of_reason(decision.reason.code)
    fails = decision.on_denied is OnDenied.FAIL_FAST
    return Judgement(
        kind="refuse",
        decision=decision,
        # What is hidden has the words of `tool.not_found` and the caller's own spelling, so that
        # a model cannot probe; the code is for the agent service (semantics 7, row 20).
        result=failure(asked, info.code),
        denied=denied_payload(decision.reason, decision.on_denied, denied_by="policy"),
        drift="denied",
        run_end_code=info.code if fails else "",
    )


def denied_payload(
    reason: Reason,
    on_denied: OnDenied,
    *,
    denied_by: Literal["policy", "user", "expiry"],
    approval_id: str | None = None,
) -> dict[str, JsonValue]:
    """Return the payload of `tool_call_denied`, with the true reason."""
    said = reason.message or reason.code.value
    return {
        "denied_by": denied_by,
        "layer": reason.layer.value if reason.layer else None,
        "rule": reason.rule,
        "policy_reason": said[:1000],
        "on_denied": on_denied.value,
        "approval_id": approval_id,
    }


def _approval(asked: Asked, decision: PolicyDecision, mode: ApprovalMode, memory: str) -> Judgement:
    if mode is ApprovalMode.INTERACTIVE:
        return Judgement(kind="park", decision=decision, memory=memory)
    text = (
        "This call needs a person's approval, and this run has nobody to ask. "
        "Continue without this tool."
    )
    fails = mode is ApprovalMode.FAIL_RUN
    reason = Reason(
        code=ReasonCode.ALLOWED,
        layer=decision.approval_required_by[0],
        rule=decision.approval_rules[0],
        message=f"Approval is required and the run's approval_mode is {mode.value}.",
    )
    on_denied = OnDenied.FAIL_FAST if fails else OnDenied.RETURN_RESULT
    return Judgement(
        kind="refuse",
        decision=decision,
        result=failure(asked, "approval.denied", text),
        denied=denied_payload(reason, on_denied, denied_by="policy"),
        drift="denied",
        run_end_code="approval.denied" if fails else "",
    )
