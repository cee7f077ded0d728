"""The Celery app and the parts of it that need no worker.

Is: `create_app`, the refusals, envelope checks, the slot count. Is not: a running worker
(`tests/integration/test_pool.py`). Above: pytest. Below: `toolrail_workers.app`.
"""

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import pytest
from celery.worker import state

from toolrail.doorbell import QUEUES, TASK, Envelopes
from toolrail.errors import RedisTooOld
from toolrail.settings import Settings
from toolrail_schemas import Doorbell
from toolrail_workers import _celery, app
from toolrail_workers.transport import BATCH, Channel, DoorbellQoS, check_envelope

RUN_ID = "run_01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def settings() -> Settings:
    return Settings(slots=7)


def test_there_is_one_task_and_it_refuses_to_run(settings: Settings) -> None:
    """Any other pool would run the task's body, so the body says what is wrong."""
    made = app.create_app(settings)
    ours = [name for name in made.tasks if not name.startswith("celery.")]

    assert ours == [TASK]
    with pytest.raises(RuntimeError, match="AsyncioPool"):
        made.tasks[TASK].run(run_id="x")


def test_the_queues_are_the_sources(settings: Settings) -> None:
    """Nothing else can be consumed, and no queue is made by a misspelt option."""
    made = app.create_app(settings)

    assert tuple(made.amqp.queues) == QUEUES
    assert {queue.exchange.name for queue in made.amqp.queues.values()} == {""}
    with pytest.raises(KeyError):
        made.amqp.queues.select(["mcpp"])


def test_json_is_the_only_content_and_there_are_no_results(settings: Settings) -> None:
    """What Celery could be talked into is off."""
    conf = app.create_app(settings).conf

    assert conf.accept_content == ["json"]
    assert conf.result_backend is None
    assert conf.worker_enable_remote_control is False
    assert conf.worker_concurrency == 7
    assert conf.worker_prefetch_multiplier == 1
    assert conf.broker_connection_max_retries is None


def test_arguments_are_not_repeated_in_headers() -> None:
    """Celery's own sending shows nothing of a doorbell in headers, and so in no log."""
    made = app.create_app(Settings(broker_url="memory://"))
    with made.connection_for_write() as connection:
        producer = made.amqp.Producer(connection)
        made.send_task(TASK, kwargs={"mac": "f" * 64}, queue="mcp", producer=producer)
        message = connection.SimpleQueue("mcp").get(timeout=5)

    assert message.headers["kwargsrepr"] == "{}"
    assert message.payload[1] == {"mac": "f" * 64}


def test_every_setting_is_one_that_celery_knows(settings: Settings) -> None:
    """A misspelt setting would be ignored in silence."""
    known = set(app.create_app(Settings()).conf.table(with_defaults=True))
    made = app.create_app(settings)
    ours = set(made.conf.changes or ())

    assert ours - known == set()
    assert len(ours) > 20


def test_the_module_makes_its_app_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """`celery -A toolrail_workers.app` finds an app; importing the module reads nothing."""
    for name, value in {"SLOTS": "3", "REDIS_URL": "redis://nowhere", "SECRET": "s" * 32}.items():
        monkeypatch.setenv(f"TOOLRAIL_{name}", value)
    monkeypatch.delattr(app, "app", raising=False)
    made = app.app

    assert made.settings.slots == 3
    assert app.app is made
    monkeypatch.delattr(app, "app")
    with pytest.raises(AttributeError):
        _ = app.nothing


class FakeRedisChannel:
    """A channel whose server says which version it is."""

    class ResponseError(Exception):
        """What kombu names so."""

    def __init__(self, version: str | None) -> None:
        self._version = version

    @contextmanager
    def conn_or_acquire(self) -> Generator["FakeRedisChannel"]:
        yield self

    def info(self, section: str) -> dict[str, str]:
        assert section == "server"
        if self._version is None:
            raise self.ResponseError
        return {"redis_version": self._version}


def connection_to(version: str | None, driver: str = "redis") -> SimpleNamespace:
    channel = FakeRedisChannel(version)
    return SimpleNamespace(transport=SimpleNamespace(driver_type=driver), default_channel=channel)


