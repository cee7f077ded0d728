"""Everything private that we need of Celery and kombu, in one place.

Is: with `consumer.py` and `transport.py` the only module that touches names Celery does not
promise: the worker's state flags, its books of messages in work, signals, the `-P` option.
Is not: decisions; those are in `pool.py` and `app.py`.
Above: `app.py`, `pool.py`, `consumer.py`, `transport.py`. Below: Celery 5.7, kombu 5.7.

`tests/component/test_celery_contract.py` fails loudly when an upgrade moves one of them.
"""

import logging
import signal
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, cast

import click
from celery import Celery, bootsteps, concurrency, signals
from celery.concurrency import get_implementation
from celery.concurrency.base import BasePool
from celery.exceptions import (
    SecurityWarning,
    WorkerShutdown,
)
from celery.signals import setup_logging, worker_ready
from celery.worker import state
from celery.worker.components import Pool as PoolStep
from kombu.asynchronous import Hub, get_event_loop

from toolrail.logs import set_up_logging
from toolrail.redis_version import read_version
from toolrail.settings import Settings
from toolrail_workers.port import RuntimeFactory, RuntimePort

__all__ = ["BasePool", "Hub", "WorkerApp"]

log = logging.getLogger(__name__)

EX_FAILURE = 1


class WorkerApp(Celery):
    """The Celery app, with what the pool needs of ours.

    Attributes:
        settings: The settings of this process.
        create_runtime: Makes the runtime, on the pool's event loop.
        runtime: What it made last; None before the worker starts.
    """

    settings: Settings
    create_runtime: RuntimeFactory
    runtime: RuntimePort | None = None

    def send_task(self, *args: Any, **options: Any) -> Any:
        """Send a task whose arguments are not repeated in its headers, where logs pick them up."""
        return super().send_task(*args, **{"argsrepr": "()", "kwargsrepr": "{}"} | options)


class CeleryWorker(Protocol):
    """What this module asks of Celery's worker object."""

    exitcode: int | None

    def start(self) -> None:
        """Run until the worker ends."""
        ...


class ColdPool(Protocol):
    """What this module asks of our pool."""

    def go_cold(self) -> None:
        """Stop waiting for running calls. Called in a signal handler: only sets a flag."""
        ...


def count_reserved() -> int:
    """Return how many messages this process has in work, over all its connections."""
    return len(state.reserved_requests)


def is_stopping() -> bool:
    """Return whether the worker was told to end."""
    return _is_set(state.should_stop) or _is_set(state.should_terminate)


def _is_set(flag: object) -> bool:
    # 0 is a set flag: it is the exit code.
    return flag is not None and flag is not False


def _set_flags(**flags: int) -> None:
    """Tell Celery's loops to end with an exit code; they look between two iterations."""
    for name, exit_code in flags.items():
        setattr(state, name, exit_code)


def request_stop(exit_code: int) -> None:
    """Have the worker drain and end; the hub sees it within a second. Any thread."""
    if not is_stopping():
        _set_flags(should_stop=exit_code)


def run_timers() -> None:
    """Run the hub's timers, such as heartbeats, while its loop stands still during a drain."""
    hub = get_event_loop()
    if hub is not None:
        hub.fire_timers()


def die(sentence: str) -> NoReturn:
    """End the program before the worker runs, with one sentence and exit code 1."""
    raise SystemExit(sentence)


def abort_start(exit_code: int) -> NoReturn:
    """Leave the worker's start from within; Celery then stops what it had started."""
    raise WorkerShutdown(exit_code)


def log_our_way(settings: Settings) -> None:
    """Have Celery leave logging to us: one format for a worker, however it is started.

    `-l` can only make a worker say more than TOOLRAIL_LOG_LEVEL; `-f` is ignored.
    """

    def on_setup(loglevel: int | None = None, **_: object) -> None:
        if logging.getLogger().handlers:
            # `toolrail worker` has set it up before.
            return
        usual = logging.getLevelNamesMapping()[settings.log_level.upper()]
        lowest = min(usual, loglevel or usual)
        set_up_logging(logging.getLevelName(lowest), settings.log_format)

    signals.setup_logging.connect(on_setup, weak=False, dispatch_uid="toolrail")


