"""One event loop in one thread, for a program whose main thread belongs to somebody else.

Is: start, stop and hand work over; the loop is uvloop's. Is not: what runs on it.
Above: `pool.py`. Below: uvloop, threading.
"""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import TypeVar

import uvloop

Result = TypeVar("Result")


class LoopThread:
    """A running event loop of its own.

    Attributes:
        loop: The loop; only `call_soon` and `submit` may be used from other threads.
    """

    def __init__(self, name: str) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Run the callback on the loop; nothing happens once it is stopped."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(callback)

    def submit(
        self, work: Coroutine[object, object, Result]
    ) -> "concurrent.futures.Future[Result]":
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def answers(self, *, patience_s: float) -> bool:
        """Return whether the loop still runs what is handed to it."""
        answered = threading.Event()
        self.call_soon(answered.set)
        return answered.wait(patience_s)

    def stop(self, *, patience_s: float) -> None:
        """End the loop, cancelling what still runs; give up waiting after a while."""
        self.call_soon(self.loop.stop)
        self._thread.join(patience_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._cancel_the_rest()
            self.loop.close()

    def _cancel_the_rest(self) -> None:
        rest = asyncio.all_tasks(self.loop)
        for task in rest:
            task.cancel()
        if rest:
            self.loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
