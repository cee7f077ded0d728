"""List, look at, watch and decide the questions of one cell.

Is: the API that client, CLI and gateway share. Is not: what a decision needs (`deciding.py`).
Above: client, CLI, gateway. Below: `deciding.py`, `listing.py`, the ledger.
"""

from collections.abc import AsyncGenerator
from typing import cast

import orjson
from pydantic import JsonValue

from toolrail.approvals.deciding import (
    Arguments,
    Decision,
    Question,
    Wanted,
    approval_of,
    ask_policy_again,
    check_person,
    check_right,
    decided_before,
    scope_named,
    wanted,
)
from toolrail.approvals.ending import CANNOT_RUN, EndedQuestions
from toolrail.approvals.listing import ApprovalPage, Questions
from toolrail.blobs import Blobs
from toolrail.doorbell import DoorbellPort
from toolrail.entry import EntryWriter
from toolrail.errors import ApprovalRefused
from toolrail.ledger import (
    Approval,
    EditedArguments,
    Ledger,
    LedgerReader,
)
from toolrail.notice import edited_summary
from toolrail.redaction import redact_arguments
from toolrail.redis_io import Away
from toolrail.registry import RegisteredTool, RegistryView
from toolrail.validation import ArgumentValidators
from toolrail_schemas import (
    ApprovalRecord,
    ApprovalScope,
    ApprovalState,
    Doorbell,
    JsonObject,
    PolicyDecision,
)


