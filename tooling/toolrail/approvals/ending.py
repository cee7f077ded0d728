"""End a parked call that does not run: a person refused it, or nothing can make it run any more.

Is: the result its model reads, and one step of the ledger. Is not: who may decide (`deciding.py`),
or what ends without a person (`toolrail.closing`). Above: `approvals.py`. Below: `listing.py`,
results, the ledger.
"""

from pydantic import JsonValue

from toolrail.approvals.deciding import (
    Decision,
    Question,
    conflict_with,
    repeated_decision,
)
from toolrail.approvals.listing import Questions
from toolrail.blobs import Blobs
from toolrail.errors import JournalAppendFailed
from toolrail.ledger import Closed, EventLine, Ledger
from toolrail.notice import refusal_text
from toolrail.redaction import clean
from toolrail.results import ending_of, store_result
from toolrail_schemas import ApprovalState, EventType, Level, ToolResult, error_info

COMMENT_MAX_CHARS = 500
CANNOT_RUN = {
    "over_run_budget": "tool.budget_exhausted",
    "calls_pending": "workspace.calls_pending",
    "superseded": "tool.spec_changed",
}
"""What ends a call that a person approved and that cannot run any more."""
_SUPERSEDED = EventLine(EventType.APPROVAL_SUPERSEDED, {}, Level.WARN)


class EndedQuestions:
    """The questions of one cell, to be ended."""

    def __init__(
        self, questions: Questions, ledger: Ledger, blobs: Blobs, *, inline_result_bytes: int
    ) -> None:
        self._questions = questions
        self._ledger = ledger
        self._blobs = blobs
        self._inline_result_bytes = inline_result_bytes

    async def deny(self, question: Question, *, by: str, comment: str) -> Decision:
        """The call is denied, or was by somebody before.

        Raises:
            ApprovalConflict: Decided otherwise, or too late.
            JournalAppendFailed: The run is failed.
        """
        said = comment.strip()[:COMMENT_MAX_CHARS]
        # The model reads a person's words as they are; what is kept for others is clean.
        kept = clean(said)[:COMMENT_MAX_CHARS]
        closed = await self._close(question, _refusal(question, said), by=by, words=kept)
        if closed.status != "closed":
            return await self._denied_before(question, kept)
        return Decision(
            approval_id=question.record.approval_id,
            state=ApprovalState.DENIED,
            decided_by=by,
            call_state="denied",
        )

    async def _denied_before(self, question: Question, said: str) -> Decision:
        record = await self._questions.record(question.record.approval_id)
        if record.state is not ApprovalState.DENIED:
            raise conflict_with(record)
        is_unsaid = said not in {"", record.comment}
        why = "Your reason was not taken: the model had been answered before." if is_unsaid else ""
        return repeated_decision(record, call_state="denied", why=why)

    async def cannot_run(self, question: Question, status: str, *, by: str) -> Decision:
        """The approved call has failed, since nothing can make it run any more.

        Args:
            question: That was approved.
            status: Why; a key of `CANNOT_RUN`.
            by: Who approved.

        Raises:
            ApprovalConflict: It was decided meanwhile.
            JournalAppendFailed: The run is failed.
        """
        code = CANNOT_RUN[status]
        is_superseded = status == "superseded"
        state = ApprovalState.SUPERSEDED if is_superseded else ApprovalState.CANCELLED
        result = ToolResult.failure(question.fields["call_id"], question.record.name, code=code)
        closed = await self._close(
            question, (result, None), by=by, state=state, before=(_SUPERSEDED,) * is_superseded
        )
        if closed.status != "closed":
            record = await self._questions.record(question.record.approval_id)
            raise conflict_with(record)
        return Decision(
            approval_id=question.record.approval_id,
            state=state,
            decided_by=by,
            call_state="failed",
            why=error_info(code).sentence,
        )

    async def _close(
        self,
        question: Question,
        ending: tuple[ToolResult, dict[str, JsonValue] | None],
        *,
        by: str,
        state: ApprovalState = ApprovalState.DENIED,
        before: tuple[EventLine, ...] = (),
        words: str = "",
    ) -> Closed:
        result, denied = ending
        stored = await store_result(result, self._blobs, inline_bytes=self._inline_result_bytes)
        closed = await self._ledger.finish(
            question.run.run_id,
            question.key,
            ending_of(question.key, result, stored, denied=denied, before=before),
            fence=0,
            actor=f"user:{by}",
            guard="undecided",
            approval_state=state.value,
            comment=words,
        )
        if closed.status == "journal_failed":
            raise JournalAppendFailed
        return closed


def _refusal(question: Question, said: str) -> tuple[ToolResult, dict[str, JsonValue]]:
    """Return what the model reads, and what the journal says."""
    result = ToolResult.failure(
        question.fields["call_id"],
        question.record.name,
        code="approval.denied",
        text=refusal_text(said),
    )
    return result, {
        "denied_by": "user",
        "policy_reason": said or "A person refused.",
        "on_denied": "return_result",
        "approval_id": question.record.approval_id,
    }
