"""Hear of cancelled calls at once, instead of at the next renewal.

Is: the reader of this worker's nudge stream. Is not: the truth of a cancel, which is a flag in
the call's record. Above: `runtime.py`. Below: `renewals.py`, `redis_io`.
"""

import asyncio
import logging

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
    """Cancel hints for one worker."""

    def __init__(self, blocking: Redis, *, keys: Keys, worker: str, renewals: Renewals) -> None:
        self._redis = blocking
        self._stream = keys.nudge(worker)
        self._renewals = renewals

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
                self._renewals.cancel(fields["run"], fields["call"])
