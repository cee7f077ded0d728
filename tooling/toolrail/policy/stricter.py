"""Make one answer of two: what both policies allow, and nothing else.

Is: the stricter of two decisions about one question; a denial beats a question to a person, and
that beats an allowance. Is not: the decisions themselves (`resolve.py`) or which policies hold
together (`snapshot.py`). Above: `snapshot.py`. Below: the schemas.
"""

from typing import Final

from toolrail_schemas import BudgetDecision, Layer, PolicyDecision
from toolrail_schemas.policy import BudgetField

EARLIER: Final = "under the policy of the run that this one repeats a call of"
MESSAGE_MAX_CHARS: Final = 1000
WARNINGS_MAX: Final = 64
_CAPS: Final[dict[str, BudgetField]] = {
    "calls_remaining": "calls",
    "calls_remaining_turn": "calls_turn",
    "max_output_tokens": "max_output_tokens",
    "timeout_ms": "timeout_ms",
    "max_output_bytes": "max_output_bytes",
}
"""Fields of a budget decision, and what `source_of` calls each."""


def stricter(now: PolicyDecision, earlier: PolicyDecision) -> PolicyDecision:
    """Return the decision that lets pass only what both let pass, and says whose it is.

    Args:
        now: Of the run's own policy; it is the one that is told where both say the same.
        earlier: Of a policy that must agree.
    """
    if not now.visible:
        return now
    if not earlier.visible:
        return _told(earlier)
    if not now.callable:
        return now
    if not earlier.callable:
        return _told(earlier)
    known = set(now.approval_required_by)
    asking = zip(earlier.approval_required_by, earlier.approval_rules, strict=True)
    more = [
        (layer, f"{rule} {EARLIER}"[:MESSAGE_MAX_CHARS])
        for layer, rule in asking
        if layer not in known
    ]
    telling = _told(earlier) if more and not known else now
    return now.model_copy(
        update={
            "approval_required": now.approval_required or earlier.approval_required,
            "approval_required_by": (*now.approval_required_by, *(layer for layer, _ in more)),
            "approval_rules": (*now.approval_rules, *(rule for _, rule in more)),
            "reason": telling.reason,
            "budget": _least(now.budget, earlier.budget),
            "exposed": now.exposed and earlier.exposed,
            "warnings": tuple(dict.fromkeys((*now.warnings, *earlier.warnings)))[:WARNINGS_MAX],
        }
    )


def _told(decision: PolicyDecision) -> PolicyDecision:
    message = f"{EARLIER.capitalize()}: {decision.reason.message}"[:MESSAGE_MAX_CHARS]
    reason = decision.reason.model_copy(update={"message": message})
    return decision.model_copy(update={"reason": reason})


def _least(now: BudgetDecision, earlier: BudgetDecision) -> BudgetDecision:
    """Return the smaller of each cap, with the layer that set it."""
    least: dict[str, object] = {}
    source_of: dict[BudgetField, Layer] = {}
    for field, name in _CAPS.items():
        mine: int | None = getattr(now, field)
        theirs: int | None = getattr(earlier, field)
        whose = earlier if theirs is not None and (mine is None or theirs < mine) else now
        least[field] = getattr(whose, field)
        if name in whose.source_of:
            source_of[name] = whose.source_of[name]
    exhausted = now.exhausted or earlier.exhausted
    return now.model_copy(update={**least, "source_of": source_of, "exhausted": exhausted})
