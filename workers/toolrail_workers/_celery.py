"""Everything private that we need of Celery and kombu, in one place.

Is: the only module, with `transport.py`, that touches names Celery does not promise: the consumer
subclass, the worker's state flags, the hub's queue of acknowledgements, signals, the `-P` option.
Is not: decisions; those are in `pool.py` and `app.py`.
Above: `app.py`, `pool.py`, `transport.py`. Below: Celery 5.7, kombu 5.7.

`tests/component/test_celery_contract.py` fails loudly when an upgrade moves one of them.
"""

import logging
import signal
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, cast

import click
from billiard.einfo import ExceptionInfo
from celery import Celery, bootsteps, concurrency, signals
from celery.concurrency import get_implementation, prefork
from celery.concurrency.base import BasePool
from celery.exceptions import (
    CPendingDeprecationWarning,
    Reject,
    SecurityWarning,
    Terminated,
    WorkerShutdown,
)
from celery.signals import setup_logging, worker_ready
from celery.worker import state
from celery.worker.components import Pool as PoolStep
from celery.worker.consumer import Consumer
from kombu.asynchronous import Hub, get_event_loop
from kombu.common import ignore_errors
from kombu.message import Message
from vine import promise

from toolrail.errors import RedisTooOld
from toolrail.logs import set_up_logging
from toolrail.redis_version import read_version
from toolrail.settings import Settings
from toolrail_workers.port import RuntimeFactory, RuntimePort

__all__ = ["BasePool", "Hub", "WorkerApp"]

log = logging.getLogger(__name__)

EX_FAILURE = 1

RUN_READY_CALLBACKS = cast("Callable[[Hub], None]", vars(prefork)["_run_ready_callbacks"])
"""Runs the acknowledgements, and only those, that wait for the hub."""


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


class DoorbellPool(Protocol):
    """What this module asks of our pool."""

    def note_invalid(self, reason: str) -> None:
        """Count a message that is no doorbell."""
        ...

    def note_consumer(self, consumer: "DoorbellConsumer") -> None:
        """Hear who takes messages, before it takes the first of a connection."""
        ...

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


def run_ready_acks() -> None:
    """Run acknowledgements that wait for the hub's loop, which stands still during a drain."""
    hub = get_event_loop()
    if hub is not None:
        hub.fire_timers()
        RUN_READY_CALLBACKS(hub)


def terminated_error() -> ExceptionInfo:
    """Return what a request expects when its job was cancelled on order."""
    return _error_info(Terminated(signal.SIGTERM))


def returned_error() -> ExceptionInfo:
    """Return what makes a request put its message back into the queue."""
    return _error_info(Reject(requeue=True))


def _error_info(error: Exception) -> ExceptionInfo:
    try:
        raise error
    except type(error):
        return ExceptionInfo()


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
        pool = cast(DoorbellPool, parent.pool)

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


class DoorbellConsumer(Consumer):
    """Celery's consumer without its chatter, and without its ways to die of a bad message."""

    connection_errors: tuple[type[Exception], ...]
    task_consumer: object | None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Celery's line for every received task says nothing that the ledger does not, and its
        # advice after every lost connection is about a setting that we have set.
        logging.getLogger("celery.worker.strategy").setLevel(logging.WARNING)
        warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
        # Plain `celery worker` has no settings for these, only options; so they are set here.
        options: Mapping[str, object] = kwargs.get("worker_options") or {}
        quiet = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}
        kwargs.update(task_events=False, worker_options={**options, **quiet})
        super().__init__(*args, **kwargs)
        self._served = tuple(self.app.amqp.queues.consume_from)
        # What lets Celery reconnect; KeyError is in kombu's list, but in a handler it is a message
        # without a key.
        self._reconnecting = tuple(
            kind for kind in self.connection_errors if not issubclass(KeyError, kind)
        )

    def connect(self) -> Any:
        """Return a connection to a broker that is new enough."""
        connection = super().connect()
        try:
            refuse_old_redis(connection)
        except RedisTooOld as error:
            log.critical("worker.start_refused: %s", error.message)
            ignore_errors(connection, connection.close)
            abort_start(EX_FAILURE)
        except self.connection_errors:
            # Celery does not know this connection yet, so it would not close it.
            ignore_errors(connection, connection.close)
            raise
        return connection

    def register_with_event_loop(self, hub: Hub) -> None:
        """Tell the pool, which may want no messages from this connection."""
        super().register_with_event_loop(hub)
        cast(DoorbellPool, self.pool).note_consumer(self)

    def set_consuming(self, *, wanted: bool) -> None:
        """Consume the queues of this worker, or none; hub thread.

        Celery keeps it over reconnects. Messages that a last pop brings go back to their queue.
        """
        if self.task_consumer is None:
            # Between two connections: the next one asks again.
            return
        for queue in self._served:
            if not wanted:
                self.cancel_task_queue(queue)
            elif queue not in self.app.amqp.queues.consume_from:
                self.add_task_queue(queue)

    def create_task_handler(self, promise: type[promise] = promise) -> Callable[[Message], None]:
        """Return Celery's handler, which no message can make raise."""
        handle = super().create_task_handler(promise)

        def guarded(message: Message) -> None:
            try:
                handle(message)
            except self._reconnecting:
                raise
            except Exception as error:  # noqa: BLE001  # the edge: a message from outside
                self._drop(message, type(error).__name__)

        return guarded

    def on_unknown_message(self, body: object, message: Message) -> None:
        """Drop what is no task message."""
        self._drop(message, "no task message")

    def on_unknown_task(self, body: object, message: Message, exc: Exception) -> None:
        """Drop a task that is not ours."""
        self._drop(message, "not task toolrail.call")

    def on_invalid_task(self, body: object, message: Message, exc: Exception) -> None:
        """Drop a task message that Celery cannot read."""
        self._drop(message, type(exc).__name__)

    def on_decode_error(self, message: Message, exc: Exception) -> None:
        """Drop a body that is not JSON."""
        self._drop(message, type(exc).__name__)

    def _drop(self, message: Message, reason: str) -> None:
        cast(DoorbellPool, self.pool).note_invalid(reason)
        if not message.acknowledged:
            message.reject_log_error(log, self.connection_errors)


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
