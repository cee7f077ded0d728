"""Huey: one worker thread, results announced. Run as a program, see `contender.py`.

Is: the queue as `race.py` sees it. Is not: what is measured. Above: `contender.py`. Below: huey.
Tuned: `notify_result`, so that a waiting caller blocks in Redis and does not poll; one thread,
which was the fastest for work that does not wait.
"""

# pyright: basic, reportMissingImports=false
# Runs in the environment of this queue, where no type checker looks.

from typing import Any, cast

from huey import RedisHuey

from tests.bench.contender import contend_blocking
from tests.bench.phases import PATIENCE_S, Payload


def echo(payload: Payload) -> Payload:
    """Give back what came."""
    return payload


def make_huey(url: str) -> Any:
    """Return the queue."""
    return RedisHuey("bench", url=url, notify_result=True)


class Client:
    """Huey's own API."""

    def __init__(self, url: str) -> None:
        self._task = make_huey(url).task(name="echo")(echo)

    def send(self, payload: Payload) -> object:
        return cast("object", self._task(payload))

    def result(self, handle: object) -> object:
        return cast("Any", handle).get(blocking=True, timeout=PATIENCE_S)


def work(url: str) -> None:
    """Be the worker."""
    huey = make_huey(url)
    huey.task(name="echo")(echo)
    huey.create_consumer(workers=1, worker_type="thread", periodic=False).run()


if __name__ == "__main__":
    contend_blocking(Client, work)
