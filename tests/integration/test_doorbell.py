"""Doorbells: the envelope Celery would have made, on Redis and on RabbitMQ."""

import json
import os
from base64 import b64decode
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import cast

import pytest
import redis
from kombu import Connection
from kombu.simple import SimpleQueue

from tests.calls import NOW_MS
from toolrail.doorbell import TASK, Envelopes, KombuDoorbell, read_envelope
from toolrail.settings import Settings
from toolrail_schemas import Doorbell, call_key, format_run_id
from toolrail_workers.app import create_app

VARYING = ("delivery_tag", "reply_to", "origin")
"""What differs from message to message or from sender to sender, and nobody reads here."""


@pytest.fixture
def doorbell(settings: Settings) -> Doorbell:
    """Return a signed doorbell of some call."""
    run_id = format_run_id(next(NOW_MS), os.urandom(10))
    key = call_key(run_id, 0, "c1")
    return Doorbell.ring(settings.require_secret(), run_id=run_id, call_key=key, attempt=1)


def opened(message: Mapping[str, object]) -> tuple[dict[str, object], object]:
    """Return a message without what varies, and its decoded body."""
    text = json.dumps({name: part for name, part in message.items() if name != "body"})
    rest = cast("dict[str, dict[str, object]]", json.loads(text))
    for part in (rest["headers"], rest["properties"]):
        for name in (*VARYING, "argsrepr", "kwargsrepr", "ignore_result"):
            part.pop(name, None)
    return cast("dict[str, object]", rest), json.loads(b64decode(cast("str", message["body"])))


@pytest.mark.parametrize("queue", ["builtin", "mcp", "extension"])
def test_our_envelope_is_the_one_that_celery_pushes(
    settings: Settings, redis_client: "redis.Redis", doorbell: Doorbell, queue: str
) -> None:
    """A kombu or Celery upgrade that changes the message fails here first."""
    app = create_app(settings)
    app.send_task(
        TASK, kwargs=doorbell.model_dump(mode="json"), task_id=doorbell.task_id, queue=queue
    )
    [pushed] = redis_client.lrange(f"{settings.key_prefix}{queue}", 0, -1)
    ours = json.loads(Envelopes().text(queue, doorbell))

    assert opened(ours) == opened(json.loads(pushed))
    app.close()


def test_an_envelope_tells_nothing_but_where_to_look(doorbell: Doorbell) -> None:
    """Run, call, attempt and MAC; the argument representations are constants."""
    message = json.loads(Envelopes().text("builtin", doorbell))

    assert json.loads(b64decode(message["body"]))[:2] == [[], doorbell.model_dump(mode="json")]
    assert (message["headers"]["argsrepr"], message["headers"]["kwargsrepr"]) == ("()", "{}")
    assert read_envelope(json.dumps(message)) == doorbell


@pytest.mark.parametrize("text", ["", "{}", '{"body": "eA=="}', '{"body": "W10="}', "[1]", "null"])
def test_what_is_no_envelope_reads_as_none(text: str) -> None:
    """The reaper looks at whatever lies in a queue."""
    assert read_envelope(text) is None


@contextmanager
def rabbit_queue(url: str, name: str) -> Generator[SimpleQueue]:
    """Give a consumer of one durable queue."""
    with Connection(url) as connection:
        queue = connection.SimpleQueue(name)
        try:
            yield queue
        finally:
            queue.close()


async def test_a_doorbell_reaches_rabbitmq(rabbitmq_url: str, doorbell: Doorbell) -> None:
    """The same message, through another transport, after the commit."""
    port = KombuDoorbell(rabbitmq_url, timeout_s=5)
    with rabbit_queue(rabbitmq_url, "builtin") as queue:
        await port.ring("builtin", doorbell)
        message = queue.get(timeout=5)
        message.ack()
    await port.close()

    assert port.inline("builtin", doorbell) == ""
    assert message.payload[1] == doorbell.model_dump(mode="json")
    assert message.headers["task"] == TASK


async def test_a_broker_that_is_away_only_makes_the_call_late(
    doorbell: Doorbell, caplog: pytest.LogCaptureFixture
) -> None:
    """The call is accepted already; the reaper rings again."""
    port = KombuDoorbell("amqp://guest:guest@127.0.0.1:1//", timeout_s=0.5)
    await port.ring("builtin", doorbell)
    await port.close()

    assert "doorbell.not_rung" in caplog.messages
