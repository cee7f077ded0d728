"""Connect an operator command to Redis; no secret and no policy folder is needed to look.

Is: one connection for one command. Is not: a client (`toolrail.client`), which makes calls.
Above: commands that read the ledger. Below: `toolrail.redis_io`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from redis.asyncio import Redis

from toolrail.redis_io import connect
from toolrail.settings import Settings
from toolrail.urls import redact_url


@asynccontextmanager
async def reading(settings: Settings) -> AsyncGenerator[Redis]:
    """Give a connection, and close it."""
    redis = connect(settings.redis_url, timeout_s=settings.redis_timeout_s, name="toolrail-cli")
    try:
        yield redis
    finally:
        await redis.aclose()


def place(settings: Settings) -> str:
    """Return where an answer comes from; an empty one is often a wrong place."""
    return f"{settings.key_prefix} in {redact_url(settings.redis_url)}"
