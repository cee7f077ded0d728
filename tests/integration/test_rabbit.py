"""The RabbitMQ fixture starts a node that carries messages.

Is: a test of a test helper. Is not: our doorbells over RabbitMQ.
Above: nothing. Below: `tests/rabbit.py`.
"""

from kombu import Connection


def test_a_private_node_carries_a_message(rabbitmq_url: str) -> None:
    """What is put into one of our queues comes out again."""
    with Connection(rabbitmq_url) as connection:
        queue = connection.SimpleQueue("builtin")
        queue.put({"a": 1})
        message = queue.get(timeout=5)
        message.ack()
        queue.close()

    assert message.payload == {"a": 1}


def test_queues_do_not_survive_the_test(rabbitmq_url: str) -> None:
    """Whatever test ran before, the queue is not there."""
    with Connection(rabbitmq_url) as connection:
        queue = connection.SimpleQueue("builtin")

        assert queue.qsize() == 0

        queue.put({"left": "behind"})
        queue.close()
