"""Keep large arguments, results and media by their SHA-256.

Is: content-addressed bytes in Redis with a TTL. Is not: the choice of what is large (settings).
Above: dispatcher, worker, client. Below: `redis_io`.
"""

from redis.asyncio import Redis

from toolrail.errors import BlobMissing
from toolrail.keys import Keys
from toolrail.redis_io import command, command_bytes, retrying
from toolrail_schemas import sha256_hex


class Blobs:
    """Bytes that outlive a message."""

    def __init__(self, redis: Redis, *, prefix: str, ttl_s: float, deadline_s: float) -> None:
        self._redis = redis
        self._keys = Keys(prefix)
        self._ttl_ms = int(ttl_s * 1000)
        self._deadline_s = deadline_s

    async def put(self, data: bytes) -> str:
        """The bytes are stored; returns their SHA-256. Storing twice only renews the TTL."""
        sha256 = sha256_hex(data)
        key = self._keys.blob(sha256)
        await retrying(
            lambda: command(self._redis, "SET", key, data, "PX", self._ttl_ms),
            deadline_s=self._deadline_s,
        )
        return sha256

    async def get(self, sha256: str) -> bytes:
        """Return the bytes.

        Raises:
            BlobMissing: Never stored here, or past its TTL.
        """
        key = self._keys.blob(sha256)
        data = await retrying(
            lambda: command_bytes(self._redis, "GET", key), deadline_s=self._deadline_s
        )
        if data is None:
            raise BlobMissing
        return data
