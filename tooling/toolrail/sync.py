"""Use Toolrail from code without an event loop.

Is: a thin blocking portal over the async client; every call goes through the same code. Is not:
a second implementation. Above: synchronous agent services, scripts. Below: `client.py`, anyio.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import TracebackType
from typing import Self

from anyio.from_thread import BlockingPortal, start_blocking_portal
from prometheus_client import CollectorRegistry
from pydantic import JsonValue

from toolrail.approvals import ApprovalPage, Decision
from toolrail.approvals import Approvals as AsyncApprovals
from toolrail.client import Toolrail as AsyncToolrail
from toolrail.connecting import found_settings
from toolrail.ledger import RunEnd
from toolrail.request import CallRequest, Ticket
from toolrail.run import Run as AsyncRun
from toolrail.settings import Settings
from toolrail_schemas import (
    ApprovalMode,
    ApprovalRecord,
    ApprovalScope,
    Caller,
    JournalEvent,
    JsonObject,
    RunLimits,
    RunSpec,
    ToolResult,
    ToolSpec,
    UnknownEvent,
)


class Run:
    """One run; see `toolrail.run.Run` for what each method does and raises."""

    def __init__(self, run: AsyncRun, portal: BlockingPortal) -> None:
        self._run = run
        self._portal = portal

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def spec(self) -> RunSpec:
        """What the run was opened with."""
        return self._run.spec

    def record(self) -> Mapping[str, str]:
        """Return the run's record: status, code, budget counters."""
        return self._portal.call(self._run.record)

    def approve(
        self,
        ticket: Ticket,
        *,
        by: str,
        scope: ApprovalScope | str = ApprovalScope.ONCE,
        arguments: str | bytes | Mapping[str, JsonValue] | None = None,
        effect_may_repeat: bool = False,
    ) -> Decision:
        """A parked call is queued."""
        return self._portal.call(
            partial(
                self._run.approve,
                ticket,
                by=by,
                scope=scope,
                arguments=arguments,
                effect_may_repeat=effect_may_repeat,
            )
        )

    def deny(self, ticket: Ticket, *, by: str, comment: str = "") -> Decision:
        """A parked call is refused."""
        return self._portal.call(partial(self._run.deny, ticket, by=by, comment=comment))

    def fail(self, code: str) -> RunEnd:
        """The run is failed, for a reason of the agent service itself."""
        return self._portal.call(self._run.fail, code)

    def status(self) -> str:
        """Return open, completed, failed or cancelled."""
        return self._portal.call(self._run.status)

    def tools(self) -> list[ToolSpec]:
        """Return the tools the run's caller may see now."""
        return self._portal.call(self._run.tools)

    def dispatch(self, request: CallRequest, *, deadline_s: float | None = None) -> Ticket:
        """The call is accepted."""
        return self._portal.call(partial(self._run.dispatch, request, deadline_s=deadline_s))

    def call(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, JsonValue] | None = None,
        *,
        id: str,  # the word of every provider
        turn: int = 0,
        caller: Caller | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Return the result of one call."""
        return self._portal.call(
            partial(
                self._run.call,
                name,
                arguments,
                id=id,
                turn=turn,
                caller=caller,
                timeout_s=timeout_s,
            )
        )

    def call_many(
        self, requests: Sequence[CallRequest], *, timeout_s: float | None = None
    ) -> list[ToolResult]:
        """Return the results of one turn's parallel calls, in order."""
        return self._portal.call(partial(self._run.call_many, requests, timeout_s=timeout_s))

    def wait(self, ticket: Ticket, *, timeout_s: float | None = None) -> ToolResult:
        """Return the call's result as soon as it has one."""
        return self._portal.call(partial(self._run.wait, ticket, timeout_s=timeout_s))

    def result(self, ticket: Ticket) -> ToolResult | None:
        """Return the call's result, or None while it has none."""
        return self._portal.call(self._run.result, ticket)

    def cancel_call(self, ticket: Ticket) -> None:
        """The call ends as cancelled."""
        self._portal.call(self._run.cancel_call, ticket)

    def journal(self, *, after_seq: int = 0, limit: int = 500) -> list[JournalEvent | UnknownEvent]:
        """Return up to 500 events after a sequence number."""
        return self._portal.call(partial(self._run.journal, after_seq=after_seq, limit=limit))

    def events(self, *, after_seq: int = 0) -> Iterator[JournalEvent | UnknownEvent]:
        """Yield events as they are written, until the run has ended."""
        source = self._run.events(after_seq=after_seq)

        async def following() -> JournalEvent | UnknownEvent | None:
            return await anext(source, None)

        while (event := self._portal.call(following)) is not None:
            yield event

    def complete(self) -> RunEnd:
        """The run is completed."""
        return self._portal.call(self._run.complete)

    def cancel(self) -> RunEnd:
        """The run is cancelled."""
        return self._portal.call(self._run.cancel)


