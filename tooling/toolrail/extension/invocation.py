"""Run one call's function: async ones on the loop, blocking ones in a thread.

Is: arguments checked, context given, every ending a message. Is not: how many at once, or whether
to start at all (`calls.py`). Above: `calls.py`. Below: `answer.py`, `toolrail.tools`.

A thread cannot be killed: a blocking function that is cancelled, or too late, is only told so
(`context.stopped`), and keeps its slot until it returns.
"""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from toolrail.extension.answer import failure, failure_of, reply_of
from toolrail.extension.bridge import CallId
from toolrail.logs import fields_of
from toolrail.redaction import Holding
from toolrail.tools import Tool, ToolContext, ToolError, ToolOutput
from toolrail_schemas import Caller, ExecuteCall

log = logging.getLogger(__name__)

T = TypeVar("T")


class Invocation:
    """One call at work."""

    def __init__(self, tool: Tool, message: ExecuteCall, *, left_s: float) -> None:
        """Prepare.

        Args:
            tool: Of the call.
            message: The call.
            left_s: Seconds until nobody waits for an answer any more.
        """
        self._tool = tool
        self._message = message
        self._deadline = time.monotonic() + left_s
        self._left_s = left_s
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Tell a blocking function that its answer is not wanted any more."""
        self._stopped.set()

    async def run(self) -> str | None:
        """Return the message to answer with; None when the function was cut off at its deadline.

        Is cancelled to stop an async function; a blocking one runs on to its end.
        """
        call = CallId.of(self._message)
        try:
            with Holding(self._tool.spec, self._message.arguments):
                output = await self._output()
        except _DeadlinePassed:
            log.warning("extension.call_too_late", extra=self._fields())
            return None
        except ToolError as error:
            return failure_of(call, error)
        except Exception as error:  # noqa: BLE001  # the edge to the author's code
            # Whatever it raises ends this call and no other. What it says may quote arguments, so
            # the log has the types and places only.
            log.error("extension.tool_crashed", extra=self._fields() | fields_of(error))
            return failure(call, "The tool failed unexpectedly. Its extension's log says why.")
        return reply_of(call, output)

    async def _output(self) -> ToolOutput:
        arguments, context = dict(self._message.arguments), self._context()
        if not self._tool.is_async:
            return await _in_thread(partial(self._tool.run, arguments, context))
        limit = asyncio.timeout(self._left_s)
        try:
            async with limit:
                return await self._tool.run_async(arguments, context)
        except TimeoutError:
            if limit.expired():
                raise _DeadlinePassed from None
            raise

    def _context(self) -> ToolContext:
        return ToolContext(
            run_id="",
            call_key=self._message.call_key,
            tool=self._tool.spec.name,
            attempt=self._message.attempt,
            caller=Caller.RUNTIME,
            deadline=self._deadline,
            stopped=self._stopped.is_set,
        )

    def _fields(self) -> dict[str, str]:
        return {"tool": self._tool.spec.name, "call_key": self._message.call_key}


class _DeadlinePassed(Exception):
    """The function did not end in its time."""


async def _in_thread(function: Callable[[], T]) -> T:
    """Return what the function returns; its thread does not hold up the end of the process."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        try:
            done = partial(_settle, future, result=function())
        except Exception as error:  # noqa: BLE001  # handed to who waits, whatever it is
            done = partial(_fail, future, error)
        except BaseException as error:  # noqa: BLE001  # a thread cannot end the process
            done = partial(_fail, future, RuntimeError(f"the tool raised {type(error).__name__}"))
        try:
            loop.call_soon_threadsafe(done)
        except RuntimeError:
            # The loop ended first; nobody is left to tell.
            return

    name = "toolrail-extension-call"
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start()
    return await future


def _settle(future: "asyncio.Future[T]", *, result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: Exception) -> None:
    if future.done():
        return
    if isinstance(error, StopIteration):
        # asyncio cannot deliver this one to an awaiting coroutine.
        error = RuntimeError("the tool raised StopIteration")
    future.set_exception(error)
