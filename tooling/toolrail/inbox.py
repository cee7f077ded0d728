"""Wait for outcomes: one reader per process serves every waiting call.

Is: the client's result stream, and futures by call. Is not: the truth; an entry may be trimmed
or lost, so who waits also rereads the record. Above: `client.py`. Below: `redis_io`.
"""

import asyncio
import logging
from collections import OrderedDict

from redis.asyncio import Redis
from redis.exceptions import RedisError as RedisPyError

from toolrail.keys import Keys
from toolrail.redis_io import xread
from toolrail.tasks import end_task

log = logging.getLogger(__name__)

READ_MAX = 1000
BLOCK_MS = 1000
UNCLAIMED_MAX = 10_000
"""Outcomes that came before anybody waited for them; older ones are reread from the record."""
PAUSE_S = 0.2


class Inbox:
    """The outcomes of the calls one client dispatched."""

    def __init__(self, blocking: Redis, *, keys: Keys, client: str) -> None:
        self._redis = blocking
        self._stream = keys.inbox(client)
        self._waiting: dict[tuple[str, str], asyncio.Future[str]] = {}
        self._unclaimed: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def expect(self, run_id: str, call_key: str) -> "asyncio.Future[str]":
        """Return a future of the result's JSON; empty when the record has it."""
        key = (run_id, call_key)
        known = self._waiting.get(key)
        if known is not None:
            return known
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        early = self._unclaimed.pop(key, None)
        if early is not None:
            future.set_result(early)
            return future
        self._waiting[key] = future
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read(), name="toolrail-inbox")
        return future

    def forget(self, run_id: str, call_key: str) -> None:
        """Nobody waits for this call any more."""
        self._waiting.pop((run_id, call_key), None)

    async def close(self) -> None:
        """Stop reading; who still waits is cancelled."""
        await end_task(self._task)
        for future in self._waiting.values():
            future.cancel()
        self._waiting.clear()

    async def _read(self) -> None:
        last, is_away = "0-0", False
        while True:
            try:
                entries = await xread(
                    self._redis, {self._stream: last}, count=READ_MAX, block_ms=BLOCK_MS
                )
            except (RedisPyError, OSError) as error:
                # The record has every outcome; a reader that comes back late only adds latency.
                if not is_away:
                    log.warning(
                        "inbox.unreadable: Redis is away; results come when it is back",
                        extra={"reason": type(error).__name__},
                    )
                is_away = True
                await asyncio.sleep(PAUSE_S)
                continue
            is_away = False
            for _, entry_id, fields in entries:
                last = entry_id
                self._deliver((fields["run"], fields["call"]), fields.get("r", ""))

    def _deliver(self, key: tuple[str, str], result: str) -> None:
        future = self._waiting.pop(key, None)
        if future is None:
            self._unclaimed[key] = result
            if len(self._unclaimed) > UNCLAIMED_MAX:
                self._unclaimed.popitem(last=False)
        elif not future.done():
            future.set_result(result)