@pytest.mark.parametrize("version", ["6.2.14", "5.0", "weird"])
def test_an_old_redis_is_refused(version: str) -> None:
    """BLMPOP and script flags are of 7.0."""
    with pytest.raises(RedisTooOld):
        _celery.refuse_old_redis(connection_to(version))


@pytest.mark.parametrize(
    ("version", "driver"),
    [("7.0.0", "redis"), ("9.1.2", "redis"), (None, "redis"), ("3.0", "amqp")],
)
def test_other_servers_are_not_refused(version: str | None, driver: str) -> None:
    """New enough, silent about it, or no Redis at all."""
    _celery.refuse_old_redis(connection_to(version, driver))


def envelope() -> dict[str, object]:
    doorbell = Doorbell.ring(b"x" * 16, run_id=RUN_ID, call_key="0" * 16, attempt=1)
    message: dict[str, object] = json.loads(Envelopes().text("mcp", doorbell))
    return message


def test_an_envelope_of_ours_passes() -> None:
    """What the dispatcher pushes is accepted as it is."""
    message = envelope()

    assert check_envelope(message) is message


@pytest.mark.parametrize("part", ["body", "headers", "properties"])
@pytest.mark.parametrize("value", [None, 5, [], "text", {}])
def test_an_envelope_with_a_wrong_part_is_refused(part: str, value: object) -> None:
    """Whatever kombu would stumble over is refused first; text is right for a body only."""
    message = {**envelope(), part: value}
    if part == "body" and isinstance(value, str):
        assert check_envelope(message) is message
        return
    with pytest.raises(ValueError, match="a broker message has no"):
        check_envelope(message)


class FakeChannel:
    """What `DoorbellQoS` asks of a channel."""

    do_restore = True

    def __init__(self) -> None:
        self.put: list[object] = []

    def put_back(self, messages: list[object]) -> None:
        self.put += messages


class InWork:
    """Stands in Celery's set of requests in work."""


@pytest.fixture
def qos() -> Iterator[tuple[DoorbellQoS, FakeChannel]]:
    channel = FakeChannel()
    yield DoorbellQoS(cast(Channel, channel), prefetch_count=3), channel
    state.reserved_requests.clear()


def test_free_slots_count_work_of_all_connections(qos: tuple[DoorbellQoS, FakeChannel]) -> None:
    """Two requests of an older connection leave one slot for a new one."""
    one, _ = qos
    work = [InWork(), InWork()]
    for request in work:
        state.reserved_requests.add(request)

    assert one.can_consume_max_estimate() == 1
    work.append(InWork())
    state.reserved_requests.add(work[-1])
    assert not one.can_consume()
    state.reserved_requests.clear()
    assert one.can_consume_max_estimate() == 3


def test_without_a_prefetch_the_batch_is_the_limit(qos: tuple[DoorbellQoS, FakeChannel]) -> None:
    """A prefetch of 0 means no limit to kombu."""
    one, _ = qos
    one.prefetch_count = 0

    assert one.can_consume()
    assert one.can_consume_max_estimate() == BATCH


@pytest.mark.parametrize(("flag", "expected"), [(None, []), (0, ["m"]), (1, ["m"])])
def test_unacknowledged_messages_go_back_only_at_the_end(
    qos: tuple[DoorbellQoS, FakeChannel],
    monkeypatch: pytest.MonkeyPatch,
    flag: int | None,
    expected: list[str],
) -> None:
    """After a lost connection they stay in work; when the worker ends, others get them."""
    one, channel = qos
    one.append("m", "tag")
    monkeypatch.setattr(state, "should_stop", flag)
    one.restore_unacked_once()

    assert channel.put == expected


def test_a_rejected_message_goes_back_once(qos: tuple[DoorbellQoS, FakeChannel]) -> None:
    """A second rejection, or one after the channel forgot the message, does nothing."""
    one, channel = qos
    one.append("m", "tag")
    one.reject("tag", requeue=True)
    one.append("n", "other")
    one.reject("tag", requeue=True)
    one.reject("other")

    assert channel.put == ["m"]
