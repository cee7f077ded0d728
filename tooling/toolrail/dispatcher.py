"""Take calls into the ledger: judge each on a snapshot, then commit it in one step.

Is: the order draft, judge, commit, ring; and what follows when the ledger's own counters refuse.
Is not: waiting for results (`inbox.py`) or anything a worker does. Above: `client.py`, the
gateway. Below: `drafting.py`, `judgement.py`, `entry.py`, the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toolrail.doorbell import DoorbellPort
from toolrail.drafting import NO_QUEUE, Draft, Drafter
from toolrail.entry import EntryWriter
from toolrail.errors import LedgerError, SystemFailure, ToolrailError
from toolrail.judgement import Judgement, failure, judge
from toolrail.ledger import Dispatched, Ledger, NewCall
from toolrail.request import CallRequest, RunContext, Ticket
from toolrail.validation import ArgumentValidators


@dataclass(frozen=True, slots=True)
class Prepared:
    """A judged call whose entry is ready: committing it is one round trip."""

    draft: Draft
    entry: NewCall


OnRejected = Callable[[ToolrailError, str], None]
"""Told why a call was not taken, and the queue of its tool, as far as that was known."""


class Dispatcher:
    """The one way into the ledger for calls."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        drafter: Drafter,
        entries: EntryWriter,
        doorbell: DoorbellPort,
        on_rejected: OnRejected,
    ) -> None:
        """Prepare.

        Args:
            ledger: Where calls are entered.
            drafter: Makes drafts of requests.
            entries: Makes entries of drafts.
            doorbell: Rung where the ledger cannot.
            on_rejected: Told of each call that did not get into the ledger.
        """
        self._ledger = ledger
        self._drafter = drafter
        self._entries = entries
        self._doorbell = doorbell
        self._on_rejected = on_rejected
        self._validators = ArgumentValidators()

    async def dispatch(
        self, run: RunContext, request: CallRequest, *, deadline_s: float | None = None
    ) -> Ticket:
        """The call is in the ledger: queued, parked, or refused with a result that explains.

        Dispatching the same call again returns the same ticket and starts nothing.

        Args:
            run: The run.
            request: The call.
            deadline_s: From now until the call must have started its last attempt.

        Raises:
            CallError: The id or the turn cannot name a call; nothing was recorded.
            SystemFailure: A call without id; the run is failed with it.
            CallConflict, RunClosed, RunNotFound: See `Ledger.dispatch`.
            JournalAppendFailed, AdmissionClosed, RedisUnavailable: See there.
        """
        return await self.commit(run, await self.prepare(run, request, deadline_s=deadline_s))

    async def prepare(
        self, run: RunContext, request: CallRequest, *, deadline_s: float | None = None
    ) -> Prepared:
        """Return the request judged, with whatever is large stored; see `dispatch` for errors.

        Apart from `commit`, so that the calls of one turn are prepared one after the other and
        then enter the ledger in their order, in one round trip.
        """
        source = NO_QUEUE
        try:
            await self._check_id(run, request)
            draft = await self._drafter.draft(run, request, deadline_s)
            source = draft.queue
            return Prepared(draft, await self._entries.entry(run, draft, self._judge(run, draft)))
        except ToolrailError as error:
            self._on_rejected(error, source)
            raise

    async def _check_id(self, run: RunContext, request: CallRequest) -> None:
        if request.id == "":
            raise await self._fail_run(
                run,
                "model.tool_call_id_missing",
                "The model made a call without an id, so the run was failed. "
                "Pass the provider's id; an adapter for a provider without ids derives one.",
            )

    async def commit(self, run: RunContext, prepared: Prepared) -> Ticket:
        """The prepared call is in the ledger; see `dispatch`."""
        try:
            return await self._commit(run, prepared)
        except ToolrailError as error:
            self._on_rejected(error, prepared.draft.queue)
            raise

    async def _commit(self, run: RunContext, prepared: Prepared) -> Ticket:
        draft = prepared.draft
        dispatched = await self._ledger.dispatch(prepared.entry)
        for _ in range(_TRIES):
            if dispatched.status == "remembered":
                judgement = self._judge(run, draft, memory=dispatched.memory)
            elif dispatched.status == "repeats_unknown":
                judgement = self._judge(run, draft, repeats_unknown=True)
            else:
                break
            dispatched = await self._enter(run, draft, judgement)
        else:
            raise LedgerError(
                "What this run remembers of approvals kept changing. Dispatch the call again."
            )
        code = _REFUSED_BY_LEDGER.get(dispatched.status)
        if code is not None:
            return await self.refuse(run, prepared, code)
        if dispatched.state == "queued" and not self._doorbell.is_inline:
            await self._doorbell.ring(draft.queue, self._entries.sign(run.run_id, draft.key))
        return _ticket(run, draft, dispatched.state)

    async def refuse(self, run: RunContext, prepared: Prepared, code: str) -> Ticket:
        """The call is recorded as failed with this code, whatever policy said."""
        draft = prepared.draft
        judgement = Judgement(kind="refuse", result=failure(draft.asked, code))
        dispatched = await self._enter(run, draft, judgement)
        return _ticket(run, draft, dispatched.state)

    async def check_turn(self, run: RunContext, requests: Sequence[CallRequest]) -> None:
        """The calls of one model response have different ids.

        Raises:
            SystemFailure: Two share one; the run is failed, since results could not be matched.
        """
        ids = [(request.turn, request.id) for request in requests]
        if len(set(ids)) < len(ids):
            error = await self._fail_run(
                run,
                "model.duplicate_tool_call_id",
                "Two calls of one response share an id, so the run was failed. "
                "Pass the provider's ids unchanged.",
            )
            for _ in requests:
                self._on_rejected(error, NO_QUEUE)
            raise error

    async def _fail_run(self, run: RunContext, code: str, message: str) -> SystemFailure:
        await self._ledger.end_run(
            run.run_id, status="failed", code=code, actor="runtime:dispatcher"
        )
        return SystemFailure(code, message)

    def _judge(
        self, run: RunContext, draft: Draft, *, repeats_unknown: bool = False, memory: str = ""
    ) -> Judgement:
        return judge(
            draft.asked,
            draft.tool,
            run=run.spec,
            policy=run.policy,
            validators=self._validators,
            repeats_unknown=repeats_unknown,
            memory=memory,
        )

    async def _enter(self, run: RunContext, draft: Draft, judgement: Judgement) -> Dispatched:
        return await self._ledger.dispatch(await self._entries.entry(run, draft, judgement))


def _ticket(run: RunContext, draft: Draft, state: str) -> Ticket:
    asked = draft.asked
    return Ticket(run.run_id, draft.key, asked.call_id, asked.name, asked.turn, state)


_TRIES = 5
"""What the ledger knew better may change once more before the call is entered again."""
_REFUSED_BY_LEDGER = {
    "over_run_budget": "tool.budget_exhausted",
    "over_turn_budget": "tool.turn_budget_exhausted",
    "calls_pending": "workspace.calls_pending",
    "after_finish": "tool.after_finish",
}
