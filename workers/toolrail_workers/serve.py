"""Run a worker from `toolrail worker`: settings, Redis, then Celery with our app.

Is: what stands before and after Celery: waiting for Redis, the ready line, the exit code. Is not:
the app (`app.py`), nor the running of calls (`runtime.py`).
Above: `commands.py`. Below: `app.py`, `toolrail.cli.start`, `toolrail.supervisor.ready`.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Generator
from contextlib import contextmanager

import typer

from toolrail.cli.options import CommandExit
from toolrail.cli.start import start
from toolrail.errors import RedisUnavailable
from toolrail.metrics.process import ProcessMetrics
from toolrail.metrics.serve import serve_beside
from toolrail.redis_io import check_version, connect
from toolrail.settings import Settings
from toolrail.supervisor.ready import announce_ready
from toolrail.urls import redact_url
from toolrail_workers._celery import run_worker
from toolrail_workers.app import create_app

log = logging.getLogger(__name__)

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 15.0


def serve(
    context: typer.Context,
    *,
    queues: tuple[str, ...],
    slots: int | None,
    name: str | None,
    ready_fd: int | None,
) -> None:
    """Serve the queues until SIGTERM.

    Raises:
        CommandExit: 0 after a drain, else Celery's code.
        ConfigError: A setting is wrong.
        RedisTooOld: No worker can use this server.
    """
    settings = prepare(context, slots=slots)
    if os.geteuid() == 0:
        log.warning("worker.runs_as_root: tools have every right here; start it as another user")
    with showing_why_not_ready(settings):
        asyncio.run(wait_for_redis(settings))
    app = create_app(settings)

    def tell_ready() -> None:
        if ready_fd is not None:
            announce_ready(ready_fd, address=app.runtime.metrics_address if app.runtime else "")

    code = run_worker(
        app,
        queues=queues,
        name=f"{name or '-'.join(queues)}@{socket.gethostname()}",
        on_ready=tell_ready,
    )
    raise CommandExit(code)


def prepare(context: typer.Context, *, slots: int | None) -> Settings:
    """Return the worker's settings.

    Raises:
        ConfigError: A setting is wrong, or there is no secret.
    """
    settings = start(context)
    settings.require_secret()
    return settings if slots is None else settings.model_copy(update={"slots": slots})


@contextmanager
def showing_why_not_ready(settings: Settings) -> Generator[None]:
    """Answer health checks while Redis is waited for: alive, not ready, and nothing to count.

    Otherwise whoever restarts what does not answer would restart a fleet that only waits.
    """
    server = serve_beside(
        ProcessMetrics(build=settings.build).registry,
        host=settings.metrics_host,
        port=settings.metrics_port,
        is_ready=lambda: "The worker waits for Redis.",
        is_told=False,
    )
    try:
        yield
    finally:
        # The worker then serves the same port itself.
        if server is not None:
            server.close()


async def wait_for_redis(settings: Settings) -> None:
    """Return when Redis answers; say once per try that it does not.

    Workers wait for ever: after an outage the fleet must come back without anybody's help, and a
    worker that gives up only moves the waiting to its supervisor.

    Raises:
        RedisTooOld: It answers, and is older than 7.0.
    """
    redis = connect(settings.redis_url, timeout_s=settings.redis_timeout_s, name="toolrail-worker")
    wait_s = FIRST_WAIT_S
    try:
        while True:
            try:
                await check_version(redis, deadline_s=0.0)
            except RedisUnavailable:
                log.warning(
                    "Redis at %s is not reachable; start it or set TOOLRAIL_REDIS_URL. "
                    "Next try in %g s.",
                    redact_url(settings.redis_url),
                    wait_s,
                )
            else:
                return
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)
    finally:
        await redis.aclose()
