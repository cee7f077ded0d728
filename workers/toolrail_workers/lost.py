"""Decide what becomes of a call whose worker is gone: again, or an honest end.

Is: the rule of semantics 2.6, applied through the ledger's guards, so that any number of deciders
give one outcome. Is not: finding such calls (`sweeps.py`).
Above: `sweeps.py`; `execute.py` for calls that a closing worker hands over. Below: `books.py`.
"""

import logging

from toolrail.ledger import StoredCall
from toolrail_workers.books import Books

log = logging.getLogger(__name__)


class LostCalls:
    """What happens after a lease is over."""

    def __init__(self, books: Books) -> None:
        self._books = books

    async def settle(self, call: StoredCall | None) -> bool:
        """The call is queued again or has its outcome; False when its lease is not over.

        A lost attempt of a tool that may run twice runs again, while attempts are left and the
        run is open. Nobody knows what any other tool has done, so its call says just that. Where
        no attempt is left, which for such a tool is after the first, an operator gets to see what
        took the worker along, as a dead letter.
        """
        if call is None or call.state != "running":
            return False
        if call.fields.get("retry_safe") != "1":
            return await self._close(call, "tool.outcome_unknown", dead_letter=True)
        if call.fields.get("cancel"):
            return await self._close(call, "tool.cancelled")
        attempt = call.number("attempt")
        if attempt >= call.number("max_attempts"):
            return await self._close(call, "tool.worker_lost", dead_letter=True)
        if await self._again(call, attempt + 1):
            return True
        run = await self._books.reader.run(call.run_id)
        if run is not None and run.get("status") == "open" and "ending" not in run:
            return False
        return await self._close(call, "tool.worker_lost")

    async def _again(self, call: StoredCall, attempt: int) -> bool:
        queue, bell = call.fields["queue"], self._books.sign(call, attempt)
        queued = await self._books.ledger.requeue(
            call.run_id,
            call.call_key,
            fence=call.number("fence"),
            attempt=attempt,
            envelope=self._books.doorbell.inline(queue, bell),
            actor=self._books.actor,
        )
        if queued:
            self._log("call.queued_again", call)
            await self._books.doorbell.ring(queue, bell)
        return queued

    async def _close(self, call: StoredCall, code: str, *, dead_letter: bool = False) -> bool:
        closed = await self._books.close(call, guard="lost", code=code, dead_letter=dead_letter)
        if closed.status == "closed":
            self._log("call.lost", call, code=code)
        return closed.status != "refused"

    def _log(self, event: str, call: StoredCall, **more: str) -> None:
        fields = {
            "run_id": call.run_id,
            "call_key": call.call_key,
            "tool": call.fields.get("tool", ""),
            "attempt": call.fields.get("attempt", ""),
            "worker": call.fields.get("worker", ""),
        }
        log.warning(event, extra={**fields, **more})