class PoolCheck(bootsteps.Step):
    """Refuses to start with a pool that is not ours.

    Celery replaces `-P prefork` silently by the configured pool; we say it instead, because who
    asks for a pool has a reason that will not be met.
    """

    SENTENCE = (
        "Toolrail workers run on their own asyncio pool (toolrail_workers.pool:AsyncioPool): "
        "start the worker without -P/--pool."
    )
    NO_LOOP = (
        "Toolrail workers need a broker that kombu can wait for in an event loop: "
        "set TOOLRAIL_BROKER_URL to Redis or RabbitMQ, or leave it out."
    )

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        wanted = get_implementation(parent.app.conf.worker_pool)
        if not issubclass(parent.pool_cls, wanted) or _asked_for_other_pool(wanted):
            die(self.SENTENCE)
        if not parent.use_eventloop:
            die(self.NO_LOOP)


def _asked_for_other_pool(wanted: type[BasePool]) -> bool:
    context = click.get_current_context(silent=True)
    if context is None or "pool" not in context.params:
        return False
    source = context.get_parameter_source("pool")
    explicit = {click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT}
    # `-P custom` with our pool in CELERY_CUSTOM_WORKER_POOL is the one explicit way that fits.
    custom = cast("str | None", vars(concurrency)["ALIASES"]["custom"])
    return source in explicit and (not custom or get_implementation(custom) is not wanted)


class ShutdownSignals(bootsteps.StartStopStep):
    """SIGTERM drains; a second one, a second Ctrl-C, or SIGQUIT goes cold.

    Celery's own handlers for a cold shutdown stop the pool inside the signal handler, on top of
    whatever the main thread was doing. These only set flags.
    """

    requires = (PoolStep,)

    def start(self, parent: Any) -> None:
        """Take the three signals over, if this is the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return
        pool = cast(ColdPool, parent.pool)

        def cold() -> None:
            parent.exitcode = EX_FAILURE
            _set_flags(should_terminate=EX_FAILURE)
            pool.go_cold()

        def warm_then_cold(exit_code: int) -> Callable[[int, object], None]:
            def handle(_number: int, _frame: object) -> None:
                if is_stopping():
                    cold()
                else:
                    _set_flags(should_stop=exit_code)

            return handle

        signal.signal(signal.SIGTERM, warm_then_cold(0))
        signal.signal(signal.SIGINT, warm_then_cold(EX_FAILURE))
        signal.signal(signal.SIGQUIT, lambda _number, _frame: cold())


def refuse_old_redis(connection: Any) -> None:
    """Return if the broker is no Redis, or new enough.

    Raises:
        RedisTooOld: It is older than 7.0, which has no BLMPOP and no script flags.
    """
    if connection.transport.driver_type != "redis":
        return
    channel = connection.default_channel
    try:
        with channel.conn_or_acquire() as client:
            info = client.info("server")
    except channel.ResponseError:
        # A server that keeps INFO from us; its scripts will tell.
        return
    read_version(info)


def run_worker(
    app: WorkerApp, *, queues: Sequence[str], name: str, on_ready: Callable[[], None]
) -> int:
    """Run a worker on this thread until it ends; return its exit code.

    Args:
        app: From `create_app`.
        queues: What it consumes.
        name: `something@host`, unique among running workers.
        on_ready: Called once the runtime has started and the queues are consumed.
    """

    def tell_ready(**_signal: object) -> None:
        on_ready()

    def keep_logging(**_signal: object) -> None:
        """Stand for a set-up of logging: with a receiver, Celery makes none of its own."""

    worker_ready.connect(tell_ready)
    setup_logging.connect(keep_logging)
    # Celery warns root because of pickle, which we do not accept; `toolrail worker` warns itself.
    warnings.simplefilter("ignore", SecurityWarning)
    # Not `app.worker_main`: that loses the exit code.
    worker = cast("CeleryWorker", app.Worker(hostname=name, queues=list(queues), quiet=True))
    try:
        worker.start()
    except SystemExit as end:
        if not isinstance(end.code, str):
            return end.code or 0
        log.critical("worker.start_refused: %s", end.code)
        return EX_FAILURE
    return worker.exitcode or 0
