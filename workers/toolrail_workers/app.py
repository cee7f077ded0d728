"""The Celery app of a worker: `celery -A toolrail_workers.app worker -Q mcp`.

Is: one task name, three queues, and every setting of Celery that Toolrail relies on. Is not: a
way to send calls (`toolrail.client`), nor the running of one (`runtime.py`).
Above: `celery`, `toolrail worker`, `toolrail up`. Below: `pool.py`, `transport.py`, `_celery.py`.

What a worker does not do, however it is started: results, events, remote control, gossip, mingle,
Celery heartbeats, ETA, rate limits, retries. Options that would switch them on (`-E`,
`--without-...`) have no effect; `-P` is refused; `-B` (beat) is not prevented, and useless.
"""

from collections.abc import Sequence
from typing import cast

from kombu import Exchange, Queue
from kombu.utils.imports import symbol_by_name

from toolrail import exit_codes
from toolrail.cli.failures import tell_error
from toolrail.doorbell import QUEUES, TASK
from toolrail.errors import ConfigError
from toolrail.redaction import know
from toolrail.settings import Settings
from toolrail_workers import transport
from toolrail_workers._celery import (
    PoolCheck,
    ShutdownSignals,
    WorkerApp,
    log_our_way,
)
from toolrail_workers.broker import Broker, find_broker
from toolrail_workers.consumer import DoorbellConsumer
from toolrail_workers.port import PoolControl, RuntimeFactory, RuntimePort

TRANSPORT = transport.Transport
"""Imported for its entry in kombu's table of transports."""

RUNTIME = "toolrail_workers.runtime:create_runtime"
NEVER = 0


def create_app(settings: Settings, *, runtime: str = RUNTIME) -> WorkerApp:
    """Return the Celery app of one worker process.

    Args:
        settings: Decides broker, prefix, slots and the time to drain.
        runtime: `module:function` that makes the runtime; see `port.RuntimeFactory`.
    """
    celery = WorkerApp("toolrail", set_as_current=False)
    celery.settings = settings
    know(settings.secrets())
    celery.create_runtime = _late_factory(celery, runtime)
    celery.conf.update(_work_settings(settings), **_broker_settings(find_broker(settings)))
    celery.steps["worker"].update({PoolCheck, ShutdownSignals})
    log_our_way(settings)
    celery.task(name=TASK, shared=False)(refuse_to_run)
    return celery


def _late_factory(app: WorkerApp, name: str) -> RuntimeFactory:
    """Return the factory, imported when a worker starts and not when somebody wants the app."""

    def create(settings: Settings, sources: Sequence[str], control: PoolControl) -> RuntimePort:
        factory = cast(RuntimeFactory, symbol_by_name(name))
        app.runtime = factory(settings, sources, control)
        return app.runtime

    return create


def refuse_to_run(**_doorbell: object) -> None:
    """Stand for the task's name; the pool runs calls itself and never this body.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        f"{TASK} was run by a pool that is not toolrail_workers.pool:AsyncioPool. "
        "Start the worker with `toolrail worker`, or with this app and without -P."
    )


def _work_settings(settings: Settings) -> dict[str, object]:
    return {
        "worker_pool": "toolrail_workers.pool:AsyncioPool",
        "worker_consumer": f"{DoorbellConsumer.__module__}:{DoorbellConsumer.__qualname__}",
        "worker_concurrency": settings.slots,
        # One message per slot and none in reserve: what waits, waits where every worker sees it.
        "worker_prefetch_multiplier": 1,
        "worker_disable_rate_limits": True,
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_redirect_stdouts": False,
        # Fencing decides what happens to running calls, not the broker's socket.
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "worker_soft_shutdown_timeout": NEVER,
        "accept_content": ["json"],
        "task_serializer": "json",
        "event_serializer": "json",
        "result_backend": None,
        "task_ignore_result": True,
        "task_store_errors_even_if_ignored": False,
        # Late, so that a message counts against the prefetch of AMQP as long as its call runs.
        "task_acks_late": True,
        "task_acks_on_failure": True,
        "task_acks_on_timeout": True,
        "task_publish_retry": False,
        "task_create_missing_queues": False,
        "task_default_queue": QUEUES[0],
    }


def _broker_settings(broker: Broker) -> dict[str, object]:
    exchange = Exchange("", type="direct")
    return {
        "broker_url": broker.url,
        "broker_transport": broker.transport,
        "broker_transport_options": broker.options,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_channel_error_retry": True,
        "broker_connection_timeout": 5,
        "broker_heartbeat": 20,
        # Our own transport counts slots over all connections; Celery's reduction is for the rest.
        "worker_enable_prefetch_count_reduction": not broker.batch,
        # The anonymous exchange routes by queue name: there are no bindings to lose.
        "task_queues": [Queue(name, exchange, routing_key=name, durable=True) for name in QUEUES],
        "task_default_exchange": "",
        "task_default_routing_key": QUEUES[0],
    }


def __getattr__(name: str) -> WorkerApp:
    """Make `app` when Celery asks for it, so that importing this module reads no environment.

    Raises:
        SystemExit: The settings are wrong, which was told. Celery would show a traceback of ours.
    """
    if name != "app":
        raise AttributeError(name)
    try:
        settings = Settings.from_env()
    except ConfigError as error:
        tell_error(error)
        raise SystemExit(exit_codes.CONFIG) from None
    made = create_app(settings)
    globals()["app"] = made
    return made
