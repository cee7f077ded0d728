"""Work inside one run: see its tools, call them, wait, cancel, read its journal, end it.

Is: what an agent service holds while an agent executes. Is not: connections (`client.py`) or
the rules of dispatch (`dispatcher.py`). Above: agent services, `sync.py`. Below: `client.py`'s
parts, given as one `Parts` value.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail.admission import Admission
from toolrail.approvals import Approvals, Decision
from toolrail.awaiting import person_awaited, still_open
from toolrail.blobs import Blobs
from toolrail.closing import cancel_call, close_open_calls
from toolrail.dispatcher import Dispatcher, OnRejected, Prepared
from toolrail.drafting import NO_QUEUE
from toolrail.errors import (
    CallError,
    CallNotFound,
    Closed,
    RedisUnavailable,
    RunNotFound,
    ToolrailError,
    WaitTimeout,
)
from toolrail.inbox import Inbox
from toolrail.ledger import JournalReader, Ledger, LedgerReader, RunEnd
from toolrail.lookup import RunLookup
from toolrail.policy.inputs import Facts
from toolrail.registry import RegistryView
from toolrail.request import CallRequest, RunContext, Ticket
from toolrail.results import load_result
from toolrail_schemas import (
    ApprovalScope,
    Caller,
    JournalEvent,
    RunSpec,
    SideEffect,
    ToolResult,
    ToolSpec,
    UnknownEvent,
)

_CODE = re.compile(r"(?=.{1,128}\Z)[a-z0-9_]+(?:\.[a-z0-9_]+)+")
REREAD_FIRST_S = 1.0
REREAD_CAP_S = 5.0
"""The inbox is a hint; so often the record itself is looked at while waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What all runs of one client share."""

    ledger: Ledger
    reader: LedgerReader
    journal: JournalReader
    lookup: RunLookup
    registry: RegistryView
    blobs: Blobs
    inbox: Inbox
    dispatcher: Dispatcher
    approvals: Approvals
    admission: Admission
    on_rejected: OnRejected
    open: asyncio.Event
    """Set while the client is open; its runs are of no use afterwards."""


class Run:
    """One run, held by a client; any number of clients may hold the same run."""

    def __init__(self, context: RunContext, parts: Parts) -> None:
        self._context = context
        self._shared = parts

    @property
    def _parts(self) -> Parts:
        if not self._shared.open.is_set():
            raise Closed("The client of this run is closed. Use the run inside `async with`.")
        return self._shared

    @property
    def id(self) -> str:
        """The run's id, `run_` and a ULID."""
        return self._context.run_id

    @property
    def spec(self) -> RunSpec:
        """What the run was opened with."""
        return self._context.spec

    async def status(self) -> str:
        """Return open, completed, failed or cancelled.

        Raises:
            RunNotFound: The run is past its retention.
        """
        return (await self._record())["status"]

    async def record(self) -> Mapping[str, str]:
        """Return the run's record: status, code, and as `used:{tool}` the budget units taken.

        Raises:
            RunNotFound: The run is past its retention.
        """
        used = await self._parts.reader.run_used(self.id)
        counters = {f"used:{tool}": str(units) for tool, units in sorted(used.items())}
        return {**await self._record(), **counters}

    async def _record(self) -> Mapping[str, str]:
        record = await self._parts.reader.run(self.id)
        if record is None:
            raise RunNotFound
        return record

    async def tools(self) -> list[ToolSpec]:
        """Return the tools the run's caller may see now, by name."""
        tools = await self._parts.registry.tools()
        shown: list[ToolSpec] = []
        for name in sorted(tools):
            tool = tools[name]
            decision = self._context.policy.resolve(
                tool.spec,
                caller=self.spec.caller,
                surface=self.spec.surface,
                facts=Facts(source_available=tool.available),
            )
            if decision.visible:
                shown.append(tool.spec)
        return shown

    async def dispatch(self, request: CallRequest, *, deadline_s: float | None = None) -> Ticket:
        """The call is accepted and will have exactly one result; see `Dispatcher.dispatch`."""
        await self._check_admission(1)
        return await self._parts.dispatcher.dispatch(self._context, request, deadline_s=deadline_s)

    async def _check_admission(self, calls: int) -> None:
        parts = self._parts
        try:
            await parts.admission.check()
        except ToolrailError as error:
            for _ in range(calls):
                parts.on_rejected(error, NO_QUEUE)
            raise

    async def call(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, JsonValue] | None = None,
        *,
        id: str,  # the word of every provider
        turn: int = 0,
        caller: Caller | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Return the result of one call; an error is a result too, unless the run is over.

        Args:
            name: Canonical or model-facing tool name.
            arguments: JSON text as the model wrote it, or an object.
            id: The provider's call id.
            turn: Which model response the call came in.
            caller: Who invokes; None takes the run's.
            timeout_s: How long to wait; the call itself goes on after that.

        Raises:
            WaitTimeout: No result in time.
            CallError, CallConflict, RunClosed, SystemFailure: See `Dispatcher.dispatch`.
        """
        request = CallRequest(id=id, name=name, arguments=arguments, turn=turn, caller=caller)
        return await self.wait(await self.dispatch(request), timeout_s=timeout_s)

    async def call_many(
        self, requests: Sequence[CallRequest], *, timeout_s: float | None = None
    ) -> list[ToolResult]:
        """Return the results of one turn's parallel calls, in the order of the requests.

        All are accepted in one round trip. A tool that ends the run is started when the others
        have ended, and calls after it are refused (`tool.after_finish`).
        """
        await self._check_admission(len(requests))
        dispatcher = self._parts.dispatcher
        await dispatcher.check_turn(self._context, requests)
        calls = [await dispatcher.prepare(self._context, request) for request in requests]
        last = next((i for i, call in enumerate(calls) if _ends_run(call)), len(calls))
        tickets = await asyncio.gather(
            *(dispatcher.commit(self._context, call) for call in calls[:last])
        )
        too_late = [
            await dispatcher.refuse(self._context, call, "tool.after_finish")
            for call in calls[last + 1 :]
        ]
        results = await self._wait_all(tickets, timeout_s)
        if last < len(calls):
            ending = await dispatcher.commit(self._context, calls[last])
            results.append(await self.wait(ending, timeout_s=timeout_s))
        return results + await self._wait_all(too_late, timeout_s)

    async def _wait_all(
        self, tickets: Sequence[Ticket], timeout_s: float | None
    ) -> list[ToolResult]:
        return list(
            await asyncio.gather(*(self.wait(ticket, timeout_s=timeout_s) for ticket in tickets))
        )

    async def wait(self, ticket: Ticket, *, timeout_s: float | None = None) -> ToolResult:
        """Return the call's result as soon as it has one.

        Raises:
            WaitTimeout: No result in time; the call goes on, and the error says where it is.
            CallNotFound: The ledger has forgotten the call.
        """
        loop = asyncio.get_running_loop()
        end = float("inf") if timeout_s is None else loop.time() + timeout_s
        reread_s = REREAD_FIRST_S
        future = self._parts.inbox.expect(ticket.run_id, ticket.call_key)
        if ticket.state in {"completed", "failed", "denied"}:
            reread_s = 0.0
        try:
            while True:
                left = min(reread_s, end - loop.time())
                if left > 0:
                    await asyncio.wait({future}, timeout=left)
                if future.done() and future.result():
                    return ToolResult.model_validate_json(future.result())
                if await self._parts.reader.has_ended(ticket.run_id, ticket.call_key):
                    result = await self.result(ticket)
                    if result is not None:
                        return result
                if loop.time() >= end:
                    raise await self._too_late(ticket)
                reread_s = min(max(reread_s * 2, REREAD_FIRST_S), REREAD_CAP_S)
        finally:
            self._shared.inbox.forget(ticket.run_id, ticket.call_key)

    async def _too_late(self, ticket: Ticket) -> WaitTimeout:
        reader = self._parts.reader
        try:
            call, now_ms = await reader.call(ticket.run_id, ticket.call_key), await reader.now_ms()
        except RedisUnavailable:
            return WaitTimeout()
        return WaitTimeout() if call is None else WaitTimeout(still_open(call, now_ms=now_ms))

    async def awaited(self, ticket: Ticket) -> str:
        """Return for how long a person is awaited yet and how to decide; "" when none is."""
        call = await self._parts.reader.call(ticket.run_id, ticket.call_key)
        if call is None or call.state != "awaiting_approval":
            return ""
        return person_awaited(call, now_ms=await self._parts.reader.now_ms())

    async def result(self, ticket: Ticket) -> ToolResult | None:
        """Return the call's result, or None while it has none.

        Raises:
            CallNotFound: The ledger has forgotten the call.
            BlobMissing: The result outlived its blob.
        """
        call = await self._parts.reader.call(ticket.run_id, ticket.call_key)
        if call is None:
            raise CallNotFound
        return await load_result(call, self._parts.blobs) if call.is_terminal else None

    async def cancel_call(self, ticket: Ticket) -> None:
        """The call ends as `tool.cancelled`, at once or when its worker has stopped the tool."""
        await cancel_call(
            self._parts.ledger,
            self._parts.reader,
            self._parts.blobs,
            ticket.run_id,
            ticket.call_key,
            actor="runtime:client",
        )

    async def approve(
        self,
        ticket: Ticket,
        *,
        by: str,
        scope: ApprovalScope | str = ApprovalScope.ONCE,
        arguments: str | bytes | Mapping[str, JsonValue] | None = None,
        effect_may_repeat: bool = False,
    ) -> Decision:
        """A parked call is queued; see `Approvals.approve`."""
        return await self._parts.approvals.approve(
            ticket.approval_id,
            by=by,
            scope=scope,
            arguments=arguments,
            effect_may_repeat=effect_may_repeat,
        )

    async def deny(self, ticket: Ticket, *, by: str, comment: str = "") -> Decision:
        """A parked call is refused; see `Approvals.deny`."""
        return await self._parts.approvals.deny(ticket.approval_id, by=by, comment=comment)

    async def journal(
        self, *, after_seq: int = 0, limit: int = 500
    ) -> list[JournalEvent | UnknownEvent]:
        """Return up to 500 events after a sequence number."""
        return await self._parts.journal.read(self.id, after_seq=after_seq, limit=limit)

    async def events(self, *, after_seq: int = 0) -> AsyncIterator[JournalEvent | UnknownEvent]:
        """Yield events as they are written, until the run has ended or the client is closed.

        Resume by `seq`.
        """
        parts = self._parts
        try:
            async for event in parts.journal.follow(
                self.id, after_seq=after_seq, is_wanted=parts.open.is_set
            ):
                yield event
        except Closed:
            return

    async def complete(self) -> RunEnd:
        """The run is completed; refused (`calls_pending`) while calls are open."""
        return await self._end("completed", "")

    async def cancel(self) -> RunEnd:
        """The run is cancelled: waiting calls end now, running ones when they have stopped."""
        return await self._end("cancelled", "run.cancelled")

    async def fail(self, code: str) -> RunEnd:
        """The run is failed, for a reason of the agent service itself.

        Args:
            code: Dotted lower case, at most 128 characters, such as `agent.gave_up`.

        Raises:
            CallError: The code is not one.
        """
        if not _CODE.fullmatch(code):
            raise CallError(f"{code[:80]!r} is no code. Use dotted lower case: agent.gave_up.")
        return await self._end("failed", code)

    async def _end(self, status: str, code: str) -> RunEnd:
        parts = self._parts
        end = await parts.ledger.end_run(self.id, status=status, code=code, actor="runtime:client")
        if end.status != "ending":
            return end
        await close_open_calls(
            parts.ledger, parts.reader, parts.blobs, self.id, actor="runtime:client"
        )
        return await parts.ledger.end_run(self.id, status=status, code=code, actor="runtime:client")


def _ends_run(prepared: Prepared) -> bool:
    draft = prepared.draft
    return draft.tool is not None and draft.tool.spec.annotations.side_effect is SideEffect.CONTROL
