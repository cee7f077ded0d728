"""Tell which Redis or Valkey answers, and refuse one that is too old.

Is: a pure reading of `INFO server`. Is not: a connection. Above: `redis_io.py`, `embedded.py`,
`toolrail doctor`. Below: nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from toolrail.errors import RedisTooOld

OLDEST = (7, 0)
"""Functions the scripts rely on, such as the `allow-oom` flag and exact stream lag, are of 7.0."""


@dataclass(frozen=True, kw_only=True)
class ServerVersion:
    """What a server says it is.

    Attributes:
        product: `redis` or `valkey`.
        version: The product's own version, such as (9, 1, 2).
        redis_version: The Redis version it is compatible with; equal for Redis itself.
    """

    product: str
    version: tuple[int, ...]
    redis_version: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"


def read_version(info: Mapping[str, object]) -> ServerVersion:
    """Return the version in an `INFO server` reply.

    Valkey announces itself as `valkey_version` and keeps `redis_version` at 7.2.4 for clients.

    Raises:
        RedisTooOld: The server is older than 7.0, or does not say.
    """
    redis_version = _numbers(info.get("redis_version"))
    if redis_version < OLDEST:
        said = info.get("redis_version", "no version")
        raise RedisTooOld(f"The server says {said}. Use Redis 7.0 or newer, or any Valkey.")
    if "valkey_version" in info:
        version = _numbers(info["valkey_version"])
        return ServerVersion(product="valkey", version=version, redis_version=redis_version)
    return ServerVersion(product="redis", version=redis_version, redis_version=redis_version)


def _numbers(text: object) -> tuple[int, ...]:
    """Return the leading numeric parts; a release candidate's suffix does not count."""
    numbers: list[int] = []
    for part in str(text).split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
