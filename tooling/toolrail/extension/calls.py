"""Run the calls of one session: a few at once, each answered once.

Is: slots, the queue behind them, cancels, the memory of answers. Is not: Redis (`session.py`) or
the author's function (`invocation.py`). Above: `session.py`. Below: `invocation.py`.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from toolrail.errors import ToolrailError
from toolrail.extension.answer import failure
from toolrail.extension.bridge import CallId
from toolrail.extension.invocation import Invocation
from toolrail.tools import Tool
from toolrail_schemas import ExecuteCall

log = logging.getLogger(__name__)

STOP_S = 5.0
ANSWERS_MAX = 256
ANSWERS_MAX_CHARS = 8 * 1024 * 1024
"""Of the answers that are remembered for a worker that asks again; the oldest go first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A call to execute, and where it came from."""

    message: ExecuteCall
    worker: str
    entry: str
    """Of the session's stream."""


class Line(Protocol):
    """What calls need of their session."""

    async def begin(self, call: CallId, entry: str) -> float:
        """Return the seconds a call has from now; 0 when it must not start any more."""
        ...

    async def reply(self, call: CallId, worker: str, message: str) -> None:
        """The answer is sent, or the session has ended."""
        ...


@dataclass(slots=True, eq=False)
class _Work:
    order: Order
    task: "asyncio.Task[None] | None" = None
    invocation: Invocation | None = None
    is_stopped: bool = False


class Calls:
    """The calls of one session."""

    def __init__(self, tools: Mapping[str, Tool], line: Line, *, concurrency: int) -> None:
        """Prepare.

        Args:
            tools: By the extension's own name.
            line: To the workers.
            concurrency: Functions at work at once.
        """
        self._tools = tools
        self._line = line
        self._slots = concurrency
        self._queue: deque[_Work] = deque()
        self._works: dict[CallId, _Work] = {}
        """Queued and running."""
        self._answers = Answers()
        self._resending: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._is_closing = False

    def execute(self, order: Order) -> None:
        """The call will be answered; one that was asked for before is not run again.

        During the goodbye nothing new is begun; the worker learns of it when the session ends.
        """
        if self._is_closing:
            return
        call = CallId.of(order.message)
        known = self._answers.get(call)
        if known is not None:
            task = asyncio.get_running_loop().create_task(self._send(call, order, known))
            self._resending.add(task)
            task.add_done_callback(self._resending.discard)
        elif call not in self._works:
            work = self._works[call] = _Work(order)
            self._queue.append(work)
            self._idle.clear()
            self._fill()

    def cancel(self, call: CallId) -> None:
        """A queued call is forgotten, a running one is told to stop."""
        work = self._works.get(call)
        if work is None:
            return
        if work.task is None:
            self._queue.remove(work)
            self._forget(call)
        else:
            self._stop(work)

    async def finish(self, grace_s: float) -> None:
        """Queued calls are dropped; running ones may end in the grace, then they are stopped."""
        self._is_closing = True
        for work in list(self._queue):
            self.cancel(CallId.of(work.order.message))
        try:
            async with asyncio.timeout(grace_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("extension.cuts_calls", extra={"running": len(self._works)})
        await self.stop()

    async def stop(self) -> None:
        """No function is at work any more, except blocking ones, which cannot be stopped."""
        self._is_closing = True
        self._queue.clear()
        tasks = [work.task for work in self._works.values() if work.task is not None]
        for work in self._works.values():
            self._stop(work)
        pending = {*tasks, *self._resending}
        for task in pending:
            task.cancel()
        if pending:
            # A function may ignore its cancellation; the session ends all the same.
            await asyncio.wait(pending, timeout=STOP_S)

    def _stop(self, work: _Work) -> None:
        work.is_stopped = True
        if work.invocation is not None:
            work.invocation.stop()
        tool = self._tools.get(work.order.message.tool)
        if work.task is not None and (tool is None or tool.is_async):
            work.task.cancel()

    def _fill(self) -> None:
        running = len(self._works) - len(self._queue)
        while self._queue and running < self._slots:
            work = self._queue.popleft()
            work.task = asyncio.get_running_loop().create_task(self._run(work))
            # Not a `finally` in the task: one that is cancelled before its first step has none.
            work.task.add_done_callback(partial(self._note_end, work))
            running += 1

    def _note_end(self, work: _Work, task: "asyncio.Task[None]") -> None:
        self._forget(CallId.of(work.order.message))
        self._fill()

    async def _run(self, work: _Work) -> None:
        order, call = work.order, CallId.of(work.order.message)
        try:
            answer = await self._answer(work, call)
            if answer is not None:
                self._answers.keep(call, answer)
                await self._send(call, order, answer)
        except ToolrailError as error:
            # Redis refuses for good; the worker's deadline settles the call.
            log.warning("extension.call_lost", extra={"call": str(call), "reason": error.message})

    async def _answer(self, work: _Work, call: CallId) -> str | None:
        order = work.order
        left_s = await self._line.begin(call, order.entry)
        if left_s <= 0 or work.is_stopped:
            log.info("extension.call_withdrawn", extra={"call": str(call)})
            return None
        tool = self._tools.get(order.message.tool)
        if tool is None:
            return failure(call, f"This extension has no tool {order.message.tool!r}.")
        work.invocation = Invocation(tool, order.message, left_s=left_s)
        return await work.invocation.run()

    async def _send(self, call: CallId, order: Order, answer: str) -> None:
        await self._line.reply(call, order.worker, answer)

    def _forget(self, call: CallId) -> None:
        self._works.pop(call, None)
        if not self._works:
            self._idle.set()


class Answers:
    """The last answers, within bounds."""

    def __init__(self) -> None:
        self._kept: OrderedDict[CallId, str] = OrderedDict()
        self._chars = 0

    def get(self, call: CallId) -> str | None:
        """Return the answer given to a call; None when there is none, or no longer."""
        return self._kept.get(call)

    def keep(self, call: CallId, answer: str) -> None:
        """Remember an answer; the oldest ones make room."""
        self._kept[call] = answer
        self._chars += len(answer)
        while len(self._kept) > ANSWERS_MAX or self._chars > ANSWERS_MAX_CHARS:
            _, oldest = self._kept.popitem(last=False)
            self._chars -= len(oldest)
