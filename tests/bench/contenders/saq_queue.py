"""SAQ: ten tasks at once, uvloop. Run as a program, see `contender.py`.

Is: the queue as `race.py` sees it. Is not: what is measured. Above: `contender.py`. Below: saq.
Tuned: results announced by pub/sub (`Job.refresh`) instead of polled every 500 ms. A wait that
began between the end of its job and the subscription hears nothing and is tried again after 1 s.
"""

# pyright: basic, reportMissingImports=false
# Runs in the environment of this queue, where no type checker looks.

import asyncio
import contextlib
import time
from typing import Any, cast

from saq import Queue, Worker

from tests.bench.contender import contend_async
from tests.bench.phases import PATIENCE_S, Payload

AGAIN_S = 1.0


async def echo(_: object, *, payload: Payload) -> Payload:
    """Give back what came."""
    return payload


class Client:
    """SAQ's own API."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    async def send(self, payload: Payload) -> object:
        return cast("object", await self._queue.enqueue("echo", payload=payload, timeout=60))

    async def result(self, handle: object) -> object:
        job = cast("Any", handle)
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            with contextlib.suppress(asyncio.TimeoutError):
                await job.refresh(until_complete=AGAIN_S)
            if job.completed:
                return cast("object", job.result)
        raise TimeoutError


async def connect(url: str) -> Client:
    """Return a client whose worker is up.

    A worker that starts sweeps away, as stuck, what it has just taken.
    """
    queue = Queue.from_url(url)
    await queue.connect()
    client = Client(queue)
    while await client.result(await client.send({"up": True})) is None:
        pass
    return client


async def work(url: str) -> None:
    """Be the worker."""
    queue = Queue.from_url(url)
    await queue.connect()
    await Worker(queue, functions=[("echo", echo)], concurrency=10).start()


if __name__ == "__main__":
    contend_async(connect, work)
