"""The batch transport in a real worker process: batches, lost connections, lost servers.

Is: `transport.Transport` under `celery worker`, against both kinds of Redis; the stock transport
and RabbitMQ as the other choices. Is not: the pool's own behaviour (`test_pool.py`).
Above: pytest. Below: `tests/celery_worker.py`.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
import redis
from kombu import Connection, Producer
from kombu.asynchronous import Hub

from tests.celery_worker import CLIENT_NAME, CeleryWorker, MakeWorker, make_worker
from tests.fake_runtime import Deed
from tests.servers import StartRedis, redis_program
from tests.waiting import wait_until
from toolrail.doorbell import publish
from toolrail.embedded import EmbeddedRedis
from toolrail.settings import Settings
from toolrail_workers.broker import BATCH_ALIAS

__all__ = ["make_worker"]


def connections_of_workers(client: redis.Redis) -> list[int]:
    return [int(c["id"]) for c in client.client_list() if c["name"] == CLIENT_NAME]


def kill_connections(client: redis.Redis) -> int:
    """Kill every connection of workers and return how many there were."""
    killed = 0
    for number in connections_of_workers(client):
        with contextlib.suppress(redis.ResponseError):
            client.client_kill_filter(_id=str(number))
            killed += 1
    return killed


def is_popping(client: redis.Redis) -> bool:
    return any(c["cmd"] == "blmpop" and "b" in c["flags"] for c in client.client_list())


@contextlib.contextmanager
def every(period_s: float, action: Callable[[], object]) -> Generator[None]:
    """Do something again and again while the body runs."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(period_s):
            action()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def stats_of(worker: CeleryWorker) -> dict[str, str]:
    stats = worker.events("stop")[-1].removeprefix("PoolStats(").removesuffix(")")
    return dict(part.split("=") for part in stats.split(", "))


def test_a_batch_is_one_command(make_worker: MakeWorker, redis_client: redis.Redis) -> None:
    """A hundred waiting doorbells are two pops: 64, which is the limit, and 36."""
    worker = make_worker()
    keys = worker.ring(redis_client, count=100)
    redis_client.config_resetstat()
    worker.start()
    worker.wait_for("all are done", lambda: len(worker.events("done")) == 100)
    commands = redis_client.info("commandstats")
    worker.stop()

    assert worker.events("began") == keys
    assert stats_of(worker)["pops"] == "2"
    assert "cmdstat_brpop" not in commands
    assert "cmdstat_rpop" not in commands


