"""What we rely on inside Celery and kombu is still there, unchanged.

Is: the source of every private function that we override, call or depend on, pinned by hash, and
the behaviour that we expect of it. Is not: a test of our own code. Fails at an upgrade, on purpose:
read the named function's change, compare it with `transport.py`, `_celery.py` and `pool.py`, adapt
them, and only then write the new hash.
Above: pytest. Below: the installed Celery and kombu.
"""

import hashlib
import importlib
import inspect
import json
import select
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import cast

import pytest
from kombu.asynchronous import Hub
from kombu.transport import redis, virtual

from toolrail.doorbell import Envelopes
from toolrail_schemas import Doorbell
from toolrail_workers.broker import redis_options
from toolrail_workers.consumer import doorbell_fields
from toolrail_workers.transport import Channel, raw_of

RUN_ID = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"

OVERRIDDEN = {
    "kombu.transport.redis:Channel.__init__": "f189bdebe243",
    "kombu.transport.redis:Channel._brpop_start": "06723d707ddf",
    "kombu.transport.redis:Channel._brpop_read": "c42518699709",
    "kombu.transport.redis:Channel.basic_cancel": "d2e3a03a48d2",
    "kombu.transport.redis:Channel._basic_cancel": "f799ede50375",
    "kombu.transport.redis:Channel.close": "101e9b9cdad4",
    "kombu.transport.virtual.base:QoS": "f884d8db8d64",
    "celery.worker.consumer.consumer:Consumer.__init__": "c27ca6ec2d4b",
    "celery.worker.consumer.consumer:Consumer.connect": "7ca359b806be",
    "celery.worker.consumer.consumer:Consumer.create_task_handler": "292c5a681f10",
    "celery.worker.consumer.consumer:Consumer.register_with_event_loop": "aacc1dedab42",
}
"""Ours stand in their place, so what they do must be what ours do."""

CALLED = {
    "kombu.transport.redis:Channel._q_for_pri": "f3997660680d",
    "kombu.transport.redis:Channel._flush_brpop_reauth": "bb4930b4fd3c",
    "kombu.transport.virtual.base:Transport._deliver": "799e242f3ec5",
    "kombu.asynchronous.hub:Hub.call_soon": "ec0433083ce8",
    "celery.worker.state:maybe_shutdown": "e15d0ed41e2c",
    "celery.worker.consumer.consumer:"
    "Consumer._restore_prefetch_count_after_connection_restart": "54d4e65f9a52",
    "celery.worker.consumer.consumer:Consumer.add_task_queue": "7df62325255c",
    "celery.worker.consumer.consumer:Consumer.cancel_task_queue": "3c696341b7bb",
    "celery.app.amqp:Queues.deselect": "2cc067c3806a",
    "kombu.messaging:Consumer.cancel_by_queue": "8dadbe75f75f",
}
"""We call them, or set what they read."""

CALLERS = {
    "kombu.transport.redis:MultiChannelPoller": "0530f30a9dec",
    "kombu.transport.redis:Transport.register_with_event_loop": "4b835642e4a9",
    "kombu.transport.virtual.base:Channel.basic_consume": "0fec96269493",
    "kombu.transport.virtual.base:Transport._reject_inbound_message": "0fd42f24d40a",
    "kombu.transport.virtual.base:Message.__init__": "c90d08ccfa2e",
    "kombu.asynchronous.hub:Hub.create_loop": "bc5b3f9d66b9",
    "celery.concurrency.base:BasePool": "37bc2b310c4f",
    "celery.bin.worker:WorkersPool.convert": "9b9c0eb6dfe9",
    "celery.worker.components:Pool.create": "1f0dba9f45f3",
    "celery.worker.loops:asynloop": "05a53e519988",
    "celery.worker.worker:WorkController.start": "744832e50b02",
    "celery.worker.worker:WorkController.stop": "1521a8eb8dd7",
    "celery.worker.worker:WorkController.terminate": "edc88a842d4a",
    "celery.worker.consumer.consumer:Consumer.on_close": "e96d425dce0a",
    "celery.worker.consumer.consumer:Consumer.on_connection_error_after_connected": "4f84dbfff329",
    "celery.worker.consumer.tasks:Tasks.start": "e0165bf1d620",
}
"""They decide when and how ours are called."""

PINNED = OVERRIDDEN | CALLED | CALLERS


def fingerprint(name: str) -> str:
    """Return the hash of a function's or class's source."""
    module, _, path = name.partition(":")
    found: object = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    source = inspect.getsource(cast("Callable[..., object]", found))
    return hashlib.sha256(source.encode()).hexdigest()[:12]


def message_of(doorbell: Doorbell) -> virtual.Message:
    envelope = json.loads(Envelopes().text("mcp", doorbell))
    return virtual.Message(envelope, channel=virtual.Channel.__new__(virtual.Channel))


@pytest.mark.parametrize("package", ["celery", "kombu"])
def test_the_version_is_the_one_that_was_read(package: str) -> None:
    """The hashes are of 5.7; another minor version needs another reading."""
    assert version(package).startswith("5.7.")


@pytest.mark.parametrize("name", PINNED)
def test_what_we_depend_on_has_not_changed(name: str) -> None:
    """The source is the one that our side was written against."""
    found = fingerprint(name)

    assert found == PINNED[name], f"{name} changed: read it, adapt our side, then pin {found}"


def test_a_message_has_the_doorbell_for_the_pool() -> None:
    """The consumer reads the keyword arguments from the body, and from no other task's message."""
    doorbell = Doorbell.ring(b"x" * 16, run_id=RUN_ID, call_key="0" * 16, attempt=2)
    message = message_of(doorbell)

    assert doorbell_fields(message) == doorbell.model_dump()
    message.headers["task"] = "os.system"
    with pytest.raises(ValueError, match="not a message of"):
        doorbell_fields(message)


def test_a_message_keeps_what_came_from_redis() -> None:
    """`put_back` pushes exactly what was popped."""
    doorbell = Doorbell.ring(b"x" * 16, run_id=RUN_ID, call_key="0" * 16, attempt=1)
    raw = raw_of(message_of(doorbell))

    assert set(raw) == {"body", "content-encoding", "content-type", "headers", "properties"}


def test_kombu_does_not_prefix_our_command() -> None:
    """We prefix the keys of BLMPOP ourselves; if kombu learned to, they would get two."""
    commands = {
        *redis.GlobalKeyPrefixMixin.PREFIXED_SIMPLE_COMMANDS,
        *redis.GlobalKeyPrefixMixin.PREFIXED_COMPLEX_COMMANDS,
    }

    assert "BLMPOP" not in commands
    assert {"RPUSH", "LPUSH"} <= commands


def test_kombu_reads_every_option_that_it_is_given() -> None:
    """A misspelt or dropped transport option would be ignored in silence."""
    known = {*Channel.from_transport_options, "polling_interval"}

    assert set(redis_options(5.0)) <= known


def test_the_hub_is_woken_from_another_thread() -> None:
    """`call_soon` makes the hub's poll return; without that, every outcome waits up to a second."""
    hub = Hub()
    next(hub.create_loop())
    waker = vars(hub)["_waker"]
    thread = threading.Thread(target=lambda: hub.call_soon(threading.Event().set))
    thread.start()
    thread.join()
    readable, _, _ = select.select([waker.fileno()], [], [], 0)
    hub.close()

    assert readable
