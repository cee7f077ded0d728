"""Dramatiq: eight worker threads, Redis results. Run as a program, see `contender.py`.

Is: the queue as `race.py` sees it. Is not: what is measured. Above: `contender.py`. Below:
dramatiq.
Tuned: eight threads, its default and the fastest; its results are polled with a back-off, which is
the only way it has.
"""

# pyright: basic, reportMissingImports=false
# Runs in the environment of this queue, where no type checker looks.

import signal
from typing import Any, cast

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from tests.bench.contender import contend_blocking
from tests.bench.phases import PATIENCE_S, Payload


def echo(payload: Payload) -> Payload:
    """Give back what came."""
    return payload


def make_broker(url: str) -> tuple[Any, Any, Any]:
    """Return the broker, its results and the actor."""
    backend = RedisBackend(url=url)
    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=backend))
    return broker, backend, dramatiq.actor(broker=broker, store_results=True)(echo)


class Client:
    """Dramatiq's own API."""

    def __init__(self, url: str) -> None:
        _, self._backend, self._actor = make_broker(url)

    def send(self, payload: Payload) -> object:
        return cast("object", self._actor.send(payload))

    def result(self, handle: object) -> object:
        return cast("Any", handle).get_result(
            backend=self._backend, block=True, timeout=int(PATIENCE_S * 1000)
        )


def work(url: str) -> None:
    """Be the worker."""
    broker, _, _ = make_broker(url)
    worker = dramatiq.Worker(broker, worker_threads=8)
    worker.start()
    signal.sigwait({signal.SIGTERM})
    worker.stop(timeout=1000)


if __name__ == "__main__":
    contend_blocking(Client, work)