class Approvals:
    """The parked calls of one cell."""

    def __init__(
        self,
        *,
        questions: Questions,
        ledger: Ledger,
        reader: LedgerReader,
        registry: RegistryView,
        entries: EntryWriter,
        doorbell: DoorbellPort,
        blobs: Blobs,
        inline_args_bytes: int,
        inline_result_bytes: int,
    ) -> None:
        self._questions = questions
        self._ledger = ledger
        self._reader = reader
        self._registry = registry
        self._entries = entries
        self._doorbell = doorbell
        self._blobs = blobs
        self._inline_args_bytes = inline_args_bytes
        self._ending = EndedQuestions(
            questions, ledger, blobs, inline_result_bytes=inline_result_bytes
        )
        self._validators = ArgumentValidators()

    async def pending(self, *, run_id: str = "", offset: int = 0, limit: int = 100) -> ApprovalPage:
        """Return up to 1,000 of the questions that wait, the first to expire first.

        Args:
            run_id: Only those of one run; the cost is in proportion to the page, as of all runs.
            offset: How many to pass over.
            limit: How many at most.
        """
        return await self._questions.pending(run_id=run_id, offset=offset, limit=limit)

    async def get(self, approval_id: str) -> ApprovalRecord:
        """Return one question in its state, decided ones included.

        Raises:
            ApprovalNotFound: There is none, or it is past its run's retention.
        """
        return await self._questions.record(approval_id)

    async def ids(self) -> list[str]:
        """Return the ids of all questions that wait, the first to expire first."""
        return await self._questions.ids()

    async def lately(self) -> list[str]:
        """Return the ids of questions asked lately, decided or not, the newest first.

        As far back as the newest 5,000 events of the cell reach.
        """
        return await self._questions.lately()

    async def now_ms(self) -> int:
        """Return the time by the clock of Redis, the only one that decides."""
        return await self._reader.now_ms()

    async def arguments(self, approval_id: str) -> dict[str, JsonValue]:
        """Return the whole arguments as they stand, nothing redacted: what a person edits.

        Raises:
            ApprovalNotFound, BlobMissing: As named.
        """
        question = await self._questions.question(approval_id)
        raw = await self._questions.arguments(question.fields)
        return cast("dict[str, JsonValue]", orjson.loads(raw))

    async def redacted(
        self, approval_id: str, arguments: JsonObject | None = None
    ) -> dict[str, JsonValue]:
        """Return whole arguments as somebody may see them who does not own the call.

        Args:
            approval_id: As the record says.
            arguments: Somebody's edit of the call's arguments; None for those of the call.

        Raises:
            ApprovalRefused: The tool's definition of then is gone, and with it the marks that say
                which arguments are secret.
            ApprovalNotFound, BlobMissing: As named.
        """
        question = await self._questions.question(approval_id)
        await self._registry.refresh()
        newest = await self._registry.find(question.record.name)
        tool = newest and newest.in_version(question.record.spec_hash)
        if tool is None:
            raise ApprovalRefused(
                f"The definition of {question.record.name} is not known any more, and with it "
                "which of its arguments are secret. Look at the summary."
            )
        if arguments is None:
            arguments = await self.arguments(approval_id)
        return dict(redact_arguments(tool.spec, arguments))

    async def check_decider(self, approval_id: str, *, by: str) -> None:
        """A person of this name may decide; for before they begin to type.

        Raises:
            ApprovalRefused: Why not, and whom to ask.
            ApprovalNotFound: There is no such question.
        """
        check_person(by)
        check_right(await self._questions.question(approval_id), by)

    def watch(self, *, away: Away | None = None) -> AsyncGenerator[ApprovalRecord]:
        """Yield every question that waits now, then each one as it is asked and as it ends.

        Args:
            away: Told when Redis is away, again and again, and with None when it is back; no end
                of a question is missed meanwhile. Without it the watching ends with an error.

        Raises:
            RedisUnavailable: Away at the start, or later without `away`.
        """
        return self._questions.watch(away)

    async def approve(
        self,
        approval_id: str,
        *,
        by: str,
        scope: ApprovalScope | str = ApprovalScope.ONCE,
        arguments: str | bytes | Arguments | None = None,
        effect_may_repeat: bool = False,
    ) -> Decision:
        """The call is queued; policy is asked again first, and the budget is reserved with it.

        Args:
            approval_id: As the record says.
            by: Who decides, as the caller says; nothing here proves it. For the journal, and for
                the names that the policy lists.
            scope: `run` answers the same question for the rest of the run too.
            arguments: Instead of the model's; the model is told.
            effect_may_repeat: Approve although an equal call of the run ended with an unknown
                outcome that this question does not tell of: it was asked before, or the arguments
                are edited.

        Returns:
            What became of it. When no worker has the tool any more as it was asked about, the
            policy has changed, or the budget is used up, the call ends, and `why` says so.

        Raises:
            ApprovalRefused: Not by this person, not with these arguments or this scope, or not
                now; the question stands as it was.
            ApprovalConflict: Decided otherwise, also with other arguments or for another scope,
                or too late; the error says what stands.
            ApprovalNotFound, RunClosed: As named.
        """
        check_person(by)
        question = await self._questions.question(approval_id)
        check_right(question, by)
        named = scope_named(scope)
        known = decided_before(question, arguments, named)
        if known is not None:
            return known
        asked = await self._questions.arguments(question.fields)
        wants = wanted(question, asked, arguments, named)
        tool = await self._tool(question)
        if tool is None:
            return await self._ending.cannot_run(question, "superseded", by=by)
        decision = ask_policy_again(question, tool, wants, self._validators)
        if decision is None:
            return await self._ending.cannot_run(question, "superseded", by=by)
        approval = await self._approval(question, wants, tool, decision, by, effect_may_repeat)
        return await self._enter(question, approval)

    async def deny(self, approval_id: str, *, by: str, comment: str = "") -> Decision:
        """The call ends as denied; the model reads the person's words, up to 500 characters.

        Raises:
            ApprovalRefused: Not by this person.
            ApprovalConflict: Decided otherwise, or too late.
            ApprovalNotFound: As named.
        """
        check_person(by)
        question = await self._questions.question(approval_id)
        check_right(question, by)
        return await self._ending.deny(question, by=by, comment=comment)

    async def _approval(
        self,
        question: Question,
        wants: Wanted,
        tool: RegisteredTool,
        decision: PolicyDecision,
        by: str,
        effect_may_repeat: bool,
    ) -> Approval:
        return approval_of(
            question,
            wants,
            tool,
            decision,
            by=by,
            now_ms=await self._reader.now_ms(),
            envelope=self._doorbell.inline(question.fields["queue"], self._sign(question)),
            edited=await self._edited(wants, tool),
            effect_may_repeat=effect_may_repeat,
        )

    async def _enter(self, question: Question, approval: Approval) -> Decision:
        run_id, key = question.run.run_id, question.key
        dispatched = await self._ledger.approve(run_id, key, approval)
        if dispatched.status in CANNOT_RUN:
            return await self._ending.cannot_run(question, dispatched.status, by=approval.by)
        if dispatched.status == "repeats_unknown":
            raise ApprovalRefused(
                "An equal call of this run ended with an unknown outcome: its effect may have "
                "happened, and would happen again. Check, then approve with effect_may_repeat "
                "(--effect-may-repeat), or deny. The question stands as it was."
            )
        repeated = dispatched.status == "duplicate"
        if not repeated and not self._doorbell.is_inline:
            await self._doorbell.ring(question.fields["queue"], self._sign(question))
        return Decision(
            approval_id=question.record.approval_id,
            state=ApprovalState.APPROVED,
            decided_by=dispatched.by or approval.by,
            call_state=dispatched.state,
            repeated=repeated,
            decided_at=dispatched.at_ms,
        )

    async def _tool(self, question: Question) -> RegisteredTool | None:
        """Return the tool in the version that was asked about, as it is now, not a second ago.

        None when only others have it: claims are granted for one version (`lua/claim.lua`), so
        while workers are replaced those of before may still run what a person was asked about.
        """
        await self._registry.refresh()
        tool = await self._registry.find(question.record.name)
        if tool is None:
            raise ApprovalRefused(
                f"Nobody offers {question.record.name} at the moment. Approve when its worker is "
                "back, or deny. The question stands as it was."
            )
        return tool.in_version(question.record.spec_hash)

    async def _edited(self, wants: Wanted, tool: RegisteredTool) -> EditedArguments | None:
        if not wants.is_edited:
            return None
        is_small = len(wants.raw) <= self._inline_args_bytes
        return EditedArguments(
            sha256=wants.sha256,
            inline=wants.raw.decode() if is_small else "",
            blob="" if is_small else await self._blobs.put(wants.raw),
            size_bytes=len(wants.raw),
            summary=edited_summary(tool.spec, dict(wants.arguments)),
        )

    def _sign(self, question: Question) -> Doorbell:
        return self._entries.sign(question.run.run_id, question.key)
