"""Run one call, the same way for every source: claim, check, run under limits, finish.

Is: the only code between a doorbell and an executor. Is not: how a tool runs (executors), what
its ending means (`answers.py`), or calls whose worker is gone (`lost.py`).
Above: `runtime.py`. Below: the ledger, `renewals.py`, `specs.py`, `finishing.py`.
"""

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, replace

from toolrail.blobs import Blobs
from toolrail.closing import cancel_call
from toolrail.errors import BlobMissing, SystemFailure
from toolrail.ledger import Claim, Held, Refusal
from toolrail.redaction import Holding
from toolrail.tools import ToolContext
from toolrail_schemas import Doorbell, ErrorClass, SideEffect, Source, ToolResult, ToolSpec
from toolrail_workers.answers import Answers, Spent, failed
from toolrail_workers.books import Books
from toolrail_workers.claimed import claimed_call, load_arguments
from toolrail_workers.executor import ClaimedCall
from toolrail_workers.finishing import Finisher, RunEnd
from toolrail_workers.given_refs import GivenRefs
from toolrail_workers.lost import LostCalls
from toolrail_workers.passing import Passing
from toolrail_workers.renewals import Renewals
from toolrail_workers.repeats import Repeats
from toolrail_workers.running import Ended, Running, StopReason
from toolrail_workers.specs import SpecIndex

log = logging.getLogger(__name__)

