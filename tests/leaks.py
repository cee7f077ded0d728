"""Find Redis keys that would stay for ever.

Is: the check that every key has a TTL, is on the permanent list, or belongs to a run that is
still open. Is not: a cleaner. Above: the `redis_url` fixture. Below: `toolrail.keys.PERMANENT`.
"""

import fnmatch
import re
from collections.abc import Iterator
from typing import cast

import redis

from toolrail.keys import PERMANENT

DEFAULT_PREFIX = "toolrail:"


def leaked_keys(client: redis.Redis, key_prefix: str) -> list[str]:
    """Return the names of leaked keys in the client's database, sorted."""
    leaked: list[str] = []
    for raw in cast("Iterator[bytes]", client.scan_iter(count=1000)):
        name = raw.decode("utf-8", "backslashreplace")
        plain = name.removeprefix(key_prefix).removeprefix(DEFAULT_PREFIX)
        if any(fnmatch.fnmatchcase(plain, pattern) for pattern in PERMANENT):
            continue
        if client.ttl(raw) == -1 and not _of_open_run(client, name, plain):
            leaked.append(name)
    return sorted(leaked)


def _of_open_run(client: redis.Redis, name: str, plain: str) -> bool:
    """Return whether the key waits for the end of its run, which gives it a TTL."""
    match = re.match(r"run:[^:]+", plain)
    if match is None:
        return False
    run_key = name[: len(name) - len(plain)] + match[0]
    return client.hget(run_key, "status") == b"open"
