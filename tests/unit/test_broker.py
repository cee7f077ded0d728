"""Which broker, transport and options a worker gets from its settings.

Is: `find_broker` and what kombu makes of its URLs. Is not: a connection. Above: pytest.
Below: `toolrail_workers.broker`.
"""

import ssl

import pytest
from kombu import Connection
from kombu.transport import pyamqp, redis

from toolrail.settings import Settings
from toolrail_workers import transport
from toolrail_workers.broker import Broker, find_broker


def broker_of(**values: object) -> Broker:
    return find_broker(Settings.model_validate(values))


def connection_of(broker: Broker) -> Connection:
    return Connection(broker.url, transport=broker.transport, transport_options=broker.options)


def test_our_redis_is_popped_in_batches_under_our_prefix() -> None:
    """Without a broker of its own, the ledger's Redis carries the doorbells."""
    broker = broker_of(redis_url="redis://h:7/3", key_prefix="shop:")

    assert broker.batch
    assert broker.options["global_keyprefix"] == "shop:"
    assert broker.options["ack_emulation"] is False
    assert connection_of(broker).get_transport_cls() is transport.Transport


def test_the_stock_transport_differs_in_nothing_else() -> None:
    """The fallback has the same URL and options."""
    batch, stock = broker_of(), broker_of(transport="stock")

    assert (stock.url, stock.options) == (batch.url, batch.options)
    assert not stock.batch
    assert connection_of(stock).get_transport_cls() is redis.Transport


def test_a_foreign_redis_has_no_prefix() -> None:
    """Who publishes to a foreign broker names the queue plainly."""
    broker = broker_of(broker_url="redis://elsewhere/1")

    assert broker.url == "redis://elsewhere/1"
    assert broker.batch
    assert "global_keyprefix" not in broker.options


def test_rabbitmq_gets_no_options_of_redis() -> None:
    """Another scheme is kombu's own business."""
    broker = broker_of(broker_url="amqp://u:p@h/v")

    assert (broker.transport, broker.options, broker.batch) == (None, {}, False)
    assert connection_of(broker).get_transport_cls() is pyamqp.Transport


@pytest.mark.parametrize("choice", ["batch", "stock"])
def test_tls_stays_on(choice: str) -> None:
    """A rediss:// URL keeps its certificate check with either transport."""
    broker = broker_of(redis_url="rediss://h:7/3?ssl_cert_reqs=required", transport=choice)
    connection = connection_of(broker)

    assert connection.ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED}


@pytest.mark.parametrize(
    ("choice", "kind"), [("batch", transport.Transport), ("stock", redis.Transport)]
)
def test_a_socket_file_keeps_path_password_and_database(choice: str, kind: type) -> None:
    """redis-py and kombu spell socket URLs differently."""
    broker = broker_of(redis_url="unix://:p%20w@/run/r%20x.sock?db=4", transport=choice)
    connection = connection_of(broker)

    assert connection.get_transport_cls() is kind
    assert connection.hostname == "socket://:p%20w@/run/r%20x.sock?virtual_host=4"


def test_a_pop_waits_shorter_than_its_socket() -> None:
    """An empty queue must answer before the socket's patience is over."""
    options = broker_of(redis_timeout_s=0.1).options

    assert float(str(options["socket_timeout"])) > float(str(options["polling_interval"]))


def test_naming_the_ledgers_redis_as_the_broker_changes_nothing() -> None:
    """The dispatcher then rings in its own step, under the prefix, so that is where to listen."""
    url = "redis://redis.example:6379/3"

    assert broker_of(redis_url=url, broker_url=url) == broker_of(redis_url=url)
