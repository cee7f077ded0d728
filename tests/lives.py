"""Bring a call to a state in one line.

Is: the few records and events that tests of the life cycle start from. Is not: a model of it.
Above: `tests/unit/test_lifecycle_*.py`. Below: `toolrail_schemas.lifecycle`.
"""

from toolrail_schemas.lifecycle import (
    Approve,
    CallRecord,
    Claim,
    Decision,
    Dispatch,
    Enqueue,
    Outcome,
    Refusal,
    RefusalReason,
    step,
)

LEASE_MS = 1000
DEADLINE_MS = 20_000


def queued(*, retry_safe: bool = False, most: int = 2) -> CallRecord:
    """Return a call that waits for its first claim."""
    return accepted(Enqueue(), retry_safe=retry_safe, most=most).record


def accepted(decision: Decision, *, retry_safe: bool = False, most: int = 2) -> Outcome:
    """Return what dispatching with this decision does."""
    event = Dispatch(
        now_ms=0,
        digest="d",
        decision=decision,
        deadline_ms=DEADLINE_MS,
        retry_safe=retry_safe,
        max_attempts=most,
        args_sha256="args",
        spec_hash="spec",
    )
    return took(step(CallRecord(), event))


def running(*, retry_safe: bool = False, most: int = 2) -> CallRecord:
    """Return a call whose first attempt is claimed until `LEASE_MS`."""
    record = queued(retry_safe=retry_safe, most=most)
    return took(step(record, claim(1, "n1"))).record


def claim(attempt: int, nonce: str, *, now_ms: int = 0, run_open: bool = True) -> Claim:
    """Return a claim by worker `w1`."""
    return Claim(
        now_ms=now_ms,
        attempt=attempt,
        nonce=nonce,
        worker="w1",
        lease_ms=LEASE_MS,
        run_open=run_open,
    )


def took(answer: Outcome | Refusal) -> Outcome:
    """Return the outcome of an event that must be taken."""
    assert isinstance(answer, Outcome)
    return answer


def refused(answer: Outcome | Refusal) -> RefusalReason:
    """Return the reason of an event that must be refused."""
    assert isinstance(answer, Refusal)
    return answer.reason


def types(answer: Outcome | Refusal) -> list[str]:
    """Return the kinds of the journal entries, in order."""
    return [entry.type.value for entry in answer.journal]


def approve(
    *,
    now_ms: int = 0,
    args_sha256: str = "args",
    spec_hash: str = "spec",
    edited: str | None = None,
    over_budget: bool = False,
    run_open: bool = True,
) -> Approve:
    """Return an approval of what was dispatched, unless told otherwise."""
    return Approve(
        now_ms=now_ms,
        args_sha256=args_sha256,
        spec_hash=spec_hash,
        edited_args_sha256=edited,
        over_budget=over_budget,
        run_open=run_open,
    )
