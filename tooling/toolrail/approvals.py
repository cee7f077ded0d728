"""Let a person decide about parked calls.

Is: list, approve, deny; each decision is atomic in the ledger. Is not: who may decide (the
gateway and its roles). Above: client, CLI. Below: the ledger, the run's frozen policy.
"""

from collections.abc import Mapping

from pydantic import JsonValue

from toolrail.blobs import Blobs
from toolrail.doorbell import DoorbellPort
from toolrail.entry import EntryWriter, approval_id_of
from toolrail.errors import ApprovalConflict, ApprovalNotFound, ApprovalRefused
from toolrail.keys import Keys
from toolrail.ledger import Closed, EventLine, Ledger, LedgerReader
from toolrail.registry import RegisteredTool, RegistryView
from toolrail.request import RunContext
from toolrail.results import ending_of, store_result
from toolrail_schemas import (
    ApprovalRecord,
    Caller,
    EventType,
    Level,
    PolicyDecision,
    ToolResult,
)

FOREVER = 2**62
COMMENT_MAX_CHARS = 500
PERSON_MAX_CHARS = 200
_CANNOT_RUN = {
    "over_run_budget": "tool.budget_exhausted",
    "calls_pending": "workspace.calls_pending",
    "after_finish": "tool.after_finish",
    "superseded": "tool.spec_changed",
}
"""What ends a call that a person approved and that cannot run any more."""

_SUPERSEDED = EventLine(EventType.APPROVAL_SUPERSEDED, {}, Level.WARN)


def check_person(by: str) -> None:
    """The name of whoever decides can stand in the journal.

    Raises:
        ApprovalRefused: Empty, over 200 characters, or with control characters.
    """
    if not 1 <= len(by) <= PERSON_MAX_CHARS or not by.isprintable():
        raise ApprovalRefused(
            f"{by[:40]!r} names nobody. Pass `by` as 1 to {PERSON_MAX_CHARS} printable characters."
        )


class Approvals:
    """The parked calls of one cell."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        reader: LedgerReader,
        registry: RegistryView,
        entries: EntryWriter,
        doorbell: DoorbellPort,
        blobs: Blobs,
        keys: Keys,
        inline_result_bytes: int,
    ) -> None:
        self._ledger = ledger
        self._reader = reader
        self._registry = registry
        self._entries = entries
        self._doorbell = doorbell
        self._blobs = blobs
        self._keys = keys
        self._inline_result_bytes = inline_result_bytes

    async def pending(self) -> list[ApprovalRecord]:
        """Return what waits for a person, the first to expire first."""
        records: list[ApprovalRecord] = []
        for due in await self._reader.due(self._keys.approvals, until=FOREVER):
            call = await self._reader.call(due.run_id, due.call_key)
            if call is not None and call.state == "awaiting_approval":
                records.append(ApprovalRecord.model_validate_json(call.fields["approval"]))
        return records

    async def approve(self, run: RunContext, key: str, *, by: str) -> str:
        """The parked call is queued; returns its state.

        Policy is asked again, and the arguments and the tool must still be the ones that the
        person was shown.

        Raises:
            ApprovalConflict: Decided otherwise, too late, or for a tool that has changed.
        """
        check_person(by)
        fields = await self._parked(run.run_id, key)
        now_ms = await self._reader.now_ms()
        tool = await self._registry.find(fields["tool"])
        decision = self._again(run, tool, fields)
        dispatched = await self._ledger.approve(
            run.run_id,
            key,
            by=by,
            payload={
                "approval_id": approval_id_of(run.run_id, key),
                "decided_by": by,
                "decided_at": now_ms,
                "scope": "once",
                "args_sha256": fields["args_sha256"],
            },
            cap_run=decision.budget.calls_remaining if decision else None,
            envelope=self._doorbell.inline(fields["queue"], self._entries.sign(run.run_id, key)),
            args_sha256=fields["args_sha256"],
            spec_hash=tool.spec.spec_hash if tool and decision else "",
        )
        code = _CANNOT_RUN.get(dispatched.status)
        if code is not None:
            result = ToolResult.failure(fields["call_id"], fields["tool"], code=code)
            superseded = dispatched.status == "superseded"
            state = "superseded" if superseded else "cancelled"
            await self._close(run.run_id, key, result, by=by, approval_state=state)
            return "failed"
        if dispatched.status == "accepted" and not self._doorbell.is_inline:
            await self._doorbell.ring(fields["queue"], self._entries.sign(run.run_id, key))
        return dispatched.state

    def _again(
        self, run: RunContext, tool: RegisteredTool | None, fields: Mapping[str, str]
    ) -> PolicyDecision | None:
        if tool is None:
            return None
        caller = Caller(fields["caller"])
        decision = run.policy.resolve(tool.spec, caller=caller, surface=run.spec.surface)
        return decision if decision.visible and decision.callable else None

    async def deny(self, run: RunContext, key: str, *, by: str, comment: str = "") -> None:
        """The parked call ends as denied; the model reads the person's words.

        Raises:
            ApprovalNotFound: The call never waited for a person.
            ApprovalConflict: Decided otherwise, or too late.
        """
        check_person(by)
        fields = await self._parked(run.run_id, key)
        said = comment.strip()[:COMMENT_MAX_CHARS]
        text = "A person refused this call. " + (f"Their words: {said} " if said else "")
        result = ToolResult.failure(
            fields["call_id"],
            fields["tool"],
            code="approval.denied",
            text=text + "Do not repeat it; continue without it.",
        )
        denied: dict[str, JsonValue] = {
            "denied_by": "user",
            "policy_reason": said or "A person refused.",
            "on_denied": "return_result",
            "approval_id": approval_id_of(run.run_id, key),
        }
        closed = await self._close(
            run.run_id, key, result, by=by, approval_state="denied", denied=denied
        )
        if closed.status == "refused":
            raise ApprovalConflict

    async def _close(
        self,
        run_id: str,
        key: str,
        result: ToolResult,
        *,
        by: str,
        approval_state: str,
        denied: dict[str, JsonValue] | None = None,
    ) -> Closed:
        stored = await store_result(result, self._blobs, inline_bytes=self._inline_result_bytes)
        return await self._ledger.finish(
            run_id,
            key,
            ending_of(
                key,
                result,
                stored,
                denied=denied,
                before=(_SUPERSEDED,) if approval_state == "superseded" else (),
            ),
            fence=0,
            actor=f"user:{by}",
            guard="undecided",
            approval_state=approval_state,
        )

    async def _parked(self, run_id: str, key: str) -> Mapping[str, str]:
        call = await self._reader.call(run_id, key)
        if call is None or "approval" not in call.fields:
            raise ApprovalNotFound
        return call.fields
