"""Celery: prefork with two children, its Redis backend. Run as a program, see `contender.py`.

Is: the queue as `race.py` sees it. Is not: what is measured. Above: `contender.py`. Below: celery.
Tuned: JSON, logging at WARNING, no gossip, mingle, heartbeat or events.
"""

# pyright: basic, reportMissingImports=false
# Runs in the environment of this queue, where no type checker looks.

from typing import cast

from celery import Celery

from tests.bench.contender import contend_blocking
from tests.bench.phases import PATIENCE_S, Payload


def echo(payload: Payload) -> Payload:
    """Give back what came."""
    return payload


def make_app(url: str) -> Celery:
    """Return the app with its one task."""
    app = Celery("bench", broker=url, backend=url)
    app.conf.update(
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
    )
    app.task(name="echo")(echo)
    return app


class Client:
    """Celery's own API."""

    def __init__(self, url: str) -> None:
        self._task = make_app(url).tasks["echo"]

    def send(self, payload: Payload) -> object:
        return self._task.apply_async((payload,))

    def result(self, handle: object) -> object:
        return cast("object", handle.get(timeout=PATIENCE_S))  # type: ignore[attr-defined]


def work(url: str) -> None:
    """Be the worker."""
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "-l", "WARNING")
    make_app(url).worker_main(["worker", "-P", "prefork", "-c", "2", *quiet])


if __name__ == "__main__":
    contend_blocking(Client, work)
