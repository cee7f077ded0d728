"""Write a judged draft as the ledger's entry: record, events, envelope or result.

Is: what `dispatch.lua` is given. Is not: the judgement (`judgement.py`) or the commit
(`dispatcher.py`). Above: `dispatcher.py`. Below: blobs, doorbell, the ledger's records.
"""

from dataclasses import replace

from pydantic import JsonValue

from toolrail.asking import approval_record, expiry_ms, question_event
from toolrail.blobs import Blobs
from toolrail.doorbell import DoorbellPort
from toolrail.drafting import Draft
from toolrail.errors import CallError
from toolrail.judgement import Judgement, failure
from toolrail.ledger import EventLine, LedgerReader, NewCall
from toolrail.policy.remembered import NOT_ASKED, TOLD_OF_UNKNOWN, RememberedApproval
from toolrail.request import Limits, RunContext
from toolrail.results import ending_of, store_result
from toolrail_schemas import (
    ApprovalRecord,
    ApprovalScope,
    BudgetDecision,
    Doorbell,
    EventType,
    Layer,
    Level,
    SideEffect,
    ToolResult,
    args_ref,
    artifact_ref,
    sha256_hex,
)

DEFAULT_OUTPUT_BYTES = 1024 * 1024


class EntryWriter:
    """Makes ledger entries for one client process."""

    def __init__(
        self,
        *,
        reader: LedgerReader,
        blobs: Blobs,
        doorbell: DoorbellPort,
        secret: bytes,
        client: str,
        limits: Limits,
    ) -> None:
        self._reader = reader
        self._blobs = blobs
        self._doorbell = doorbell
        self._secret = secret
        self._client = client
        self._limits = limits

    def sign(self, run_id: str, key: str, attempt: int = 1) -> Doorbell:
        """Return the doorbell of one attempt."""
        return Doorbell.ring(self._secret, run_id=run_id, call_key=key, attempt=attempt)

    async def entry(self, run: RunContext, draft: Draft, judgement: Judgement) -> NewCall:
        """Return the entry; large arguments and results are durable before it is.

        Args:
            run: The run.
            draft: The call.
            judgement: What is to happen with it.
        """
        fields = await self._fields(run, draft, judgement)
        budget = judgement.decision.budget if judgement.decision else None
        common = NewCall(
            run_id=run.run_id,
            call_key=draft.key,
            digest=draft.digest,
            state="queued",
            fields=fields,
            events=(_requested(run, draft),),
            deadline_ms=draft.deadline_ms,
            cap_run=budget.calls_remaining if budget else None,
            cap_turn=budget.calls_remaining_turn if budget else None,
            alone=_ends_run(draft),
        )
        match judgement.kind:
            case "queue" if judgement.memory:
                return self._remembered(run, draft, judgement, common)
            case "queue":
                ring = self._doorbell.inline(draft.queue, self.sign(run.run_id, draft.key))
                return replace(common, envelope=ring)
            case "park":
                return await self._parked(run, draft, judgement, common)
            case "refuse":
                return await self._refused(draft, judgement, common)

    async def _fields(
        self, run: RunContext, draft: Draft, judgement: Judgement
    ) -> dict[str, str | int]:
        asked = draft.asked
        fields: dict[str, str | int] = {
            "call_id": asked.call_id,
            "tool": asked.name,
            "turn": asked.turn,
            "queue": draft.queue,
            "client": self._client,
            "caller": asked.caller.value,
            "tenant": run.spec.tenant,
            "profile": run.spec.profile,
            "policy_hash": run.policy.policy_hash,
            "args_sha256": draft.raw_sha256,
            "args_bytes": len(draft.raw),
            "max_attempts": self._limits.max_attempts,
        }
        if asked.problem is None and len(draft.raw) <= self._limits.inline_args_bytes:
            fields["args"] = draft.raw.decode()
        else:
            fields["args_blob"] = await self._blobs.put(draft.raw)
        if draft.metadata:
            fields["metadata_blob"] = await self._blobs.put(draft.metadata)
        if draft.redrive is not None:
            fields["redrive_of"] = draft.redrive.letter_id
            fields["redrive_by"] = draft.redrive.by
            fields["redrive_number"] = draft.redrive.number
        if draft.tool is not None:
            notes = draft.tool.spec.annotations
            fields["source"] = draft.tool.spec.source.value
            fields["spec_hash"] = draft.tool.spec.spec_hash
            fields["retry_safe"] = int(notes.read_only or notes.idempotent)
        if judgement.decision is not None:
            fields.update(caps_of(judgement.decision.budget))
        return fields

    async def _parked(
        self, run: RunContext, draft: Draft, judgement: Judgement, common: NewCall
    ) -> NewCall:
        if draft.tool is None or judgement.decision is None:
            raise CallError
        now_ms = await self._reader.now_ms()
        patience_ms = expiry_ms(run, draft.tool, default_ms=self._limits.approval_ms)
        record = approval_record(
            run,
            draft,
            draft.tool,
            judgement.decision,
            now_ms=now_ms,
            expires_ms=now_ms + patience_ms,
        )
        return replace(
            common,
            state="awaiting_approval",
            fields={**common.fields, "approval": record.model_dump_json()},
            events=(*common.events, question_event(record)),
            approval_expires_ms=record.expires_at,
            memory=_memory(record, judgement),
        )

    def _remembered(
        self, run: RunContext, draft: Draft, judgement: Judgement, common: NewCall
    ) -> NewCall:
        """Return the entry of a call that an earlier approval of its run lets pass."""
        earlier = RememberedApproval.loads(judgement.memory)
        approved: dict[str, JsonValue] = {
            "approval_id": earlier.approval_id,
            "decided_by": earlier.by,
            "decided_at": earlier.at_ms,
            "scope": ApprovalScope.RUN.value,
            "args_sha256": draft.raw_sha256,
        }
        return replace(
            common,
            envelope=self._doorbell.inline(draft.queue, self.sign(run.run_id, draft.key)),
            events=(*common.events, EventLine(EventType.TOOL_CALL_APPROVED, approved)),
            memory=judgement.memory,
        )

    async def _refused(self, draft: Draft, judgement: Judgement, common: NewCall) -> NewCall:
        result = judgement.result or failure(draft.asked, "tool.internal_error")
        stored = await store_result(
            result, self._blobs, inline_bytes=self._limits.inline_result_bytes
        )
        ending = ending_of(
            draft.key,
            result,
            stored,
            before=(*common.events, *_told_before(result, judgement)),
            run_end="failed" if judgement.run_end_code else "",
            run_end_code=judgement.run_end_code,
            denied=judgement.denied,
        )
        kept = {
            "result": stored.inline,
            "result_blob": stored.blob,
            "result_sha256": stored.sha256,
        }
        return replace(
            common,
            state="denied" if judgement.denied is not None else "failed",
            fields={**common.fields, **kept},
            events=ending.events,
            drift=judgement.drift,
            ending=ending,
        )


