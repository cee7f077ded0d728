"""Make an answer durable and hand it to the ledger, however long Redis is away.

Is: spills and result stored, then one finish under the fence; the bound on what waits. Is not:
the answer (`answers.py`). Above: `execute.py`. Below: blobs, `results.py`, the ledger.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Literal

from toolrail.blobs import Blobs
from toolrail.errors import AdmissionClosed, RedisError, RedisUnavailable
from toolrail.ledger import Closed, Ledger, Outcome
from toolrail.results import StoredResult, ending_of, store_result
from toolrail_schemas import Source
from toolrail_workers.answers import Answer, Spent, failed
from toolrail_workers.executor import ClaimedCall

log = logging.getLogger(__name__)

PATIENCE_S = 60.0
"""Beyond the lease: how long a result is kept for a Redis that is away. Nobody may have taken the
call over meanwhile, because whoever would needs the same Redis."""
WAITING_MAX_BYTES = 256 * 1024 * 1024
"""All answers that wait for Redis together. Beyond it an answer is given up: its lease ends, and
the reaper tells the caller what that means for its tool."""

RunEnd = Literal["completed", "failed", ""]


OnFinished = Callable[[Source, Outcome], None]


class Finisher:
    """Ends the calls of one worker."""

    def __init__(
        self,
        ledger: Ledger,
        blobs: Blobs,
        *,
        actor: str,
        inline_bytes: int,
        patience_s: float,
        waiting_max_bytes: int,
        on_finished: OnFinished,
    ) -> None:
        """Prepare.

        Args:
            ledger: Where calls end.
            blobs: Where large results go.
            actor: This worker, as the journal names it.
            inline_bytes: Largest result that stays in the record.
            patience_s: How long a result is kept for a Redis that is away.
            waiting_max_bytes: Size of all results that are kept.
            on_finished: Told of each call that has its outcome from here.
        """
        self._ledger = ledger
        self._blobs = blobs
        self._actor = actor
        self._inline_bytes = inline_bytes
        self._patience_s = patience_s
        self._waiting_max_bytes = waiting_max_bytes
        self._on_finished = on_finished
        self.waiting_bytes = 0
        """Size of the answers that are being stored now."""

    async def finish(
        self, call: ClaimedCall, answer: Answer, *, run_end: RunEnd, dead_letter: bool = False
    ) -> None:
        """The call has this outcome, or the log says why not; never raises for Redis.

        Args:
            call: That was run.
            answer: How it ended.
            run_end: How its run ends with it, if it does.
            dead_letter: List it for operators.
        """
        size = 1 + answer.result.usage.output_bytes
        if self.waiting_bytes + size > self._waiting_max_bytes:
            self._log("result.given_up", call, reason="too many answers wait for Redis")
            return
        self.waiting_bytes += size
        try:
            try:
                await self._finish(call, answer, run_end, dead_letter)
            except asyncio.CancelledError:
                # The worker ends now. The work is done, so it is worth one more try, which a
                # second cancellation ends; finishing twice with one result is finishing once.
                await self._finish(call, answer, run_end, dead_letter)
        except RedisUnavailable:
            self._log("result.given_up", call, reason="Redis stayed away")
        except RedisError as error:
            self._log("result.refused", call, reason=error.message)
        finally:
            self.waiting_bytes -= size

    async def _finish(
        self, call: ClaimedCall, answer: Answer, run_end: RunEnd, dead_letter: bool
    ) -> None:
        try:
            stored = await self._store(answer)
        except RedisUnavailable:
            raise
        except (RedisError, AdmissionClosed) as error:
            self._log("result.not_stored", call, reason=error.message)
            answer, run_end = _not_stored(call, answer), "failed"
            stored = await self._store(answer)
        result = answer.result
        ending = ending_of(
            call.call_key,
            result,
            stored,
            before=answer.events,
            run_end=run_end,
            run_end_code=(result.error_code or "") if run_end == "failed" else "",
        )
        closed = await self._ledger.finish(
            call.run_id,
            call.call_key,
            ending,
            fence=call.fence,
            actor=self._actor,
            dead_letter=dead_letter,
            deadline_s=self._patience_s,
        )
        if closed.status in {"closed", "duplicate"}:
            self._on_finished(call.source, ending.outcome)
        self._tell(call, closed)

    async def _store(self, answer: Answer) -> StoredResult:
        for spill in answer.spills:
            await self._blobs.put(spill.data)
        return await store_result(answer.result, self._blobs, inline_bytes=self._inline_bytes)

    def _tell(self, call: ClaimedCall, closed: Closed) -> None:
        match closed.status:
            case "closed" | "duplicate":
                pass
            case "late":
                self._log("result.late", call, reason=f"the call is {closed.state}")
            case "journal_failed":
                self._log("journal.append_failed", call, reason="the run is failed out of band")
            case "refused" | "gone":
                self._log("result.refused", call, reason=f"the call is {closed.status}")

    def _log(self, event: str, call: ClaimedCall, *, reason: str) -> None:
        log.warning(
            event,
            extra={
                "run_id": call.run_id,
                "call_key": call.call_key,
                "tool": call.tool,
                "fence": call.fence,
                "reason": reason,
            },
        )


def _not_stored(call: ClaimedCall, answer: Answer) -> Answer:
    usage = answer.result.usage
    spent = Spent(queue_ms=usage.queue_ms, duration_ms=usage.duration_ms, attempts=usage.attempts)
    return failed(call, "store.result_write_failed", spent, events=answer.events)
