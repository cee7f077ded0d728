"""Pop many doorbells from Redis in one round trip.

Is: kombu's Redis transport with BLMPOP in place of BRPOP, and a quality of service that counts
free slots. Is not: a place where a message is safe: a batch that is lost on its way only makes
its calls late, because the ledger is the truth and the reaper rings again.
Above: `app.py` names it as the broker transport. Below: kombu 5.7, `_celery.py` for the counts.

Overrides two private methods of kombu, `_brpop_start` and `_brpop_read`; they differ from the
originals only where many messages differ from one. `tests/component/test_celery_contract.py`
fails when an upgrade changes the originals or what they rely on.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from queue import Empty
from typing import TYPE_CHECKING, Protocol, cast

import orjson
from kombu import Connection
from kombu.asynchronous import Hub
from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from kombu.utils.encoding import bytes_to_str

from toolrail_workers import _celery
from toolrail_workers.broker import BATCH_ALIAS

log = logging.getLogger(__name__)

BATCH = 64
"""Most doorbells of one pop. More would starve idle workers of a short queue."""


@dataclass(slots=True)
class PopMeter:
    """What this process popped so far; written by the consuming thread only."""

    pops: int = 0
    messages: int = 0
    invalid: int = 0
    last_reply_at: float | None = None


METER = PopMeter()
"""One consumer per process, so one meter per process."""


class QueueCycle(Protocol):
    """kombu's order of queues, fair by rotation."""

    def consume(self, n: int) -> list[str]:
        """Return the next `n` queues to pop from."""
        ...

    def rotate(self, last_used: str) -> None:
        """Move a queue that gave something to the end."""
        ...


