"""Let people decide about parked calls.

Is: the package of questions, their reading and the decisions. Is not: who somebody is (the
gateway's identities) or the transitions themselves (the ledger's scripts). Above: client, CLI,
gateway. Below: the ledger, the run's frozen policy.

    approvals.py  list, look, watch, approve, deny: the API
    listing.py    questions as they stand
    deciding.py   one decision, from the person's words to the ledger's step
    ending.py     a question that ends without its call running
"""

from toolrail.approvals.approvals import Approvals
from toolrail.approvals.deciding import Decision, conflict_with
from toolrail.approvals.listing import ApprovalPage, Questions

__all__ = ["ApprovalPage", "Approvals", "Decision", "Questions", "conflict_with"]
