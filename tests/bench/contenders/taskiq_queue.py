"""Taskiq: a Redis stream, 100 tasks at once, uvloop. Run as a program, see `contender.py`.

Is: the queue as `race.py` sees it. Is not: what is measured. Above: `contender.py`. Below: taskiq.
Tuned: the stream broker, its fastest; results polled every 5 ms instead of every 200.
"""

# pyright: basic, reportMissingImports=false
# Runs in the environment of this queue, where no type checker looks.

from typing import Any, cast

from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from tests.bench.contender import contend_async
from tests.bench.phases import PATIENCE_S, Payload

POLL_S = 0.005


async def echo(payload: dict[str, Any]) -> dict[str, Any]:
    """Give back what came."""
    return payload


def make_broker(url: str) -> tuple[Any, Any]:
    """Return the broker and its one task."""
    broker = RedisStreamBroker(url).with_result_backend(RedisAsyncResultBackend(url))
    return broker, broker.register_task(echo, task_name="echo")


class Client:
    """Taskiq's own API."""

    def __init__(self, task: Any) -> None:
        self._task = task

    async def send(self, payload: Payload) -> object:
        return cast("object", await self._task.kiq(payload))

    async def result(self, handle: object) -> object:
        done = await cast("Any", handle).wait_result(check_interval=POLL_S, timeout=PATIENCE_S)
        return cast("object", done.return_value)


async def connect(url: str) -> Client:
    """Return a client; the stream's group exists afterwards, so that no call is sent past it."""
    broker, task = make_broker(url)
    await broker.startup()
    return Client(task)


async def work(url: str) -> None:
    """Be the worker."""
    broker, _ = make_broker(url)
    await run_receiver_task(broker, max_async_tasks=100, run_startup=True)


if __name__ == "__main__":
    contend_async(connect, work)