SLOW_CLAIM_SHARE = 0.25
"""A claim that took longer than this part of the lease is renewed before the tool starts."""
_UNAVAILABLE = {
    Source.MCP: "mcp.server_unavailable",
    Source.EXTENSION: "extension.unavailable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What running calls needs; one of each per worker."""

    worker: str
    books: Books
    renewals: Renewals
    specs: SpecIndex
    passing: Passing
    finisher: Finisher
    repeats: Repeats
    stop_grace_s: float


class CallStore:
    """The blobs that the tool of one call may write to."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.stored: set[str] = set()
        """SHA-256 of what this call has stored."""

    async def put_blob(self, data: bytes, mime: str) -> str:
        """Store `data` and return its SHA-256; the type stands in the ref that is given out."""
        sha256 = await self._blobs.put(data)
        self.stored.add(sha256)
        return sha256


class CallRunner:
    """Runs the calls of one worker."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._books = parts.books
        self._refs = GivenRefs(parts.books)
        self._answers = Answers()
        self._lost = LostCalls(parts.books)

    async def run(self, doorbell: Doorbell) -> None:
        """The call has its outcome, is somebody else's, or is left to the reaper.

        Raises:
            RedisUnavailable: Redis did not come back; the reaper goes on when it does.
        """
        renewals, loop = self._parts.renewals, asyncio.get_running_loop()
        sent_at = loop.time()
        claim = await self._claim(doorbell, self._parts.specs.tools.digest)
        if claim is Refusal.ELSEWHERE:
            tools = await self._parts.passing.tools_to_claim_with(doorbell)
            if tools is None:
                return
            sent_at = loop.time()
            claim = await self._claim(doorbell, tools)
        if isinstance(claim, Refusal):
            await self._refused(doorbell, claim)
            return
        held = Held(claim.run_id, claim.call_key, claim.fence)
        running = Running(
            held,
            queue=claim.fields["queue"],
            lease_until=renewals.lease_until(sent_at),
            stop_grace_s=self._parts.stop_grace_s,
        )
        with renewals.holding(running):
            if loop.time() - sent_at > SLOW_CLAIM_SHARE * renewals.lease_ms / 1000:
                # The lease may be over before the answer came, and with it the right to start.
                await renewals.renew_one(running)
            given_back = await self._perform(claim, running)
        if given_back:
            # Not renewed any more, so a lease of no length stays over.
            await self._books.ledger.renew([held], lease_ms=0)
            call = await self._books.reader.call(held.run_id, held.call_key)
            await self._lost.settle(call)

    async def _claim(self, doorbell: Doorbell, tools: str) -> Claim | Refusal:
        return await self._books.ledger.claim(
            doorbell.run_id,
            doorbell.call_key,
            attempt=doorbell.attempt,
            nonce=secrets.token_hex(8),
            worker=self._parts.worker,
            lease_ms=self._parts.renewals.lease_ms,
            tools=tools,
        )

    async def _refused(self, doorbell: Doorbell, refusal: Refusal) -> None:
        """Drop the doorbell; three refusals leave a call that nobody has settled yet."""
        books = self._books
        run_id, call_key = doorbell.run_id, doorbell.call_key
        log.debug("claim.refused", extra={"call_key": call_key, "reason": refusal.value})
        if refusal is Refusal.CANCELLED:
            await cancel_call(
                books.ledger, books.reader, books.blobs, run_id, call_key, actor=books.actor
            )
        elif refusal is Refusal.EXPIRED:
            call = await books.reader.call(run_id, call_key)
            if call is not None:
                await books.close(call, guard="deadline_over", code="tool.timeout")
        elif refusal is Refusal.REPEATS_UNKNOWN:
            await self._parts.repeats.settle(run_id, call_key)
        elif refusal is Refusal.JOURNAL_FAILED:
            log.error("journal.append_failed", extra={"run_id": run_id, "call_key": call_key})

    async def _perform(self, claim: Claim, running: Running) -> bool:
        """Run the tool and finish; True when the call is to be given back instead."""
        parts, started_at = self._parts, asyncio.get_running_loop().time()
        try:
            call = claimed_call(claim, await load_arguments(claim, self._books.blobs))
        except BlobMissing as error:
            call = claimed_call(claim, {})
            await self._fail(call, claim, "tool.internal_error", text=error.message, system=True)
            return False
        # What is not here, or in another version, nobody has (`passing.py`): the call ends.
        found = parts.specs.find(call.tool)
        if found is None:
            await self._fail(call, claim, _UNAVAILABLE.get(call.source, "tool.not_found"))
            return False
        if found.spec.spec_hash != call.spec_hash:
            await self._fail(call, claim, "tool.spec_changed")
            return False
        store = CallStore(self._books.blobs)
        work = found.executor.execute(call, _context(call, store))
        with Holding(found.spec, call.arguments):
            ended = await running.work(work, timeout_s=call.timeout_s)
        if running.stop_reason is StopReason.LOST:
            log.warning("call.lease_lost", extra={"call_key": call.call_key, "tool": call.tool})
            return False
        if _to_give_back(claim, running, ended):
            return not ended.abandoned
        if ended.output is not None:
            output = await self._refs.checked(ended.output, run_id=call.run_id, stored=store.stored)
            ended = replace(ended, output=output)
        answer = self._answers.of_ended(
            call,
            found.spec,
            ended,
            stopped=running.stop_reason,
            spent=_spent(claim, started_at),
        )
        await parts.finisher.finish(
            call,
            answer,
            run_end=_run_end(answer.result, found.spec),
            dead_letter=_is_lost(running, answer.result),
        )
        return False

    async def _fail(
        self,
        call: ClaimedCall,
        claim: Claim,
        code: str,
        *,
        text: str | None = None,
        system: bool = False,
    ) -> None:
        """End a call whose tool was not started."""
        answer = failed(
            call,
            code,
            Spent(queue_ms=claim.queue_ms, duration_ms=0, attempts=call.attempt),
            text=text,
            error_class=ErrorClass.SYSTEM if system else None,
        )
        await self._parts.finisher.finish(call, answer, run_end="failed" if system else "")


def _context(call: ClaimedCall, store: CallStore) -> ToolContext:
    return ToolContext(
        run_id=call.run_id,
        call_key=call.call_key,
        call_id=call.call_id,
        tool=call.tool,
        attempt=call.attempt,
        fence=call.fence,
        caller=call.caller,
        tenant=call.tenant,
        deadline=time.monotonic() + call.timeout_s,
        max_output_tokens=call.max_output_tokens,
        max_output_bytes=call.max_output_bytes,
        store=store,
    )


def _to_give_back(claim: Claim, running: Running, ended: Ended) -> bool:
    """Whether a call that a closing worker cut off may simply run again elsewhere.

    Any other call ends here and now as `tool.outcome_unknown`, as if the worker had died, only
    without the wait. A tool that did not stop keeps its lease, which ends with this process.
    """
    if running.stop_reason is not StopReason.SHUTDOWN or ended.output is not None:
        return False
    return claim.fields["retry_safe"] == "1" and not isinstance(ended.error, SystemFailure)


def _is_lost(running: Running, result: ToolResult) -> bool:
    """Whether the call ended as if the worker had died (`lost.py`), and so is a dead letter."""
    was_cut_off = running.stop_reason is StopReason.SHUTDOWN
    return was_cut_off and result.error_code == "tool.outcome_unknown"


def _run_end(result: ToolResult, spec: ToolSpec) -> RunEnd:
    """Return how the run ends with this result, if it does."""
    if result.error_class is ErrorClass.SYSTEM:
        return "failed"
    is_control = spec.annotations.side_effect is SideEffect.CONTROL
    return "completed" if is_control and not result.is_error else ""


def _spent(claim: Claim, started_at: float) -> Spent:
    duration_s = asyncio.get_running_loop().time() - started_at
    return Spent(
        queue_ms=claim.queue_ms,
        duration_ms=round(duration_s * 1000),
        attempts=int(claim.fields["attempt"]),
    )
