"""Say why a decision about a parked call came to nothing.

Is: the sentence for each final state of an approval. Is not: the decision. Above: `ledger.py`,
approvals. Below: errors.
"""

from toolrail.errors import ApprovalConflict

_TOLD = {
    "approved": "was approved already, with other arguments than these",
    "denied": "was denied already",
    "expired": "expired before anybody decided",
    "cancelled": "is cancelled with its run",
    "superseded": "is void, because the tool or the policy has changed since it was asked",
}


def conflict(state: str, by: str = "") -> ApprovalConflict:
    """Return the error for a decision that came after another end of the approval.

    Args:
        state: How it ended.
        by: Who decided, when somebody did.
    """
    told = _TOLD.get(state, f"is not pending any more, but {state}")
    whom = f" by {by}" if by else ""
    return ApprovalConflict(
        f"This call {told}{whom}. Your decision changed nothing; read its record for the rest."
    )