def caps_of(budget: BudgetDecision) -> dict[str, int]:
    """Return the fields of a call's record that bound one attempt of it."""
    return {
        "timeout_ms": budget.timeout_ms,
        "max_output_tokens": budget.max_output_tokens,
        "max_output_bytes": budget.max_output_bytes or DEFAULT_OUTPUT_BYTES,
    }


def _memory(record: ApprovalRecord, judgement: Judgement) -> str:
    """Return what of the run's memory the ledger is to check for a parked call."""
    if Layer.CONTEXT in record.layers:
        return TOLD_OF_UNKNOWN
    return judgement.memory if ApprovalScope.RUN in record.scopes else NOT_ASKED


def _ends_run(draft: Draft) -> bool:
    return draft.tool is not None and draft.tool.spec.annotations.side_effect is SideEffect.CONTROL


def _told_before(result: ToolResult, judgement: Judgement) -> tuple[EventLine, ...]:
    """Return what a refusal says of the run, beside the end of the call itself."""
    match result.error_code:
        case "policy.plan_violation":
            reason = judgement.decision.reason if judgement.decision else None
            rule = reason.rule if reason else None
            return (EventLine(EventType.PLAN_POLICY_VIOLATION, {"rule": rule}, Level.WARN),)
        case "tool.budget_exhausted" | "tool.turn_budget_exhausted":
            cap = "run" if result.error_code == "tool.budget_exhausted" else "turn"
            return (EventLine(EventType.BUDGET_EXHAUSTED, {"cap": cap}, Level.WARN),)
        case _:
            return ()


def _requested(run: RunContext, draft: Draft) -> EventLine:
    spec = draft.tool.spec if draft.tool else None
    payload: dict[str, JsonValue] = {
        "caller": draft.asked.caller.value,
        "source": spec.source.value if spec else None,
        "spec_hash": spec.spec_hash if spec else None,
        "args_ref": args_ref(draft.key),
        "args_bytes": len(draft.raw),
        "args_sha256": draft.raw_sha256,
    }
    if draft.metadata:
        # The blob's own name; see `_fields`.
        payload["provider_metadata_ref"] = artifact_ref(run.run_id, sha256_hex(draft.metadata))
    if draft.redrive is not None:
        payload["redrive_of"] = draft.redrive.letter_id
        payload["redrive_by"] = draft.redrive.by
    return EventLine(EventType.TOOL_CALL_REQUESTED, payload)
