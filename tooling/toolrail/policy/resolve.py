"""Decide what a caller may do with a tool: visible, callable, approval, budget, and why.

Is: the one pure function `resolve`. The same input gives the same bytes; there is no clock and no
I/O. Is not: the gathering of voices (`findings.py`), the long story (`explain.py`), the counters.
Above: the dispatcher, which asks twice per call and obeys the second answer; context assembly;
`toolrail policy explain`. Below: `findings.py`, `budget.py`.
"""

from typing import Final

from toolrail.policy.budget import decide_budget
from toolrail.policy.findings import Denial, Findings, Grant, find
from toolrail.policy.inputs import PolicyInput
from toolrail_schemas import (
    BudgetDecision,
    Layer,
    Lifecycle,
    PolicyDecision,
    Reason,
    ReasonCode,
    Source,
)

MESSAGE_MAX_CHARS: Final = 1000

_WHY_NOT: Final = {
    ReasonCode.PLATFORM_NOT_LISTED: "The platform allows only what its allow_only lists.",
    ReasonCode.PLAN_UNLISTED: "The plan node is strict and does not list the tool.",
    ReasonCode.CONTEXT_CALLER: "The tool does not accept this caller.",
    ReasonCode.CATALOG_SURFACE: "The tool is not part of this surface.",
    ReasonCode.CATALOG_DEPRECATED: "The tool is deprecated and no layer allows it by name.",
    ReasonCode.NOT_MODEL_VISIBLE: "The tool is internal to the runtime.",
    ReasonCode.USER_ONLY: "Only a person may call the tool.",
}
_NOT_ALLOWED: Final = "No layer allows the tool, and what nobody allows is invisible."
_NOT_ALLOWED_EXTENSION: Final = (
    "Neither profile nor user allows the tool; for extension tools no other layer can."
)


def resolve(query: PolicyInput) -> PolicyDecision:
    """Return the policy's whole answer to one question."""
    return conclude(query, find(query))


def conclude(query: PolicyInput, findings: Findings) -> PolicyDecision:
    """Return the decision that follows from what was found."""
    facts = query.facts
    budget = decide_budget(findings.caps, used=facts.used, used_turn=facts.used_turn)
    if findings.denials:
        return _refuse(query, findings, budget, reason=_denied(query, findings.denials))
    if not findings.grants:
        extension = query.spec.source is Source.EXTENSION
        message = _NOT_ALLOWED_EXTENSION if extension else _NOT_ALLOWED
        reason = Reason(code=ReasonCode.NOT_ALLOWED, message=message)
        return _refuse(query, findings, budget, reason=reason)
    standing = tuple(found for found in findings.requirements if found.waived_by is None)
    obstacle = _obstacle(query, budget)
    return PolicyDecision(
        visible=True,
        callable=obstacle is None,
        approval_required=bool(standing),
        reason=obstacle or _allowed(query, findings, findings.grants[0]),
        budget=budget,
        on_denied=query.layers.profile.on_denied,
        exposed=facts.in_prompt and facts.lifecycle is Lifecycle.CURRENT,
        approval_required_by=tuple(found.layer for found in standing),
        approval_rules=tuple(found.rule[:MESSAGE_MAX_CHARS] for found in standing),
        warnings=findings.warnings,
    )


def _refuse(
    query: PolicyInput, findings: Findings, budget: BudgetDecision, *, reason: Reason
) -> PolicyDecision:
    on_denied = query.layers.profile.on_denied
    return PolicyDecision(
        visible=False,
        callable=False,
        approval_required=False,
        reason=reason,
        budget=budget,
        on_denied=findings.denials[0].on_denied if findings.denials else on_denied,
        warnings=findings.warnings,
    )


def _denied(query: PolicyInput, denials: tuple[Denial, ...]) -> Reason:
    first, *rest = denials
    message = _WHY_NOT.get(first.code)
    if message is None:
        own_words = first.ruling.reason or ""
        title = query.layers.title(first.layer)
        message = f"Denied by {title}, rule {first.ruling.rule}. {own_words}".rstrip()
    return Reason(
        code=first.code,
        layer=first.layer,
        rule=first.ruling.rule,
        message=message,
        also=tuple(denial.layer for denial in rest),
    )


def _allowed(query: PolicyInput, findings: Findings, grant: Grant) -> Reason:
    title = query.layers.title(grant.layer)
    message = f"Allowed by {title}, rule {grant.ruling.rule}."
    for found in findings.requirements:
        asker = query.layers.title(found.layer)
        if found.waived_by is None:
            message += f" Approval is required by {asker}, {found.rule}."
    return Reason(
        code=ReasonCode.ALLOWED,
        layer=grant.layer,
        rule=grant.ruling.rule,
        message=message[:MESSAGE_MAX_CHARS],
    )


def _obstacle(query: PolicyInput, budget: BudgetDecision) -> Reason | None:
    """Return why an allowed tool cannot be called now, the most lasting reason first."""
    facts = query.facts
    if budget.exhausted:
        run = budget.calls_remaining == 0
        span = "run" if run else "turn"
        owner = budget.source_of["calls" if run else "calls_turn"]
        return Reason(
            code=ReasonCode.BUDGET_EXHAUSTED,
            layer=Layer.BUDGET,
            rule=f"max_calls_per_{span}",
            message=f"All calls of this {span} are used; {query.layers.title(owner)} set the cap.",
        )
    if not facts.source_available:
        message = "Nothing can execute the tool now."
        return Reason(code=ReasonCode.SOURCE_UNAVAILABLE, layer=Layer.SOURCE, message=message)
    if not facts.in_prompt:
        message = "The tool is deferred; a tool search must load it first."
        return Reason(code=ReasonCode.NOT_LOADED, layer=Layer.CONTEXT, message=message)
    return None
