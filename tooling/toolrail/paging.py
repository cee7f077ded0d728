"""Read many records for a person or a machine, a page at a time.

Is: pages of a zset, and chosen fields of many hashes in few round trips. Is not: what the records
mean (`queues.py`, `runs.py`, `dead_letters.py`), or single records (`ledger/reader.py`).
Above: those modules. Below: `redis_io`.

No command here takes longer than a page: Redis serves calls meanwhile.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.redis_io import Argument, command, retrying

PAGE = 500
SCAN_COUNT = 2_000
"""Fields of a hash in one step, which holds Redis up for less than a millisecond."""


class Pages:
    """Bounded reads of one cell; each retries while Redis is away."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._redis = redis
        self.keys = Keys(prefix)
        self._deadline_s = deadline_s

    async def ask(self, *args: Argument) -> object:
        """Return the reply of one command that only reads."""
        return await retrying(lambda: command(self._redis, *args), deadline_s=self._deadline_s)

    async def ask_each(self, lines: Sequence[Sequence[Argument]]) -> list[object]:
        """Return the replies of commands that only read, in order, a round trip for each page."""
        replies: list[object] = []
        for start in range(0, len(lines), PAGE):
            replies += await self._batch(lines[start : start + PAGE])
        return replies

    async def fields(self, keys: Sequence[str], names: Sequence[str]) -> list[dict[str, str]]:
        """Return the named fields of each hash; absent fields, and hashes, are left out."""
        replies = await self.ask_each([("HMGET", key, *names) for key in keys])
        rows = cast("list[list[str | None]]", replies)
        return [
            {name: value for name, value in zip(names, row, strict=True) if value is not None}
            for row in rows
        ]

    async def scan(self, key: str, *, match: str = "*") -> dict[str, str]:
        """Return the fields of a large hash whose names match a glob, read a step at a time.

        What is added or removed meanwhile may be missed; nothing else is.
        """
        cursor, found = 0, dict[str, str]()
        while True:
            reply = await self.ask("HSCAN", key, cursor, "MATCH", match, "COUNT", SCAN_COUNT)
            cursor, fields = cast("tuple[int, dict[str, str]]", reply)
            found |= fields
            if int(cursor) == 0:
                return found

    async def size(self, zset: str) -> int:
        """Return how many members a zset has."""
        return int(str(await self.ask("ZCARD", zset)))

    async def newest(self, zset: str) -> AsyncIterator[list[tuple[str, int]]]:
        """Yield pages of (member, score), highest score first, each member once.

        What is added or removed meanwhile may be missed; nothing else is.
        """
        seen: set[str] = set()
        start = 0
        while True:
            reply = await self.ask("ZREVRANGE", zset, start, start + PAGE - 1, "WITHSCORES")
            flat = cast("list[str]", reply)
            found = list(zip(flat[::2], flat[1::2], strict=True))
            page = [(member, int(float(score))) for member, score in found if member not in seen]
            seen.update(member for member, _ in page)
            if page:
                yield page
            if len(found) < PAGE:
                return
            start += PAGE

    async def _batch(self, lines: Sequence[Sequence[Argument]]) -> list[object]:
        async def once() -> list[object]:
            pipe = self._redis.pipeline(transaction=False)
            for line in lines:
                pipe.execute_command(*line)
            return cast("list[object]", await pipe.execute())

        return await retrying(once, deadline_s=self._deadline_s)


def number(fields: Mapping[str, str], name: str) -> int:
    """Return a field as an integer; 0 when it is absent or not a number, as of another version."""
    try:
        return int(float(fields.get(name) or 0))
    except (ValueError, OverflowError):
        return 0
