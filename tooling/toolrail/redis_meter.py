"""Count what this process sees of Redis: how long replies take, and what goes wrong.

Is: plain numbers, cheap enough for every command of every call. Is not: their export
(`toolrail.metrics.process`) or the talking itself (`redis_io.py`).
Above: `redis_io.py` writes, on one event loop; any thread may read. Below: nothing of ours but the
edges and names of the catalogue.

Not prometheus_client's own histogram, which takes a lock and several calls for one value: with four
commands a call that was 4 % of a worker's time, and this is under 1 %.
"""

import time
from bisect import bisect_left

from redis import exceptions as rx

from toolrail.metrics.buckets import REDIS_S
from toolrail.metrics.labels import OPERATION, OTHER, REDIS_ERROR_KIND

OTHER_OPERATION = OTHER


class Span:
    """The durations of one operation."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(REDIS_S) + 1)
        """How many were at most as long as each edge and longer than the one before; the last
        were longer than all."""
        self.sum_s = 0.0


class RedisMeter:
    """The numbers of one process, or of one client of several in it."""

    def __init__(self) -> None:
        self.spans = {operation: Span() for operation in OPERATION.values}
        self.errors = dict.fromkeys(REDIS_ERROR_KIND.values, 0)
        self.answered_at = time.monotonic()
        """When a reply last came."""

    def took(self, operation: str, times: int, seconds: float) -> None:
        """Count replies that came after so long."""
        span = self.spans.get(operation) or self.spans[OTHER]
        span.counts[bisect_left(REDIS_S, seconds)] += times
        span.sum_s += seconds * times

    def heard(self) -> None:
        """Redis answers."""
        self.answered_at = time.monotonic()

    def failed(self, error: BaseException, times: int = 1) -> None:
        """Count commands that got an error instead of a reply."""
        self.errors[kind_of(error)] += times


def kind_of(error: BaseException) -> str:
    """Return the kind under which an error of redis-py or of the socket is counted."""
    for kind, classes in _KINDS:
        if isinstance(error, classes):
            return kind
    if isinstance(error, rx.ResponseError) and str(error).startswith("MISCONF"):
        return "misconf"
    return OTHER_KIND


OTHER_KIND = "other"
# In this order: some are subclasses of others.
_KINDS: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (
    ("timeout", (rx.TimeoutError, TimeoutError)),
    ("oom", (rx.OutOfMemoryError,)),
    ("readonly", (rx.ReadOnlyError,)),
    ("noscript", (rx.NoScriptError,)),
    ("conn", (rx.ConnectionError, OSError)),
)
