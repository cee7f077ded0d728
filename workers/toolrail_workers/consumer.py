"""Take messages from Celery's consumer and hand them to the pool.

Is: the consumer subclass, what it reads of a message, and a message's way through Celery's books
until it is settled. Is not: what a doorbell means (`pool.py`, `runtime.py`).
Above: Celery, which makes the consumer by the setting `worker_consumer`; `pool.py`. Below: Celery
5.7, kombu 5.7, `_celery.py`.

`tests/component/test_celery_contract.py` fails loudly when an upgrade changes what it relies on.
"""

import logging
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

import orjson
from celery.exceptions import CPendingDeprecationWarning
from celery.worker import state
from celery.worker.consumer import Consumer
from kombu.asynchronous import Hub
from kombu.common import ignore_errors
from kombu.message import Message
from vine import promise

from toolrail.doorbell import TASK
from toolrail.errors import RedisTooOld
from toolrail_workers import _celery

log = logging.getLogger(__name__)


class DoorbellPool(Protocol):
    """What this module asks of our pool."""

    def take(self, fields: object, delivery: "Delivery") -> None:
        """Put a doorbell with these fields in work; its delivery is settled when it is done.

        Raises:
            ValidationError: They are not the fields of a doorbell.
        """
        ...

    def note_invalid(self, reason: str) -> None:
        """Count a message that is no doorbell."""
        ...

    def note_consumer(self, consumer: "DoorbellConsumer") -> None:
        """Hear who takes messages, before it takes the first of a connection."""
        ...


class Delivery:
    """One message in work, in Celery's books until it is settled. Hub thread only."""

    __slots__ = ("__weakref__", "_consumer", "_message")

    def __init__(self, consumer: "DoorbellConsumer", message: Message) -> None:
        self._consumer = consumer
        self._message = message

    def enter(self) -> None:
        """The message is in work now."""
        # Reserved ones are what the slots are counted by, active ones outlive their connection.
        state.reserved_requests.add(self)
        state.active_requests.add(self)

    def acknowledge(self) -> None:
        """The message is done with, however its call ended."""
        self._message.ack_log_error(log, self._consumer.connection_errors)
        self.leave()

    def put_back(self) -> None:
        """The message is in its queue again."""
        self._message.reject_log_error(log, self._consumer.connection_errors, requeue=True)
        self.leave()

    def leave(self) -> None:
        """The message is not in work any more; unless settled, it goes back with its channel."""
        state.reserved_requests.discard(self)
        state.active_requests.discard(self)
        self._consumer.note_settled()


class DoorbellConsumer(Consumer):
    """Celery's consumer without its chatter, and without its ways to die of a bad message."""

    connection_errors: tuple[type[Exception], ...]
    task_consumer: object | None
    # Of Celery's consumer, and unknown to the published type stubs.
    _maximum_prefetch_restored: bool
    if TYPE_CHECKING:

        def _restore_prefetch_count_after_connection_restart(self, p: None) -> None: ...

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
            _celery.refuse_old_redis(connection)
        except RedisTooOld as error:
            log.critical("worker.start_refused: %s", error.message)
            ignore_errors(connection, connection.close)
            _celery.abort_start(_celery.EX_FAILURE)
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
        """Return what hands each message to the pool; no message can make it raise.

        Celery would make a request of each, for features that are all off here, which took a
        tenth of a worker's time.
        """
        take = cast(DoorbellPool, self.pool).take

        def guarded(message: Message) -> None:
            try:
                take(doorbell_fields(message), Delivery(self, message))
            except self._reconnecting:
                raise
            except Exception as error:  # noqa: BLE001  # the edge: a message from outside
                self._drop(message, type(error).__name__)

        return guarded

    def note_settled(self) -> None:
        """Let one more message in, if a lost connection had made Celery ask for fewer."""
        if not self._maximum_prefetch_restored:
            self._restore_prefetch_count_after_connection_restart(None)

    def _drop(self, message: Message, reason: str) -> None:
        cast(DoorbellPool, self.pool).note_invalid(reason)
        if not message.acknowledged:
            message.reject_log_error(log, self.connection_errors)


def doorbell_fields(message: Message) -> object:
    """Return the keyword arguments of our task's message.

    Raises:
        ValueError, LookupError, TypeError: It is another message; a body that is not JSON is
            never read in another way.
    """
    if message.headers["task"] != TASK or message.content_type != "application/json":
        raise ValueError(f"not a message of {TASK}")
    _args, fields, _embedded = orjson.loads(message.body or "")
    return fields
