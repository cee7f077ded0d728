"""In what way Redis is away, in words: one test for each way.

Is: errors as redis-py raises them. Is not: a real socket (`integration/test_cli_reads.py`).
Above: nothing. Below: `toolrail.redis_away`.
"""

import socket

import pytest
from redis import exceptions as rx

from toolrail.redis_away import words_of


def after(cause: Exception, error: Exception) -> Exception:
    """Return the error as one that was raised while the cause was handled."""
    error.__context__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "first"),
    [
        (rx.TimeoutError("Timeout reading"), "Redis did not answer in time."),
        (TimeoutError(), "Redis did not answer in time."),
        (
            after(ConnectionRefusedError(), rx.ConnectionError("Error connecting")),
            "Nothing listens at the address of Redis: the connection was refused.",
        ),
        (
            rx.ConnectionError("Multiple exceptions: [Errno 111] ..., [Errno 111] ..."),
            "Nothing listens at the address of Redis: the connection was refused.",
        ),
        (after(socket.gaierror(), rx.ConnectionError("no")), "The host of Redis is not known."),
        (
            after(FileNotFoundError(), rx.ConnectionError("2")),
            "The socket of Redis does not exist.",
        ),
        (rx.ConnectionError("Connection closed by server."), "The connection to Redis broke."),
        (ConnectionResetError("Connection reset by peer"), "The connection to Redis broke."),
        (rx.BusyLoadingError("LOADING"), "Redis is loading its data."),
        (rx.ReadOnlyError("READONLY"), "Redis is a replica and takes no writes."),
        (rx.ResponseError("MISCONF"), "Redis refuses for now."),
    ],
)
def test_each_way_of_being_away_has_its_words(error: Exception, first: str) -> None:
    """Who reads "in time" looks at load; who reads "refused" starts the server."""
    assert words_of(error).startswith(
        f"{first} Check that it runs at TOOLRAIL_REDIS_URL; retrying is safe. Last error: "
    )
