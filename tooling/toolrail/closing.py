"""Close calls without a worker: cancelled, expired, too late, lost, or their run is ending.

Is: the result that such a call gets, and the guard under which the ledger takes it. Is not: who
decides that it is time (client, reaper). Above: `run.py`, the reaper, `execute.py`.
Below: `ledger.py`, `results.py`.
"""

import asyncio
import math
from dataclasses import dataclass
from typing import Literal, cast

import orjson
from pydantic import JsonValue

from toolrail.blobs import Blobs
from toolrail.errors import CallNotFound
from toolrail.ledger.ledger import Ledger
from toolrail.ledger.reader import START, LedgerReader
from toolrail.ledger.records import Closed, StoredCall
from toolrail.notice import with_notice
from toolrail.results import ending_of, store_result
from toolrail_schemas import JsonObject, ToolResult, Usage

Guard = Literal["queued", "awaiting_approval", "lost", "deadline_over", "approval_over", "repeats"]

INLINE_BYTES = 65_536
"""Results made here are a sentence or two, so they always stand inline."""
AT_ONCE = 64
"""Calls of one run that are closed at the same time; they share round trips."""
TRIES = 3
"""A call that is claimed while it is cancelled changes its state at most twice."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How far the open calls of a run were closed.

    Attributes:
        seen: So many were looked at.
        running: Of them, those that still run.
        after: Where to go on; `START` when all were looked at.
    """

    seen: int
    running: int
    after: str


async def cancel_call(
    ledger: Ledger,
    reader: LedgerReader,
    blobs: Blobs,
    run_id: str,
    call_key: str,
    *,
    actor: str,
) -> str:
    """The call ends as `tool.cancelled`: now, or when its worker has stopped the tool.

    Returns:
        The state it is in now; `running` means that its worker has been told.

    Raises:
        CallNotFound: There is no such call.
    """
    state = ""
    for _ in range(TRIES):
        state = await ledger.cancel(run_id, call_key)
        if state not in {"queued", "awaiting_approval"}:
            return state
        call = await reader.call(run_id, call_key)
        if call is None:
            raise CallNotFound
        guard = cast("Guard", state)
        closed = await close_call(
            ledger, blobs, call, guard=guard, code="tool.cancelled", actor=actor
        )
        # Refused: a worker or an approver came first, so it is told again, in its new state.
        if closed.status != "refused":
            return closed.state
    return state


async def close_open_calls(
    ledger: Ledger,
    reader: LedgerReader,
    blobs: Blobs,
    run_id: str,
    *,
    actor: str,
    after: str = START,
    limit: float = math.inf,
) -> Closing:
    """Every call of an ending run that waits is cancelled, and every running one told to stop.

    Args:
        ledger: To write to.
        reader: Of the same cell.
        blobs: For the results.
        run_id: The run.
        actor: `runtime:<part>`.
        after: Go on there.
        limit: Look at so many calls, or a few more.
    """

    async def cancel(call_key: str) -> bool:
        try:
            state = await cancel_call(ledger, reader, blobs, run_id, call_key, actor=actor)
        except CallNotFound:
            return False
        return state == "running"

    seen = running = 0
    while True:
        page, after = await reader.open_calls(run_id, after=after, limit=AT_ONCE)
        running += sum(await asyncio.gather(*map(cancel, page)))
        seen += len(page)
        if after == START or seen >= limit:
            return Closing(seen, running, after)


async def close_call(
    ledger: Ledger,
    blobs: Blobs,
    call: StoredCall,
    *,
    guard: Guard,
    code: str,
    actor: str,
    dead_letter: bool = False,
) -> Closed:
    """The call has failed with this code, unless the guard no longer holds.

    Args:
        ledger: To write to.
        blobs: For the result.
        call: Its record as it was read; the guard says what must still be true of it.
        guard: See `lua/finish.lua`.
        code: Of the error; the table of codes has the words.
        actor: `runtime:<part>`.
        dead_letter: List it for operators.
    """
    result = _failure(call, code)
    stored = await store_result(result, blobs, inline_bytes=INLINE_BYTES)
    return await ledger.finish(
        call.run_id,
        call.call_key,
        ending_of(call.call_key, result, stored),
        fence=call.number("fence"),
        actor=actor,
        guard=guard,
        dead_letter=dead_letter,
    )


async def expire_approval(ledger: Ledger, blobs: Blobs, call: StoredCall, *, actor: str) -> Closed:
    """The parked call is denied because nobody decided in time, unless somebody just did."""
    result = _failure(call, "approval.expired")
    stored = await store_result(result, blobs, inline_bytes=INLINE_BYTES)
    asked = cast("JsonObject", orjson.loads(call.fields.get("approval") or "{}"))
    denied: dict[str, JsonValue] = {
        "denied_by": "expiry",
        "policy_reason": "Nobody decided before the approval expired.",
        # Whoever was asked did not answer; that is no fault of the run (semantics 3.7).
        "on_denied": "return_result",
        "approval_id": asked.get("approval_id"),
    }
    return await ledger.finish(
        call.run_id,
        call.call_key,
        ending_of(call.call_key, result, stored, denied=denied),
        fence=call.number("fence"),
        actor=actor,
        guard="approval_over",
        approval_state="expired",
    )


def _failure(call: StoredCall, code: str) -> ToolResult:
    # A queued call has not started its present attempt.
    started = call.number("attempt") - (0 if call.state == "running" else 1)
    result = ToolResult.failure(
        call.fields["call_id"],
        call.fields["tool"],
        code=code,
        usage=Usage(attempts=max(started, 0)),
    )
    return with_notice(result, call.fields.get("edited", ""))
