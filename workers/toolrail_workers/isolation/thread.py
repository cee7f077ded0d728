"""Run our own short blocking functions in a bounded number of threads.

Is: for file and store work that Toolrail itself wrote. Is not: for anybody else's code. **A
thread cannot be killed**: when its caller stops waiting, the function runs on, and its slot is
counted as leaked until it returns. With every slot leaked, new work is refused at once.
Above: the builtin executor. Below: daemon threads, which do not hold up the end of the process.
"""

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from toolrail.errors import SystemFailure

Result = TypeVar("Result")
_Job = Callable[[], None]


class ThreadsExhausted(SystemFailure):
    """Every thread is stuck in work that nobody waits for any more. Restart the worker."""

    def __init__(self, slots: int) -> None:
        super().__init__("tool.internal_error", f"All {slots} threads are stuck")
        self.args = (slots,)


class ThreadRunner:
    """At most `slots` functions at once; the rest wait in line. Belongs to one event loop.

    Attributes:
        leaked: How many slots run work whose caller gave up.
    """

    def __init__(self, slots: int) -> None:
        self.leaked = 0
        self._slots = slots
        self._free = asyncio.Semaphore(slots)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._idle = 0

    async def run(self, function: Callable[[], Result]) -> Result:
        """Return what the function returns; context variables do not cross.

        A caller that is cancelled stops waiting at once; the function does not stop.

        Raises:
            ThreadsExhausted: Every slot is leaked.
        """
        if self.leaked >= self._slots:
            raise ThreadsExhausted(self._slots)
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        outcome: concurrent.futures.Future[Result] = concurrent.futures.Future()
        outcome.add_done_callback(lambda _: _post(loop, self._on_return))
        self._submit(partial(_complete, outcome, function))
        try:
            return await asyncio.wrap_future(outcome)
        except asyncio.CancelledError:
            if not outcome.done():
                self.leaked += 1
                outcome.add_done_callback(lambda _: _post(loop, self._on_leak_ended))
            raise

    def close(self) -> None:
        """Let idle threads end; busy ones end after their work, or with the process."""
        for _ in range(self._threads):
            self._jobs.put(None)
        self._threads = 0
        self._idle = 0

    def _submit(self, job: _Job) -> None:
        self._jobs.put(job)
        if self._idle:
            self._idle -= 1
            return
        self._threads += 1
        name = f"toolrail-thread-{self._threads}"
        threading.Thread(target=_work, args=(self._jobs,), name=name, daemon=True).start()

    def _on_return(self) -> None:
        self._idle += 1
        self._free.release()

    def _on_leak_ended(self) -> None:
        self.leaked -= 1


def _complete(outcome: "concurrent.futures.Future[Result]", function: Callable[[], Result]) -> None:
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except StopIteration:
        # asyncio cannot deliver this one to an awaiting coroutine.
        outcome.set_exception(RuntimeError("the function raised StopIteration"))
    except BaseException as error:  # noqa: BLE001  # handed to the caller, whatever it is
        outcome.set_exception(error)
    else:
        outcome.set_result(result)


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop ended while a leaked thread was still at work: nobody is left to tell.
        return


def _work(jobs: "queue.SimpleQueue[_Job | None]") -> None:
    while (job := jobs.get()) is not None:
        job()
