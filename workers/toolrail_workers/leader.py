"""Elect one of many workers, for as long as it shows that it is there.

Is: a Redis string with a TTL that holds the leader's token. Is not: a lock that anything may rely
on: two leaders at once do the same work twice, and the ledger's guards make that harmless.
Above: `reaper.py`. Below: `redis_io`.
"""

from redis.asyncio import Redis

from toolrail.redis_io import command, retrying

# KEYS[1] leader (string, TTL), ARGV token, ttl_ms. Returns 1 when the token leads now.
# A full Redis needs its reaper more than any other, so these may run there.
_HOLD = """#!lua flags=allow-oom
local leader = redis.call('GET', KEYS[1])
if leader == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if leader then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
# KEYS[1] leader (string, TTL), ARGV token. Returns 1 when the token led until now.
_RELEASE = """#!lua flags=allow-oom
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class Leadership:
    """One candidate."""

    def __init__(
        self, redis: Redis, *, key: str, token: str, ttl_ms: int, deadline_s: float
    ) -> None:
        self._redis = redis
        self._key = key
        self._token = token
        self._ttl_ms = ttl_ms
        self._deadline_s = deadline_s

    async def hold(self) -> bool:
        """Take or keep the lead; return whether we have it."""
        reply = await retrying(
            lambda: command(self._redis, "EVAL", _HOLD, 1, self._key, self._token, self._ttl_ms),
            deadline_s=self._deadline_s,
        )
        return reply == 1

    async def release(self) -> None:
        """Let another candidate lead at once."""
        await retrying(
            lambda: command(self._redis, "EVAL", _RELEASE, 1, self._key, self._token),
            deadline_s=self._deadline_s,
        )
