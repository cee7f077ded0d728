"""Say why a decision about a parked call came to nothing: what had been decided, by whom and when.

Is: the sentence for each final state of an approval. Is not: the decision. Above: `ledger.py`,
approvals. Below: errors.
"""

from dataclasses import dataclass

from toolrail.errors import ApprovalConflict
from toolrail_schemas import format_timestamp

_TOLD = {
    "approved": "was approved already",
    "denied": "was denied already",
    "expired": "expired before anybody decided",
    "cancelled": "is cancelled with its run",
    "asked_anew": "was asked about anew meanwhile, with other arguments: look at it again",
    "superseded": "is void, because the tool or the policy has changed since it was asked",
}
_HOLDS = {"once": "for this call", "run": "for the rest of the run"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stands:
    """How an approval ended."""

    state: str
    by: str = ""
    """Who decided, when somebody did."""
    at_ms: int = 0
    """When; 0 when nobody did."""
    scope: str = ""
    """once or run, of an approval."""
    is_edited: bool = False


def conflict(stands: Stands) -> ApprovalConflict:
    """Return the error for a decision that came after another end of the approval."""
    told = _TOLD.get(stands.state, f"is not pending any more, but {stands.state}")
    parts = [f"This call {told}"]
    if stands.by:
        parts.append(f"by {stands.by}")
    if stands.at_ms:
        parts.append(f"at {format_timestamp(stands.at_ms)}")
    if stands.state == "approved":
        whose = "arguments that a person edited" if stands.is_edited else "the model's arguments"
        parts.append(f"{_HOLDS.get(stands.scope, 'for this call')}, with {whose}")
    return ApprovalConflict(f"{' '.join(parts)}. Your decision changed nothing.")
