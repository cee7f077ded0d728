"""Say in what way Redis is away: refused, unknown, too slow, or not serving yet.

Is: sentences from redis-py's errors. Is not: which errors are tried again (`redis_io.py`).
Above: `redis_io.py`. Below: redis-py.
"""

import errno
import socket

from redis import exceptions as rx

from toolrail.errors import RedisUnavailable


def words_of(error: Exception) -> str:
    """Return what to tell a person of an error that means that Redis is away."""
    first, _, remedy = RedisUnavailable.default_message().partition(". ")
    return f"{_how_away(error) or first}. {remedy} Last error: {type(error).__name__}: {error}"


def _how_away(error: BaseException) -> str:
    """Return in what way Redis is away, empty when all that is known is that no answer came."""
    # redis-py raises errors of its own while it handles those of the socket.
    causes = [error]
    while (below := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(below)
    # Of a host with several addresses asyncio tells all refusals in one error without a number.
    refusal = f"[Errno {errno.ECONNREFUSED}]"
    if any(isinstance(e, ConnectionRefusedError) or refusal in str(e) for e in causes):
        return "Nothing listens at the address of Redis: the connection was refused"
    if any(isinstance(e, socket.gaierror) for e in causes):
        return "The host of Redis is not known"
    if any(isinstance(e, FileNotFoundError) for e in causes):
        return "The socket of Redis does not exist"
    match error:
        case rx.BusyLoadingError():
            return "Redis is loading its data"
        case rx.ReadOnlyError():
            return "Redis is a replica and takes no writes"
        case rx.ResponseError():
            return "Redis refuses for now"
        case rx.TimeoutError() | TimeoutError():
            return ""
        case _:
            return "The connection to Redis broke"
