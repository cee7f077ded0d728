"""Say what a call waits for that has no result yet, and what a person can do about it.

Is: sentences for whoever waits. Is not: waiting (`run.py`). Above: `run.py`, `toolrail call`.
Below: the ledger's records.
"""

from toolrail.ledger import StoredCall
from toolrail.request import approval_id_of
from toolrail.spans import age_text


def person_awaited(call: StoredCall, *, now_ms: int) -> str:
    """Return that a parked call waits for a person, for how long yet, and how to decide.

    Args:
        call: In state `awaiting_approval`.
        now_ms: By the clock of Redis.
    """
    left_ms = call.number("approval_expires_ms") - now_ms
    left = f"{age_text(left_ms)} left" if left_ms > 0 else "and its time is over"
    return (
        f"The call waits for a person, {left}: `toolrail approvals show "
        f"{approval_id_of(call.run_id, call.call_key)}`, then approve, edit or deny."
    )


def still_open(call: StoredCall, *, now_ms: int) -> str:
    """Return the state of a call whose result did not come in time."""
    if call.state == "awaiting_approval":
        return f"{person_awaited(call, now_ms=now_ms)} Wait again, or cancel the call."
    return (
        f"The result did not come in time. The call is {call.state} and goes on; "
        "wait again, or cancel it."
    )
