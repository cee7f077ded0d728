"""Run functions in a few reused child processes that are killed at their deadline.

Is: the pool of children of one worker: who runs what, what happens at a deadline, at a cancel and
at a crash, when a child is replaced. Is not: the tool's contract (an executor builds the call
and the result), nor the deadline of the call as a whole (`execute.py` cancels; that kills too).
Above: executors. Below: `handle.py` (one child), `link.py` (the guard that forks them).

One guard process forks all children, so that a replacement is ready in milliseconds. If the
worker is killed, the guard kills the children and everything they started.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from pydantic import JsonValue

from toolrail.errors import SystemFailure, ToolError
from toolrail_workers.isolation.child import ChildLimits
from toolrail_workers.isolation.errors import (
    ChildTimeout,
    ChildUnavailable,
    InvalidOutput,
    OutputTooLarge,
    ToolNotLoaded,
    ToolRaised,
)
from toolrail_workers.isolation.framing import (
    HEADER,
    REPLY_ROOM_BYTES,
    Kind,
    Reply,
    Report,
    Request,
)
from toolrail_workers.isolation.guard import GuardOptions
from toolrail_workers.isolation.handle import Child
from toolrail_workers.isolation.link import GuardLink

__all__ = ["ChildLimits", "IsolatedCall", "ProcessChildren"]

log = logging.getLogger(__name__)

SIGKILLED = -9
BACKOFF_BASE_S = 0.1
BACKOFF_CAP_S = 5.0
STOP_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolatedCall:
    """One call for a child."""

    target: str
    """`module:attribute` of a function, called with the arguments by name, or of an object with
    `call_isolated(arguments, context)`. Both may be async. Imported once per child."""
    arguments: dict[str, JsonValue]
    timeout_s: float
    """From now on, waiting for a free child included."""
    max_output_bytes: int
    """Largest result as JSON; a larger one is refused inside the child."""
    context: dict[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    call_key: str = ""
    """Goes to the log with every line that the tool prints."""


class ProcessChildren:
    """A fixed number of children, each running one call at a time."""

    def __init__(
        self,
        *,
        children: int,
        calls_per_child: int,
        environment: Mapping[str, str],
        limits: ChildLimits | None = None,
        preload: Sequence[str] = (),
    ) -> None:
        """Prepare, start nothing.

        Args:
            children: How many run at once. About one per core.
            calls_per_child: Calls after which a child is replaced, because tools leak.
            environment: Everything a tool sees; leave out what it must not know.
            limits: Resource limits of each child. None: only core dumps are off.
            preload: Trusted modules that every child has imported before its first call.
        """
        self._size = children
        self._calls_per_child = calls_per_child
        self._environment = dict(environment)
        self._limits = limits or ChildLimits()
        self._preload = tuple(preload)
        self._guard: GuardLink | None = None
        self._children: dict[int, Child] = {}
        self._idle: list[Child] = []
        self._waiters: deque[asyncio.Future[Child]] = deque()
        self._number = 0
        self._failures = 0
        self._stopping = False
        self._supervisor: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def pids(self) -> list[int]:
        """Process ids of the children that live now, each the leader of its group."""
        return [child.pid for child in self._children.values() if child.pid is not None]

    @property
    def waiting(self) -> int:
        """How many calls wait for a free child."""
        return len(self._waiters)

    async def start(self) -> None:
        """Start the guard and the children; calls wait for them by themselves."""
        self._stopping = False
        self._supervisor = asyncio.create_task(self._supervise(), name="isolation-guard")

    async def stop(self) -> None:
        """Kill every child and what it started; bounded, and safe to call twice."""
        self._stopping = True
        self._refuse_waiters("the worker stops")
        for child in list(self._children.values()):
            child.kill()
        if self._guard is not None:
            await self._guard.stop(patience_s=STOP_PATIENCE_S)
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, *self._tasks, return_exceptions=True)
            self._supervisor = None

    async def call(self, call: IsolatedCall) -> JsonValue:
        """Return the result of one call.

        When the awaiting task is cancelled, or `timeout_s` is over, the child and everything it
        started get SIGKILL before this returns.

        Raises:
            ToolError: The tool raised one; `ToolRaised` for any other exception of the tool.
            SystemFailure: The tool raised one, could not be imported, or no child can be started.
            ChildTimeout: It did not end in time.
            ChildDied: Its process died: a crash, `os._exit`, or out of memory.
            OutputTooLarge: The result has more than `max_output_bytes`.
            InvalidOutput: The result has no JSON form.
        """
        request: Request = {
            "target": call.target,
            "arguments": call.arguments,
            "context": call.context,
            "max_output_bytes": call.max_output_bytes,
        }
        payload = orjson.dumps(request)
        limit = HEADER.size + call.max_output_bytes + REPLY_ROOM_BYTES
        try:
            async with asyncio.timeout(call.timeout_s):
                child = await self._acquire()
                try:
                    reply = await child.exchange(payload, call_key=call.call_key, limit=limit)
                except BaseException:
                    child.kill()
                    raise
        except TimeoutError:
            raise ChildTimeout(call.timeout_s) from None
        self._release(child)
        return _value_of(reply, call)

    async def _acquire(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.usable:
                return child
        if self._stopping or self._supervisor is None:
            raise ChildUnavailable("the worker stops")
        waiter: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.exception() is None:
                self._offer(waiter.result())
            elif waiter in self._waiters:
                self._waiters.remove(waiter)
            raise

    def _release(self, child: Child) -> None:
        if child.leftovers:
            log.warning("child.left_processes: it is replaced", extra={"pid": child.pid})
        if child.leftovers or child.calls >= self._calls_per_child:
            child.kill()
        else:
            self._offer(child)

    def _offer(self, child: Child) -> None:
        if not child.usable:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(child)
                return
        self._idle.append(child)

    def on_ready(self, child: Child) -> None:
        """Take a new child into service."""
        self._failures = 0
        self._offer(child)

    def on_gone(self, child: Child) -> None:
        """Replace a dead child; slowly, if it never came to serve."""
        self._children.pop(child.number, None)
        if child in self._idle:
            self._idle.remove(child)
        if self._guard is None or self._stopping:
            return
        self._guard.reap(child.number)
        if child.calls:
            self._spawn(self._fork(self._guard))
        else:
            self._note_failure("it ended before its first call")
            self._spawn(self._fork(self._guard, after_s=self._backoff_s()))

    async def _supervise(self) -> None:
        """Keep a guard running until stopped."""
        while not self._stopping:
            try:
                await self._run_guard()
            except OSError as error:
                log.exception("isolation.guard_failed")
                self._note_failure(type(error).__name__)
            else:
                self._note_failure("the guard ended")
            await asyncio.sleep(self._backoff_s())

    async def _run_guard(self) -> None:
        guard = await GuardLink.start(
            lambda control: GuardOptions(
                control=control, preload=self._preload, limits=self._limits
            ),
            environment=self._environment,
            on_report=self._on_report,
        )
        self._guard = guard
        try:
            await guard.gone
        finally:
            self._guard = None
            # A child never outlives its guard; those that were not reported yet are dead too.
            for child in list(self._children.values()):
                child.on_exited(SIGKILLED)
            if not self._stopping:
                log.error("isolation.guard_ended: it is started again")
                await guard.stop(patience_s=STOP_PATIENCE_S)

    def _on_report(self, kind: Report, number: int, value: int) -> None:
        child = self._children.get(number)
        if kind is Report.READY and self._guard is not None:
            for _ in range(self._size):
                self._spawn(self._fork(self._guard))
        elif child is not None and kind is Report.STARTED:
            child.on_started(value)
        elif child is not None and kind is Report.EXITED:
            child.on_exited(value)

    async def _fork(self, guard: GuardLink, *, after_s: float = 0.0) -> None:
        if after_s:
            await asyncio.sleep(after_s)
        if guard is not self._guard or self._stopping:
            return
        self._number += 1
        child = Child(self._number, self)
        self._children[child.number] = child

        def pass_channels(calls: int, output: int) -> None:
            guard.fork(child.number, calls=calls, output=output)

        try:
            await child.connect(pass_channels)
        except OSError as error:
            log.exception("isolation.fork_failed")
            self._children.pop(child.number, None)
            self._note_failure(type(error).__name__)
            self._spawn(self._fork(guard, after_s=self._backoff_s()))

    def _note_failure(self, reason: str) -> None:
        self._failures += 1
        if not any(child.usable for child in self._children.values()) and self._failures > 1:
            self._refuse_waiters(reason)

    def _backoff_s(self) -> float:
        return float(min(BACKOFF_CAP_S, BACKOFF_BASE_S * 2 ** max(0, self._failures - 1)))

    def _refuse_waiters(self, reason: str) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(ChildUnavailable(reason))

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_Refusal = Callable[[Reply, IsolatedCall], Exception]

_REFUSALS: dict[str, _Refusal] = {
    Kind.TOOL_ERROR: lambda reply, _: ToolError(
        reply.get("code", "tool.execution_failed"),
        reply.get("message", ""),
        next_action=reply.get("next_action"),
        structured=reply.get("structured"),
    ),
    Kind.SYSTEM_FAILURE: lambda reply, _: SystemFailure(
        reply.get("code", "tool.internal_error"), reply.get("message", "")
    ),
    Kind.RAISED: lambda reply, _: ToolRaised(reply.get("type", "")),
    Kind.NOT_LOADED: lambda reply, call: ToolNotLoaded(call.target, reply.get("type", "")),
    Kind.NOT_JSON: lambda reply, _: InvalidOutput(reply.get("message", "")),
    Kind.TOO_LARGE: lambda reply, call: OutputTooLarge(reply.get("size", 0), call.max_output_bytes),
}


def _value_of(reply: Reply, call: IsolatedCall) -> JsonValue:
    if reply["kind"] == Kind.VALUE:
        return reply.get("value")
    raise _REFUSALS[reply["kind"]](reply, call)