class DoorbellQoS(virtual.QoS):
    """Lets in as many messages as there are free slots, over all connections of this process.

    kombu counts per channel and forgets with it; calls that outlive their connection would then
    not count, and each reconnect would let in another full load.
    """

    channel: "Channel"  # pyright: ignore[reportIncompatibleVariableOverride]  # it is ours

    if TYPE_CHECKING:

        def _flush(self) -> None: ...

    @property
    def unacked(self) -> "dict[str, virtual.Message]":
        """The messages of this channel that were not acknowledged, by delivery tag."""
        return cast("dict[str, virtual.Message]", self._delivered)

    @property
    def free(self) -> int:
        """How many messages may come in now."""
        return max(0, self.prefetch_count - _celery.count_reserved())

    def can_consume(self) -> bool:
        """Return whether there is a free slot."""
        return not self.prefetch_count or self.free > 0

    def can_consume_max_estimate(self) -> int:
        """Return the number of free slots."""
        return self.free if self.prefetch_count else BATCH

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Forget the message, or put it back where it would be popped next."""
        if requeue and delivery_tag in self.unacked:
            self.channel.put_back([self.unacked[delivery_tag]])
        self.ack(delivery_tag)

    def restore_unacked(self) -> None:
        """Put back what this worker will not do any more.

        Only when it ends. After a lost connection the calls go on in this process, and a second
        doorbell for each of them would be noise.
        """
        self._flush()
        messages = list(self.unacked.values())
        self.unacked.clear()
        if messages and _celery.is_stopping():
            self.channel.put_back(messages)


class Channel(redis.Channel):
    """A Redis channel that pops in batches and does not emulate acknowledgements."""

    ack_emulation = False

    # Of kombu's channel, and unknown to the published type stubs.
    connection_errors: tuple[type[Exception], ...]
    _queue_cycle: "QueueCycle"
    _closing: bool
    if TYPE_CHECKING:

        def _q_for_pri(self, queue: str, pri: int) -> str: ...
        def _flush_brpop_reauth(self) -> None: ...

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        # kombu's constructor sets its own class here when acknowledgements are not emulated.
        self.QoS = cast("type[redis.QoS]", DoorbellQoS)

    def _brpop_start(self, timeout: float | None = None) -> None:
        """Send the pop without waiting for its reply; the event loop reads it when it comes."""
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        keys = [
            self.global_keyprefix + self._q_for_pri(queue, priority)
            for priority in self.priority_steps
            for queue in queues
        ]
        count = max(1, min(BATCH, self.qos.can_consume_max_estimate()))
        connection = self.client.connection
        self._in_poll = connection
        self._brpop_sent_at = time.monotonic()
        patience_s = self.brpop_timeout if timeout is None else timeout
        connection.send_command(
            "BLMPOP", patience_s or 0, len(keys), *keys, "RIGHT", "COUNT", count
        )

    def _brpop_read(self, **options: object) -> bool:
        """Deliver every message of one reply.

        Raises:
            Empty: The pop timed out.
        """
        try:
            connection = self.client.connection
            try:
                reply = self.client.parse_response(connection, "BLMPOP", **options)
            except self.connection_errors:
                # Disconnected, so that the next iteration connects again.
                connection.disconnect()
                raise
            METER.last_reply_at = time.monotonic()
            if not reply:
                raise Empty
            key, items = reply
            queue = bytes_to_str(key)[len(self.global_keyprefix) :].rsplit(self.sep, 1)[0]
            self._queue_cycle.rotate(queue)
            self._deliver_batch(queue, items)
            return True
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _deliver_batch(self, queue: str, items: Iterable[bytes | str]) -> None:
        METER.pops += 1
        for item in items:
            METER.messages += 1
            try:
                envelope: object = orjson.loads(item)
                self.connection._deliver(check_envelope(envelope), queue)
            except Exception as error:
                # The edge of the process: one bad message must not cost the rest of its batch,
                # nor the connection. A good one that is lost here is rung again.
                METER.invalid += 1
                log.warning("doorbell.undeliverable: %s in %s", type(error).__name__, queue)
                log.debug("doorbell.undeliverable", exc_info=True)

    def basic_cancel(self, consumer_tag: str) -> None:
        """Stop consuming a queue; after the last, give back what a pop still brings.

        kombu does that when the channel closes, which for us is after the drain.
        """
        super().basic_cancel(consumer_tag)
        if self._in_poll and not self.active_queues and not self._closing:
            try:
                self._brpop_read()
            except Empty:
                return
            except self.connection_errors:
                log.warning("doorbell.pop_lost: the reaper rings again", exc_info=True)

    def put_back(self, messages: Iterable[virtual.Message]) -> None:
        """Put messages where they are popped next, the first one first. Best effort."""
        try:
            with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
                for message in reversed(list(messages)):
                    queue = str(message.delivery_info["routing_key"])
                    pipe.rpush(self._q_for_pri(queue, 0), orjson.dumps(raw_of(message)))
                pipe.execute()
        except (*self.connection_errors, self.ResponseError):
            log.warning("doorbell.not_put_back: the reaper rings again", exc_info=True)


class Transport(redis.Transport):
    """The transport of `Channel`, which leaves nothing behind in the hub when it is closed."""

    Channel = Channel

    _hub: Hub | None = None
    _ticks: frozenset[object] = frozenset()

    def register_with_event_loop(self, connection: object, loop: Hub) -> None:
        """Have the hub poll for us."""
        before = frozenset(ticks_of(loop))
        super().register_with_event_loop(connection, loop)
        self._hub = loop
        self._ticks = frozenset(ticks_of(loop)) - before

    def close_connection(self, connection: Connection) -> None:
        """Close, and take back what kombu would leave in the hub on every reconnect."""
        super().close_connection(connection)
        if self._hub is not None:
            ticks_of(self._hub).difference_update(self._ticks)


def ticks_of(hub: Hub) -> set[object]:
    """Return the hub's own set of functions to call on every turn."""
    return cast("set[object]", hub.on_tick)


def raw_of(message: virtual.Message) -> dict[str, object]:
    """Return the message as it came from Redis."""
    return cast("dict[str, object]", vars(message)["_raw"])


def check_envelope(envelope: object) -> dict[str, object]:
    """Return the message if it has what kombu and Celery take for granted.

    Raises:
        ValueError: It does not; the text names the part, never its content.
    """
    message = _object_at(envelope, "the message")
    headers = _object_at(message.get("headers"), "headers")
    properties = _object_at(message.get("properties"), "properties")
    delivery = _object_at(properties.get("delivery_info"), "delivery_info")
    texts = {
        "body": message.get("body"),
        "task": headers.get("task"),
        "id": headers.get("id"),
        "delivery_tag": properties.get("delivery_tag"),
        "routing_key": delivery.get("routing_key"),
    }
    for name, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"a broker message has no text as {name}")
    return message


def _object_at(value: object, name: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"a broker message has no object as {name}")
    return cast("dict[str, object]", value)


TRANSPORT_ALIASES[BATCH_ALIAS] = f"{__name__}:Transport"
