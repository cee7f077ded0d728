"""Ring for a call: make the broker message and, where the broker is not our Redis, send it.

Is: the envelope (produced by kombu itself) and the two doorbells of DESIGN 3. Is not: the truth
of a call; losing, doubling or forging a message changes nothing but latency. Above: dispatcher,
reaper. Below: kombu.
"""

import asyncio
import logging
import uuid
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from queue import Empty
from typing import Protocol, cast

import orjson
from kombu import Connection, Producer
from kombu.exceptions import OperationalError
from kombu.transport import virtual

from toolrail.errors import PublishFailed
from toolrail_schemas import Doorbell

log = logging.getLogger(__name__)

TASK = "toolrail.call"
QUEUES = ("builtin", "mcp", "extension")
_EMBED = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}


def headers(task_id: str) -> dict[str, object]:
    """Return the headers of Celery's message protocol 2 for one doorbell.

    A contract test compares them with what Celery itself sends; `origin` and the argument
    representations are constants so that nothing of a call leaks into logs.
    """
    return {
        "lang": "py",
        "task": TASK,
        "id": task_id,
        "shadow": None,
        "eta": None,
        "expires": None,
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": task_id,
        "parent_id": None,
        "argsrepr": "()",
        "kwargsrepr": "{}",
        "origin": "toolrail",
        "ignore_result": True,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }


def body(doorbell: Doorbell) -> list[object]:
    """Return the body of Celery's message protocol 2: no arguments, the doorbell by name."""
    return [[], doorbell.model_dump(mode="json"), _EMBED]


class _CapturingChannel(virtual.Channel):
    """Keeps what kombu would have sent; kombu's own extension point for transports."""

    captured: dict[str, object] | None = None

    def _put(self, queue: str, message: dict[str, object], **kwargs: object) -> None:
        self.captured = message

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, object]:
        raise Empty

    def _purge(self, queue: str) -> int:
        return 0


class _CapturingTransport(virtual.Transport):
    Channel = _CapturingChannel
    driver_type = "capture"
    driver_name = "capture"


class Envelopes:
    """Doorbells as the text that kombu's Redis transport pops.

    kombu makes one message per queue when this is built; each doorbell then fills in its own
    ids, which costs microseconds instead of kombu's 130.
    """

    def __init__(self) -> None:
        self._templates = {queue: self._capture(queue) for queue in QUEUES}

    @staticmethod
    def _capture(queue: str) -> dict[str, object]:
        connection = Connection(transport=_CapturingTransport)
        channel = cast("_CapturingChannel", connection.default_channel)
        publish(Producer(channel), queue, Doorbell.model_construct(), task_id="")
        if channel.captured is None:
            raise PublishFailed(
                f"kombu made no message for the queue {queue!r}. "
                "Install the version of kombu that Toolrail asks for; `pip check` names it."
            )
        return channel.captured

    def text(self, queue: str, doorbell: Doorbell) -> str:
        """Return the message of one doorbell, as JSON."""
        template = self._templates[queue]
        task_id = doorbell.task_id
        own_headers = {
            **cast("dict[str, object]", template["headers"]),
            "id": task_id,
            "root_id": task_id,
        }
        own_properties = {
            **cast("dict[str, object]", template["properties"]),
            "correlation_id": task_id,
            "delivery_tag": uuid.uuid4().hex,
        }
        own_body = b64encode(orjson.dumps(body(doorbell))).decode("ascii")
        message = {
            **template,
            "body": own_body,
            "headers": own_headers,
            "properties": own_properties,
        }
        return orjson.dumps(message).decode()


def read_envelope(text: str) -> Doorbell | None:
    """Return the doorbell inside a message of the Redis transport, None when it is not one."""
    try:
        message = cast("dict[str, str]", orjson.loads(text))
        _, fields, _ = cast("list[object]", orjson.loads(b64decode(message["body"])))
        return Doorbell.model_validate(fields)
    except (ValueError, KeyError, TypeError):
        return None


def publish(producer: Producer, queue: str, doorbell: Doorbell, *, task_id: str) -> None:
    """Hand one doorbell to a kombu producer."""
    producer.publish(
        body(doorbell),
        exchange="",
        routing_key=queue,
        serializer="json",
        headers=headers(task_id),
        correlation_id=task_id,
        delivery_mode=2,
    )


class DoorbellPort(Protocol):
    """How a committed call is announced to the workers."""

    is_inline: bool
    """Whether the script that commits also rings, so that `ring` has nothing to do."""

    def inline(self, queue: str, doorbell: Doorbell) -> str:
        """Return the message for the script to push itself; empty when `ring` does it."""
        ...

    async def ring(self, queue: str, doorbell: Doorbell) -> None:
        """Announce after the commit; returns at once when `inline` did it."""
        ...

    async def close(self) -> None:
        """Give up connections."""
        ...


class RedisDoorbell:
    """The broker is the ledger's own Redis: the script that commits also pushes."""

    is_inline = True

    def __init__(self) -> None:
        self._envelopes = Envelopes()

    def inline(self, queue: str, doorbell: Doorbell) -> str:
        """Return the whole message."""
        return self._envelopes.text(queue, doorbell)

    async def ring(self, queue: str, doorbell: Doorbell) -> None:
        """Nothing is left to do."""

    async def close(self) -> None:
        """Nothing is held."""


class KombuDoorbell:
    """Any other broker: published after the commit, from a few threads.

    A crash or an outage in between is healed by the reaper, so a failure here is logged, and the
    call stays accepted.
    """

    is_inline = False

    def __init__(self, broker_url: str, *, timeout_s: float, threads: int = 2) -> None:
        self._connection = Connection(
            broker_url, connect_timeout=timeout_s, transport_options={"confirm_publish": True}
        )
        self._timeout_s = timeout_s
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="doorbell")
        self._producers = self._connection.Pool(limit=threads)

    def inline(self, queue: str, doorbell: Doorbell) -> str:
        """Return nothing: the script has no broker to push to."""
        return ""

    async def ring(self, queue: str, doorbell: Doorbell) -> None:
        """Publish; a broker that is away only makes the call late."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._pool, self._publish, queue, doorbell)
        except PublishFailed as error:
            log.warning("doorbell.not_rung", extra={"queue": queue, "reason": error.message})

    def _publish(self, queue: str, doorbell: Doorbell) -> None:
        task_id = doorbell.task_id
        try:
            with self._producers.acquire(block=True, timeout=self._timeout_s) as connection:
                producer = Producer(connection)
                connection.ensure(
                    producer,
                    lambda: publish(producer, queue, doorbell, task_id=task_id),
                    max_retries=1,
                )()
        except (OSError, OperationalError) as error:
            raise PublishFailed(f"{PublishFailed.default_message()} {error}") from error

    async def close(self) -> None:
        """Close connections and threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._producers.force_close_all)