@pytest.mark.one_redis
def test_a_batch_is_no_larger_than_the_free_slots(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """Three slots take three doorbells in one pop and leave the rest in the queue."""
    worker = make_worker(settings=settings.model_copy(update={"slots": 3}))
    worker.ring(redis_client, Deed.GATED, count=8)
    worker.start()
    worker.wait_for("three run", lambda: len(worker.events("began")) == 3)

    assert redis_client.llen(worker.key) == 5
    worker.open_gate()
    worker.wait_for("all are done", lambda: len(worker.events("done")) == 8)


def test_killed_connections_wedge_nothing(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """Kill every connection twice a second under load; afterwards all is as before.

    A pop that was on its way when its connection died is lost; the reaper rings for it. What
    counts here is that no slot and no acknowledgement is lost with it.
    """
    worker = make_worker().start()
    kills: list[int] = []

    def kill() -> None:
        kills.append(kill_connections(redis_client))

    with every(0.5, kill):
        for _ in range(60):
            worker.ring(redis_client, Deed.QUICK, count=50)
            worker.ring(redis_client, Deed.NOTED, count=1)
            worker.wait_for("the queue is short", lambda: redis_client.llen(worker.key) < 200)
            wait_until(lambda: len(kills) > 8 or redis_client.llen(worker.key) < 20, "a pause")
        wait_until(lambda: len(kills) > 8, "enough kills", timeout_s=15)
    after = worker.ring(redis_client, count=20)
    worker.wait_for("the last are done", lambda: set(after) <= set(worker.events("done")))

    assert redis_client.llen(worker.key) == 0
    assert worker.events("began") == worker.events("done")
    assert worker.stop() == 0
    assert stats_of(worker)["busy"] == "0"
    assert sum(kills) > 8


def test_running_calls_survive_their_connection(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """A lost connection neither repeats what runs, nor lets more in than there are slots."""
    worker = make_worker(settings=settings.model_copy(update={"slots": 4})).start()
    running = worker.ring(redis_client, Deed.GATED, count=3)
    worker.wait_for("three run", lambda: len(worker.events("began")) == 3)
    for _ in range(3):
        # It has a free slot, so it is popping, and notices at once.
        old = set(connections_of_workers(redis_client))
        kill_connections(redis_client)
        worker.wait_for(
            "it is connected again",
            lambda old=old: set(connections_of_workers(redis_client)) - old,  # type: ignore[misc]
        )
    worker.ring(redis_client, Deed.GATED, count=9)
    worker.wait_for("four run", lambda: len(worker.events("began")) == 4)

    assert len(worker.events("began")) == 4
    assert redis_client.llen(worker.key) == 8
    worker.open_gate()
    worker.wait_for("all are done", lambda: len(worker.events("done")) == 12)
    assert len(worker.events("began")) == 12
    assert set(running) <= set(worker.events("done"))
    assert worker.stop() == 0


def test_a_doorbell_in_the_pipe_at_the_end_goes_back(
    make_worker: MakeWorker, redis_client: redis.Redis
) -> None:
    """Freeze a worker in its pop, ring, and end it: the doorbell is in the queue again."""
    worker = make_worker().start()
    worker.wait_for("it pops", lambda: is_popping(redis_client))
    worker.signal(signal.SIGSTOP)
    # The frozen worker is still blocked in its pop at the server, so this goes into its socket.
    worker.ring(redis_client)
    wait_until(lambda: redis_client.llen(worker.key) == 0, "the doorbell is on its way")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGCONT)

    assert worker.wait_end() == 0
    done = len(worker.events("done"))
    assert done + int(redis_client.llen(worker.key)) == 1


def test_a_restarted_server_is_found_again(
    make_worker: MakeWorker, settings: Settings, start_redis: StartRedis
) -> None:
    """Kill Redis under a running call; the call ends well and new ones come in."""
    server = start_redis(append_only=True)
    worker = make_worker(settings=settings.model_copy(update={"redis_url": server.url})).start()
    with redis.Redis.from_url(server.url) as client:
        worker.ring(client, Deed.GATED)
        worker.wait_for("it runs", lambda: worker.events("began"))
    server.kill()
    worker.wait_for("it notices", lambda: "Connection to broker lost" in worker.log())
    server.start()
    worker.open_gate()
    with redis.Redis.from_url(server.url) as client:
        worker.ring(client)
        worker.wait_for("both are done", lambda: len(worker.events("done")) == 2, timeout_s=30)

    assert worker.stop() == 0


def test_a_frozen_server_is_survived(
    make_worker: MakeWorker, settings: Settings, start_redis: StartRedis
) -> None:
    """SIGSTOP Redis until the worker gives its connection up, then let it go on."""
    server = start_redis()
    url = server.url
    worker = make_worker(settings=settings.model_copy(update={"redis_url": url})).start()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        worker.wait_for(
            "it gives the connection up",
            lambda: "dropping stale connection" in worker.log(),
            timeout_s=40,
        )
    finally:
        os.kill(server.pid, signal.SIGCONT)
    with redis.Redis.from_url(url) as client:
        worker.ring(client)
        worker.wait_for("it goes on", lambda: worker.events("done"), timeout_s=30)

    assert worker.stop() == 0


@pytest.mark.one_redis
def test_a_worker_waits_for_a_server_that_is_not_there_yet(
    make_worker: MakeWorker, settings: Settings, start_redis: StartRedis
) -> None:
    """Start the worker first; it retries until Redis comes."""
    server = start_redis()
    worker = make_worker(settings=settings.model_copy(update={"redis_url": server.url}))
    server.stop()
    worker.start(wait=False)
    worker.wait_for("it waits", lambda: "Trying again in" in worker.log())
    server.start()
    with redis.Redis.from_url(server.url) as client:
        worker.ring(client)
        worker.wait_for("it is done", lambda: worker.events("done"), timeout_s=30)

    assert worker.stop() == 0


@pytest.mark.one_redis
def test_a_closed_connection_leaves_nothing_in_the_hub(redis_url: str) -> None:
    """kombu alone would add one more function to every turn of the hub with every reconnect."""
    hub = Hub()
    with Connection(redis_url, transport=BATCH_ALIAS) as connection:
        connection.connect()
        connection.transport.register_with_event_loop(connection.connection, hub)
        during = len(hub.on_tick)
    after = len(hub.on_tick)
    hub.close()

    assert (during, after) == (1, 0)


def test_a_unix_socket_works(
    make_worker: MakeWorker, settings: Settings, redis_kind: str, tmp_path: Path
) -> None:
    """The batch transport also runs over a socket file, with a password and a database."""
    with EmbeddedRedis(
        tmp_path / "sock",
        program=redis_program(redis_kind),
        unix_socket=tmp_path / "r.sock",
        password="p w/d",
        append_only=False,
    ) as server:
        url = server.url.replace("db=0", "db=3")
        worker = make_worker(settings=settings.model_copy(update={"redis_url": url})).start()
        with redis.Redis.from_url(url) as client:
            worker.ring(client, count=10)
            worker.wait_for("all are done", lambda: len(worker.events("done")) == 10)

        assert worker.stop() == 0
        assert int(stats_of(worker)["pops"]) > 0


@pytest.mark.one_redis
def test_the_stock_transport_is_a_setting(
    make_worker: MakeWorker, redis_client: redis.Redis, settings: Settings
) -> None:
    """kombu's own transport handles, drains and ends in the same way."""
    worker = make_worker(settings=settings.model_copy(update={"transport": "stock"})).start()
    worker.ring(redis_client, count=10)
    worker.wait_for("all are done", lambda: len(worker.events("done")) == 10)

    assert worker.stop() == 0
    assert stats_of(worker)["pops"] == "0"


@pytest.mark.one_redis
def test_a_rabbitmq_broker_is_a_setting(
    make_worker: MakeWorker, settings: Settings, rabbitmq_url: str
) -> None:
    """Doorbells by AMQP: handled, counted against the slots, acknowledged during the drain."""
    chosen = settings.model_copy(update={"broker_url": rabbitmq_url, "slots": 2})
    worker = make_worker(settings=chosen).start()
    doorbells = [worker.doorbell(Deed.GATED) for _ in range(3)]
    with Connection(rabbitmq_url) as connection:
        producer = Producer(connection)
        for doorbell in doorbells:
            publish(producer, "mcp", doorbell, task_id=doorbell.task_id)
        producer.publish("garbage", exchange="", routing_key="mcp")
    worker.wait_for("two run", lambda: len(worker.events("began")) == 2)
    worker.signal(signal.SIGTERM)
    worker.wait_for("it drains", lambda: worker.events("drain"))
    worker.open_gate()

    assert worker.wait_end() == 0
    assert len(worker.events("done")) == 2
    worker.start()
    worker.wait_for("the third is done", lambda: len(worker.events("done")) == 3)
    assert worker.stop() == 0
    with Connection(rabbitmq_url) as connection:
        assert connection.SimpleQueue("mcp", serializer="json").qsize() == 0
