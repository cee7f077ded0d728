"""Refuse new calls while Redis is nearly full, so that running ones can still end.

Is: one cached look at Redis memory. Is not: the last line of defence (accepting scripts fail
when Redis is out of memory, finishing ones may use the reserve). Above: `client.py`. Below:
`redis_io`.
"""

import asyncio

from redis.asyncio import Redis

from toolrail.errors import AdmissionClosed
from toolrail.redis_io import retrying

FRESH_S = 1.0


class Admission:
    """Open or closed, at most one second old."""

    def __init__(self, redis: Redis, *, memory_ratio: float, deadline_s: float) -> None:
        self._redis = redis
        self._memory_ratio = memory_ratio
        self._deadline_s = deadline_s
        self._checked_at = float("-inf")
        self._share = 0.0

    @property
    def is_open(self) -> bool:
        """Whether new calls were welcome at the last look."""
        return self._share <= self._memory_ratio

    async def check(self) -> None:
        """New calls are welcome.

        Raises:
            AdmissionClosed: Redis uses more than its share of `maxmemory`.
        """
        now = asyncio.get_running_loop().time()
        if now - self._checked_at > FRESH_S:
            self._checked_at = now
            info = await retrying(lambda: self._redis.info("memory"), deadline_s=self._deadline_s)
            most = int(info.get("maxmemory") or 0)
            self._share = int(info["used_memory"]) / most if most else 0.0
        if not self.is_open:
            raise AdmissionClosed(
                f"Redis uses {self._share:.0%} of its maxmemory; new calls are refused above "
                f"{self._memory_ratio:.0%}. Retry later; add memory if it stays so."
            )
