"""A pool that is paused on order: it takes nothing, keeps what it has, and can take again.

Is: `AsyncioPool.pause` and `resume` under `celery worker` with real brokers and the fake runtime.
Is not: who asks for it (`test_worker_drain.py`). Above: pytest. Below: `tests/celery_worker.py`.
"""

import pytest
import redis
from kombu import Connection, Producer

from tests.celery_worker import CLIENT_NAME, CeleryWorker, MakeWorker, make_worker
from tests.fake_runtime import Deed
from tests.servers import StartRedis
from toolrail.doorbell import publish
from toolrail.settings import Settings

__all__ = ["make_worker"]


def queued(client: redis.Redis, worker: CeleryWorker) -> int:
    """Return how many doorbells wait."""
    return int(client.llen(worker.key))


def pause(client: redis.Redis, worker: CeleryWorker) -> None:
    """Return when the worker consumes no more."""
    worker.ring(client, Deed.PAUSES)
    worker.wait_for("it is paused", lambda: "Canceling queue mcp" in worker.log())


@pytest.mark.one_redis
def test_a_paused_pool_takes_nothing_and_finishes_what_it_has(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """Doorbells stay in the queue for others; running calls end; resumed, it takes the rest."""
    worker = make_worker().start()
    running = worker.ring(redis_client, Deed.GATED, count=2)
    worker.wait_for("both run", lambda: len(worker.events("began")) == 2)
    pause(redis_client, worker)
    waiting = worker.ring(redis_client, count=5)
    worker.open_gate()
    worker.wait_for("both are done", lambda: set(running) <= set(worker.events("done")))

    # A pop that was under way may have taken some; the pool gives back what it does not run.
    worker.wait_for("all five wait", lambda: queued(redis_client, worker) == 5)
    worker.resume()
    worker.wait_for("all are done", lambda: set(waiting) <= set(worker.events("done")))
    assert len(worker.events("began")) == 8, "none twice"
    assert worker.stop() == 0


@pytest.mark.one_redis
def test_doorbells_of_the_last_pop_go_back(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """One batch holds the order to pause and more; what the runtime does not take is not lost."""
    worker = make_worker().start()
    pausing = worker.message(Deed.PAUSES)
    rest = [worker.doorbell(Deed.NOTED) for _ in range(20)]
    redis_client.lpush(worker.key, pausing, *map(worker.message_of, rest))
    worker.wait_for("it is paused", lambda: "Canceling queue mcp" in worker.log())
    worker.resume()
    keys = {doorbell.call_key for doorbell in rest}
    worker.wait_for("all are done", lambda: keys <= set(worker.events("done")))

    assert len(worker.events("began")) == 21


@pytest.mark.one_redis
def test_a_pause_outlives_the_connection(
    make_worker: MakeWorker, start_redis: StartRedis, settings: Settings
) -> None:
    """The broker restarts meanwhile: the worker is back and still takes nothing until resumed."""
    server = start_redis(append_only=True)
    worker = make_worker(settings=settings.model_copy(update={"redis_url": server.url})).start()
    with redis.Redis.from_url(server.url) as client:
        pause(client, worker)
        worker.wait_for("its last pop is over", lambda: not is_popping(client))
    server.kill()
    worker.wait_for("it notices", lambda: "Connection to broker lost" in worker.log())
    server.start()
    with redis.Redis.from_url(server.url) as client:
        worker.wait_for("it is back", lambda: is_connected(client), timeout_s=30)
        worker.ring(client, count=3)

        assert queued(client, worker) == 3
        worker.resume()
        worker.wait_for("all are done", lambda: len(worker.events("done")) == 4)
        assert queued(client, worker) == 0
    assert worker.stop() == 0


def is_popping(client: redis.Redis) -> bool:
    """Return whether a worker waits for doorbells."""
    return any("b" in c["flags"] for c in client.client_list())


def is_connected(client: redis.Redis) -> bool:
    """Return whether a worker has made its connection."""
    return any(c["name"] == CLIENT_NAME for c in client.client_list())


@pytest.mark.one_redis
def test_the_stock_transport_pauses_too(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """Cancelling the consumer is what every kombu transport knows."""
    worker = make_worker(settings=settings.model_copy(update={"transport": "stock"})).start()
    pause(redis_client, worker)
    worker.ring(redis_client)
    worker.resume()
    worker.wait_for("it is done", lambda: len(worker.events("done")) == 2)

    assert worker.stop() == 0


@pytest.mark.one_redis
def test_a_rabbitmq_consumer_pauses_too(
    make_worker: MakeWorker, rabbitmq_url: str, settings: Settings
) -> None:
    """With AMQP the broker itself holds the messages back."""
    worker = make_worker(settings=settings.model_copy(update={"broker_url": rabbitmq_url})).start()
    pausing, late = worker.doorbell(Deed.PAUSES), worker.doorbell(Deed.NOTED)
    with Connection(rabbitmq_url) as connection:
        producer = Producer(connection)
        publish(producer, "mcp", pausing, task_id=pausing.task_id)
        worker.wait_for("it is paused", lambda: "Canceling queue mcp" in worker.log())
        publish(producer, "mcp", late, task_id=late.task_id)
    worker.resume()
    worker.wait_for("it is done", lambda: late.call_key in worker.events("done"))

    assert worker.stop() == 0
