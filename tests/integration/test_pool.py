"""The pool in a real worker process: slots, outcomes, drain, cold ends, refusals.

Is: `AsyncioPool` under `celery worker` with a real Redis and the fake runtime. Is not: lost
connections (`test_transport.py`), nor the ledger.
Above: pytest. Below: `tests/celery_worker.py`.
"""

import re
import signal

import pytest
import redis

from tests.celery_worker import CLIENT_NAME, CeleryWorker, MakeWorker, make_worker
from tests.fake_runtime import Deed
from tests.waiting import wait_until
from toolrail import exit_codes
from toolrail.settings import Settings
from toolrail_schemas import Doorbell

__all__ = ["make_worker"]


def with_slots(settings: Settings, slots: int) -> Settings:
    return settings.model_copy(update={"slots": slots, "drain_s": 10.0})


def queued(client: redis.Redis, worker: CeleryWorker) -> int:
    return int(client.llen(worker.key))


def stats_of(worker: CeleryWorker) -> str:
    (stats,) = worker.events("stop")
    return stats


def test_a_doorbell_is_handled_and_gone(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """Ring before and after the start; both are handled, nothing stays in Redis."""
    worker = make_worker()
    early = worker.ring(redis_client)
    worker.start()
    late = worker.ring(redis_client)
    worker.wait_for("both are done", lambda: len(worker.events("done")) == 2)

    assert worker.events("done") == early + late
    assert worker.events("start") == ["mcp"]
    assert worker.stop() == 0
    assert redis_client.keys("*") == []


@pytest.mark.one_redis
def test_plain_celery_worker_is_silent(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """Without a single option there is no pub/sub, no binding and no second kind of key."""
    worker = make_worker("-E").start()
    worker.ring(redis_client)
    worker.wait_for("it is done", lambda: worker.events("done"))

    assert redis_client.pubsub_channels() == []
    assert redis_client.keys("*") == []
    assert "mingle" not in worker.log()


def test_no_more_doorbells_come_in_than_there_are_slots(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """With four slots and ten doorbells, six wait where other workers see them."""
    worker = make_worker(settings=with_slots(settings, 4)).start()
    worker.ring(redis_client, Deed.GATED, count=10)
    worker.wait_for("four run", lambda: len(worker.events("began")) == 4)

    assert queued(redis_client, worker) == 6
    worker.open_gate()
    worker.wait_for("all are done", lambda: len(worker.events("done")) == 10)
    assert worker.stop() == 0
    assert "busy=0" in stats_of(worker)


@pytest.mark.one_redis
def test_a_handler_that_raises_costs_its_own_doorbell_only(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """The runtime should not raise; if it does, the next doorbell does not notice."""
    worker = make_worker().start()
    worker.ring(redis_client, Deed.RAISES)
    worker.ring(redis_client)
    worker.wait_for("the next is done", lambda: worker.events("done"))
    worker.stop()

    assert "failed_handles=1" in stats_of(worker)
    assert "doorbell.handle_failed" in worker.log()


@pytest.mark.one_redis
def test_a_doorbell_that_is_not_taken_goes_back(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """The runtime may return a doorbell; it is rung again at once."""
    worker = make_worker().start()
    (key,) = worker.ring(redis_client, Deed.NOT_TAKEN)
    worker.wait_for("it is done the second time", lambda: worker.events("done"))

    assert worker.events("began") == [key, key]


def test_sigterm_finishes_what_runs_and_takes_nothing_new(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """Drain with two calls running; one that rings meanwhile stays for another worker."""
    worker = make_worker().start()
    keys = worker.ring(redis_client, Deed.GATED, count=2)
    worker.wait_for("both run", lambda: len(worker.events("began")) == 2)
    worker.signal(signal.SIGTERM)
    worker.wait_for("it drains", lambda: worker.events("drain") == [""])
    worker.ring(redis_client)
    worker.open_gate()

    assert worker.wait_end() == 0
    assert sorted(worker.events("done")) == sorted(keys)
    assert queued(redis_client, worker) == 1
    assert "busy=0" in stats_of(worker)


@pytest.mark.one_redis
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGQUIT])
def test_a_second_signal_ends_a_drain(
    make_worker: MakeWorker, redis_client: redis.Redis, second: signal.Signals
) -> None:
    """Going cold cancels the running calls, stops the runtime, and puts the doorbells back."""
    worker = make_worker().start()
    keys = worker.ring(redis_client, Deed.GATED, count=3)
    worker.wait_for("all run", lambda: len(worker.events("began")) == 3)
    worker.signal(signal.SIGTERM)
    worker.wait_for("it drains", lambda: worker.events("drain"))
    worker.signal(second)

    assert worker.wait_end() == 1
    assert sorted(worker.events("cancelled")) == sorted(keys)
    assert len(worker.events("stop")) == 1
    assert queued(redis_client, worker) == 3


@pytest.mark.one_redis
def test_sigquit_ends_at_once(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """A cold end does not drain; another worker takes the doorbells in their order."""
    worker = make_worker().start()
    keys = worker.ring(redis_client, Deed.GATED, count=3)
    worker.wait_for("all run", lambda: len(worker.events("began")) == 3)
    worker.signal(signal.SIGQUIT)

    assert worker.wait_end() == 1
    assert worker.events("drain") == []
    assert len(worker.events("stop")) == 1
    assert queued(redis_client, worker) == 3
    worker.open_gate()
    worker.start()
    worker.wait_for("the next worker does them", lambda: len(worker.events("done")) == 3)
    assert worker.events("began")[3:] == keys


@pytest.mark.one_redis
def test_a_drain_ends_with_its_grace(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """A call that does not end is cancelled when the time to drain is over."""
    worker = make_worker(settings=settings.model_copy(update={"drain_s": 0.2})).start()
    keys = worker.ring(redis_client, Deed.GATED)
    worker.wait_for("it runs", lambda: worker.events("began"))

    assert worker.stop() == 0
    assert worker.events("cancelled") == keys


@pytest.mark.one_redis
def test_the_runtime_can_end_the_worker(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """`exit_worker` drains and exits with 1, so that a supervisor starts a new one."""
    worker = make_worker().start()
    worker.ring(redis_client, Deed.EXITS)

    assert worker.wait_end() == 1
    assert len(worker.events("drain")) == 1
    assert "worker.exits: a doorbell asked for it" in worker.log()


@pytest.mark.one_redis
def test_a_stuck_event_loop_cannot_keep_the_worker_alive(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """`exit_worker` works even when nothing on the loop will ever run again."""
    worker = make_worker(settings=settings.model_copy(update={"drain_s": 0.1})).start()
    worker.ring(redis_client, Deed.STUCK)

    assert worker.wait_end(timeout_s=50) == 1


@pytest.mark.one_redis
def test_a_runtime_that_cannot_start_ends_the_worker_with_one_line(
    make_worker: MakeWorker,
) -> None:
    """The exit code says configuration, the reason is one line without a trace, nothing hangs."""
    worker = make_worker()
    worker.fail_at_start()
    worker.start(wait=False)

    assert worker.wait_end() == exit_codes.CONFIG
    lines = [line for line in worker.log().splitlines() if "the fake runtime was told" in line]
    assert len(lines) == 1
    assert "worker.start_failed" in lines[0]
    assert "Traceback" not in worker.log()


@pytest.mark.one_redis
@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
def test_another_pool_is_refused(make_worker: MakeWorker, pool: str) -> None:
    """Celery would ignore `-P prefork` in silence; we say a sentence and exit with 1."""
    worker = make_worker("-P", pool)
    worker.start(wait=False)

    assert worker.wait_end() == 1
    assert "start the worker without -P/--pool" in worker.log()
    assert "Traceback" not in worker.log()


@pytest.mark.one_redis
def test_a_broker_without_an_event_loop_is_refused(
    make_worker: MakeWorker, settings: Settings
) -> None:
    """Outcomes come back through the hub; a transport without one would never acknowledge."""
    worker = make_worker(settings=settings.model_copy(update={"broker_url": "memory://"}))
    worker.start(wait=False)

    assert worker.wait_end() == 1
    assert "TOOLRAIL_BROKER_URL" in worker.log()
    assert "Traceback" not in worker.log()


def test_what_is_no_doorbell_is_dropped(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """Every kind of garbage is counted, none of it stops the worker or comes back."""
    worker = make_worker().start()
    garbage = [
        "not json",
        "[1, 2]",
        "{}",
        '{"headers": 5, "properties": {}, "body": ""}',
        worker.message().replace('"toolrail.call"', '"os.system"'),
        worker.message().replace('"toolrail.call"', '["a list"]'),
        worker.message().replace("application/json", "application/x-python-serialize"),
        worker.message().replace('"base64"', '"zip"'),
        *(
            re.sub('"body":"[^"]*"', f'"body":"{body}"', worker.message())
            for body in (
                "A",
                "bm90IGpzb24=",
                "WzEsMl0=",
                "NQ==",
                "W1tdLDUse31d",
                "W1tdLFtdLHt9XQ==",
            )
        ),
    ]
    redis_client.lpush(worker.key, *garbage)
    (key,) = worker.ring(redis_client)
    worker.wait_for("the good one is done", lambda: key in worker.events("done"))
    worker.stop()

    assert worker.events("done") == [key]
    assert f"invalid_doorbells={len(garbage)}" in stats_of(worker)
    assert "busy=0" in stats_of(worker)
    assert queued(redis_client, worker) == 0


@pytest.mark.one_redis
def test_doorbell_fields_are_checked(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """A well-formed task message whose fields are no doorbell never reaches the runtime."""
    worker = make_worker().start()
    doorbell = worker.doorbell(Deed.NOTED)
    odd = Doorbell.model_construct(
        run_id=doorbell.run_id, call_key="../../etc/passwd", attempt=1, mac=doorbell.mac
    )
    redis_client.lpush(worker.key, worker.message_of(odd))
    (key,) = worker.ring(redis_client)
    worker.wait_for("the good one is done", lambda: worker.events("done"))
    worker.stop()

    assert worker.events("began") == [key]
    assert "invalid_doorbells=1" in stats_of(worker)


@pytest.mark.one_redis
def test_connections_are_named(
    make_worker: MakeWorker, redis_client: redis.Redis, redis_url: str
) -> None:
    """An operator finds the worker's connections in CLIENT LIST."""
    make_worker().start()

    def names() -> list[str]:
        # The server is shared: connections that other tests leave go to other databases.
        mine = redis_url.rpartition("/")[2]
        return [client["name"] for client in redis_client.client_list() if client["db"] == mine]

    wait_until(lambda: CLIENT_NAME in names(), "a connection of the worker")
    assert names().count(CLIENT_NAME) <= 3
