"""Know what was decided for a run, and count what it reads, where all workers see it.

Is: the chat of a run, how much of it exists, characters that were read. Is not: a chat or a skill.
Above: `library.py`. Below: the ledger's reader; a Redis hash for each run, which goes with its TTL.

All of it is async and belongs to the worker's loop; a tool in a thread asks through `library.py`.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from redis.asyncio import Redis

from toolrail.errors import SystemFailure
from toolrail.keys import Keys
from toolrail.ledger import LedgerReader
from toolrail.redis_io import command, retrying
from toolrail_schemas import RunSpec

RUNS_KEPT = 1_000
"""Runs whose facts a worker remembers; they never change."""
# KEYS[1] reads (hash, TTL), ARGV field, value, ttl_ms. Returns the value that the field has now.
_FIRST = """#!lua
redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
"""
# KEYS[1] reads (hash, TTL), ARGV field, call_key, wanted, cap, ttl_ms. Returns how much is given.
# Another attempt of a call gets what the first one got, and no more is counted.
_TAKE = """#!lua
local mine = ARGV[1] .. ':' .. ARGV[2]
local given = redis.call('HGET', KEYS[1], mine)
if not given then
  local left = tonumber(ARGV[4]) - tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
  given = math.max(0, math.min(tonumber(ARGV[3]), left))
  redis.call('HINCRBY', KEYS[1], ARGV[1], given)
  redis.call('HSET', KEYS[1], mine, given)
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return tonumber(given)
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a call asks for out of what its run may have in all."""

    run_id: str
    call_key: str
    what: str
    """Such as `skill_chars`."""
    wanted: int
    cap: int


class RunFacts(Protocol):
    """What library tools must know of a run."""

    async def chat_of(self, run_id: str) -> tuple[str, int | None] | None:
        """Return the id of the run's chat, and how much of it exists when that was said."""
        ...

    async def first(self, run_id: str, what: str, value: int) -> int:
        """Return the value that this was first asked with in the run, by any worker."""
        ...

    async def take(self, asked: Taken) -> int:
        """Return how much of it the call gets, maybe 0; its other attempts get as much."""
        ...


class LedgerFacts:
    """The facts of the runs of one cell."""

    def __init__(self, redis: Redis, *, prefix: str, ttl_s: float, deadline_s: float) -> None:
        """Prepare, ask nothing.

        Args:
            redis: Of the ledger.
            prefix: Of its keys.
            ttl_s: How long counts stay after the last use; longer than a run does.
            deadline_s: Patience with Redis.
        """
        self._redis = redis
        self._reader = LedgerReader(redis, prefix=prefix, deadline_s=deadline_s)
        self._keys = Keys(prefix)
        self._ttl_ms = int(ttl_s * 1000)
        self._deadline_s = deadline_s
        self._chats: OrderedDict[str, tuple[str, int | None] | None] = OrderedDict()

    async def chat_of(self, run_id: str) -> tuple[str, int | None] | None:
        """Return the id of the run's chat; see `RunFacts.chat_of`."""
        if run_id in self._chats:
            self._chats.move_to_end(run_id)
            return self._chats[run_id]
        text = await self._reader.run_spec(run_id)
        if text is None:
            raise SystemFailure("tool.internal_error", "The run's record is gone.")
        spec = RunSpec.model_validate_json(text)
        self._chats[run_id] = None if spec.chat is None else (spec.chat, spec.chat_messages)
        if len(self._chats) > RUNS_KEPT:
            self._chats.popitem(last=False)
        return self._chats[run_id]

    async def first(self, run_id: str, what: str, value: int) -> int:
        """Return the first value; see `RunFacts.first`."""
        return await self._count(run_id, _FIRST, what, value)

    async def take(self, asked: Taken) -> int:
        """Return how much the call gets; see `RunFacts.take`."""
        return await self._count(
            asked.run_id, _TAKE, asked.what, asked.call_key, asked.wanted, asked.cap
        )

    async def _count(self, run_id: str, script: str, *args: str | int) -> int:
        key = self._keys.reads(run_id)
        reply = await retrying(
            lambda: command(self._redis, "EVAL", script, 1, key, *args, self._ttl_ms),
            deadline_s=self._deadline_s,
        )
        return int(str(reply))


class LocalFacts:
    """The facts of one run that no ledger knows, for `toolrail try` and tests."""

    def __init__(self, *, chat: str | None = None, chat_messages: int | None = None) -> None:
        self._chat = None if chat is None else (chat, chat_messages)
        self._values: dict[tuple[str, ...], int] = {}

    async def chat_of(self, run_id: str) -> tuple[str, int | None] | None:
        """Return the chat of whatever run."""
        return self._chat

    async def first(self, run_id: str, what: str, value: int) -> int:
        """Return the first value; see `RunFacts.first`."""
        return self._values.setdefault((run_id, what), value)

    async def take(self, asked: Taken) -> int:
        """Return how much the call gets; see `RunFacts.take`."""
        mine = (asked.run_id, asked.what, asked.call_key)
        if mine not in self._values:
            used = self._values.get(mine[:2], 0)
            self._values[mine] = max(0, min(asked.wanted, asked.cap - used))
            self._values[mine[:2]] = used + self._values[mine]
        return self._values[mine]