class Approvals:
    """The questions of one cell; see `toolrail.approvals.Approvals`."""

    def __init__(self, approvals: AsyncApprovals, portal: BlockingPortal) -> None:
        self._approvals = approvals
        self._portal = portal

    def pending(self, *, run_id: str = "", offset: int = 0, limit: int = 100) -> ApprovalPage:
        """Return the questions that wait, the first to expire first."""
        return self._portal.call(
            partial(self._approvals.pending, run_id=run_id, offset=offset, limit=limit)
        )

    def get(self, approval_id: str) -> ApprovalRecord:
        """Return one question in its state."""
        return self._portal.call(self._approvals.get, approval_id)

    def arguments(self, approval_id: str) -> dict[str, JsonValue]:
        """Return the whole arguments, nothing redacted."""
        return self._portal.call(self._approvals.arguments, approval_id)

    def ids(self) -> list[str]:
        """Return the ids of all questions that wait."""
        return self._portal.call(self._approvals.ids)

    def lately(self) -> list[str]:
        """Return the ids of questions asked lately, decided or not."""
        return self._portal.call(self._approvals.lately)

    def now_ms(self) -> int:
        """Return the time by the clock of Redis."""
        return self._portal.call(self._approvals.now_ms)

    def redacted(
        self, approval_id: str, arguments: JsonObject | None = None
    ) -> dict[str, JsonValue]:
        """Return whole arguments as somebody may see them who does not own the call."""
        return self._portal.call(self._approvals.redacted, approval_id, arguments)

    def check_decider(self, approval_id: str, *, by: str) -> None:
        """This person may decide."""
        self._portal.call(partial(self._approvals.check_decider, approval_id, by=by))

    def approve(
        self,
        approval_id: str,
        *,
        by: str,
        scope: ApprovalScope | str = ApprovalScope.ONCE,
        arguments: str | bytes | Mapping[str, JsonValue] | None = None,
        effect_may_repeat: bool = False,
    ) -> Decision:
        """The call is queued."""
        return self._portal.call(
            partial(
                self._approvals.approve,
                approval_id,
                by=by,
                scope=scope,
                arguments=arguments,
                effect_may_repeat=effect_may_repeat,
            )
        )

    def deny(self, approval_id: str, *, by: str, comment: str = "") -> Decision:
        """The call is refused."""
        return self._portal.call(partial(self._approvals.deny, approval_id, by=by, comment=comment))


class Toolrail:
    """One client process for blocking code; safe to use from several threads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Start the event loop's thread and connect."""
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal(name="toolrail"))
            rail = self._portal.call(AsyncToolrail, self._settings)
            opened: AbstractContextManager[AsyncToolrail] = self._portal.wrap_async_context_manager(
                rail
            )
            self._rail = stack.enter_context(opened)
            self._stack = stack.pop_all()
        return self

    @property
    def approvals(self) -> Approvals:
        """The calls of all runs that wait for a person."""
        return Approvals(self._rail.approvals, self._portal)

    @property
    def metrics(self) -> CollectorRegistry:
        """What this client counts of itself; see `toolrail.Toolrail.metrics`."""
        return self._rail.metrics

    def refresh_tools(self) -> None:
        """The client sees every tool that is announced by now."""
        self._portal.call(self._rail.refresh_tools)

    def close(self) -> None:
        """Disconnect; threads that follow events see their end within a second."""
        self._portal.call(self._rail.close)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect; accepted calls go on."""
        self._stack.__exit__(kind, error, trace)

    def open_run(
        self,
        *,
        profile: str,
        tenant: str = "default",
        user: str | None = None,
        surface: str = "core",
        caller: Caller = Caller.ASSISTANT,
        plan: JsonObject | None = None,
        approval_mode: ApprovalMode = ApprovalMode.DENY_ALL,
        limits: RunLimits | None = None,
        name: str | None = None,
        chat: str | None = None,
        chat_messages: int | None = None,
    ) -> Run:
        """Return a new run; see `toolrail.client.Toolrail.open_run`."""
        opened = self._portal.call(
            partial(
                self._rail.open_run,
                profile=profile,
                tenant=tenant,
                user=user,
                surface=surface,
                caller=caller,
                plan=plan,
                approval_mode=approval_mode,
                limits=limits,
                name=name,
                chat=chat,
                chat_messages=chat_messages,
            )
        )
        return Run(opened, self._portal)

    def run(self, run_id: str) -> Run:
        """Return a run that was opened before."""
        return Run(self._portal.call(self._rail.run, run_id), self._portal)


def connect(settings: Settings | None = None) -> Toolrail:
    """Return a client, to be entered with `with`; see `toolrail.connecting.connect`."""
    return Toolrail(found_settings(settings))
