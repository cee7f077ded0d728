"""Settle a queued call that would repeat an effect which may have happened.

Is: what follows when a claim is refused because an equal call of the run was lost meanwhile: a
person is asked, or, where nobody is there to ask, the call is denied (DESIGN 2). Is not: the guard
itself (`claim.lua`), nor the same check of a new call (`toolrail.dispatcher`).
Above: `execute.py`. Below: `toolrail.judgement`, `toolrail.asking`, `books.py`.

A worker that dies in between changes nothing: the call stays queued and its claim refused.
"""

from typing import cast

import orjson

from toolrail.asking import approval_record, expiry_ms, question_event
from toolrail.drafting import Draft
from toolrail.errors import BlobMissing, PolicySnapshotCorrupt
from toolrail.judgement import Asked, Judgement, failure, judge
from toolrail.ledger import StoredCall
from toolrail.lookup import RunLookup
from toolrail.registry import RegisteredTool
from toolrail.request import RunContext
from toolrail.results import ending_of, store_result
from toolrail.validation import ArgumentValidators
from toolrail_schemas import Caller, JsonObject
from toolrail_workers.books import Books
from toolrail_workers.specs import SpecIndex

INLINE_BYTES = 65_536
"""A refusal is a sentence or two, so it always stands inline."""


class Repeats:
    """What one worker does with the calls that it may not repeat."""

    def __init__(self, books: Books, specs: SpecIndex, *, approval_ms: int) -> None:
        """Prepare.

        Args:
            books: Of the cell.
            specs: The tools of this worker.
            approval_ms: How long a question stands where policy does not say.
        """
        self._books = books
        self._specs = specs
        self._approval_ms = approval_ms
        self._runs = RunLookup(books.reader)
        self._validators = ArgumentValidators()

    async def settle(self, run_id: str, call_key: str) -> None:
        """The call waits for a person or has its outcome, unless it is queued no more."""
        books = self._books
        call = await books.reader.call(run_id, call_key)
        if call is None:
            return
        found = self._specs.find(call.fields["tool"])
        if found is None or found.spec.spec_hash != call.fields.get("spec_hash"):
            # Claimed without regard to its tool, because nobody has it (`passing.py`).
            await books.close(call, guard="repeats", code="tool.spec_changed")
            return
        tool = RegisteredTool(found.spec, call.fields["queue"], "", available=True, reason="")
        try:
            run = await self._runs.context(run_id)
            draft = await self._draft(call, tool)
        except PolicySnapshotCorrupt as error:
            await books.close(call, guard="repeats", code=error.code)
            return
        except BlobMissing:
            await books.close(call, guard="repeats", code="tool.internal_error")
            return
        judgement = judge(
            draft.asked,
            tool,
            run=run.spec,
            policy=run.policy,
            validators=self._validators,
            repeats_unknown=True,
        )
        if judgement.kind == "park":
            await self._ask(run, draft, tool, judgement)
        else:
            await self._refuse(call, draft, judgement)

    async def _draft(self, call: StoredCall, tool: RegisteredTool) -> Draft:
        """Return the call as it was before it was judged."""
        fields = call.fields
        raw = fields.get("args", "").encode() or await self._books.blobs.get(fields["args_blob"])
        asked = Asked(
            call_id=fields["call_id"],
            name=fields["tool"],
            arguments=dict(cast("JsonObject", orjson.loads(raw))),
            problem=None,
            caller=Caller(fields["caller"]),
            turn=call.number("turn"),
        )
        return Draft(
            key=call.call_key,
            asked=asked,
            tool=tool,
            queue=fields["queue"],
            raw=raw,
            raw_sha256=fields["args_sha256"],
            digest=fields["digest"],
            metadata=b"",
            deadline_ms=call.number("patience_ms"),
        )

    async def _ask(
        self, run: RunContext, draft: Draft, tool: RegisteredTool, judgement: Judgement
    ) -> None:
        books = self._books
        assert judgement.decision is not None
        now_ms = await books.reader.now_ms()
        record = approval_record(
            run,
            draft,
            tool,
            judgement.decision,
            now_ms=now_ms,
            expires_ms=now_ms + expiry_ms(run, tool, default_ms=self._approval_ms),
        )
        await books.ledger.ask_again(
            run.run_id,
            draft.key,
            question_event(record),
            record=record.model_dump_json(),
            expires_ms=record.expires_at,
            actor=books.actor,
        )

    async def _refuse(self, call: StoredCall, draft: Draft, judgement: Judgement) -> None:
        books = self._books
        result = judgement.result or failure(draft.asked, "approval.denied")
        stored = await store_result(result, books.blobs, inline_bytes=INLINE_BYTES)
        ending = ending_of(
            call.call_key,
            result,
            stored,
            denied=judgement.denied,
            run_end="failed" if judgement.run_end_code else "",
            run_end_code=judgement.run_end_code,
        )
        await books.ledger.finish(
            call.run_id, call.call_key, ending, fence=0, actor=books.actor, guard="repeats"
        )
