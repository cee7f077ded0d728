"""Hear of cancelled calls and of drains at once, instead of at the next round.

Is: the reader of this worker's nudge stream. Is not: the truth of either, which is a flag in the
call's record, or a key. Above: `runtime.py`. Below: `renewals.py`, `redis_io`.
"""

import asyncio
import logging
from collections.abc import Callable

from redis.asyncio import Redis
from redis.exceptions import RedisError as RedisPyError

from toolrail.keys import Keys
from toolrail.redis_io import xread
from toolrail_workers.renewals import Renewals

log = logging.getLogger(__name__)

READ_MAX = 1000
BLOCK_MS = 5000
PAUSE_S = 1.0


class Nudges:
    """Hints for one worker."""

    def __init__(
        self,
        blocking: Redis,
        *,
        keys: Keys,
        worker: str,
        renewals: Renewals,
        on_drain: Callable[[], None],
    ) -> None:
        """Prepare.

        Args:
            blocking: A connection that may wait for entries.
            keys: Of the cell.
            worker: Id of this worker.
            renewals: Told of cancelled calls.
            on_drain: Called when a drain was asked for or undone.
        """
        self._redis = blocking
        self._stream = keys.nudge(worker)
        self._renewals = renewals
        self._on_drain = on_drain

    async def run(self) -> None:
        """Read for ever; a Redis that is away only makes cancels slower."""
        last = "0-0"
        while True:
            try:
                entries = await xread(
                    self._redis, {self._stream: last}, count=READ_MAX, block_ms=BLOCK_MS
                )
            except (RedisPyError, OSError) as error:
                log.warning("nudges.unreadable", extra={"reason": type(error).__name__})
                await asyncio.sleep(PAUSE_S)
                continue
            for _, entry_id, fields in entries:
                last = entry_id
                if "drain" in fields:
                    self._on_drain()
                elif "call" in fields:
                    self._renewals.cancel(fields["run"], fields["call"])
