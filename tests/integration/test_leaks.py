"""The key leak check finds what would stay for ever, and nothing else.

Is: a test of a test helper. Is not: the ledger's own leak freedom (every test checks that).
Above: nothing. Below: `tests/leaks.py`.
"""

import redis

from tests.leaks import leaked_keys
from tests.promises import promise


@promise("redis.nothing-leaks")
def test_a_key_without_ttl_is_a_leak(redis_client: redis.Redis, key_prefix: str) -> None:
    """Under the test's prefix or anywhere else in its database."""
    redis_client.set(f"{key_prefix}blob:1", "x")
    redis_client.set("elsewhere", "x")

    assert leaked_keys(redis_client, key_prefix) == ["elsewhere", f"{key_prefix}blob:1"]

    redis_client.flushdb()


def test_a_key_with_ttl_or_on_the_permanent_list_is_none(
    redis_client: redis.Redis, key_prefix: str
) -> None:
    """Both under the test's prefix and under the default one."""
    redis_client.set(f"{key_prefix}blob:1", "x", ex=60)
    redis_client.hset(f"{key_prefix}totals", "x", "1")
    redis_client.set("toolrail:journal:all", "x")

    assert leaked_keys(redis_client, key_prefix) == []


def test_the_keys_of_a_run_leak_only_once_it_ended(
    redis_client: redis.Redis, key_prefix: str
) -> None:
    """While a run is open its keys wait for its end, which gives them their TTL."""
    run = f"{key_prefix}run:run_1"
    redis_client.hset(run, "status", "open")
    redis_client.xadd(f"{run}:journal", {"a": 1}, id="1-0")

    assert leaked_keys(redis_client, key_prefix) == []

    redis_client.hset(run, "status", "completed")

    assert leaked_keys(redis_client, key_prefix) == [run, f"{run}:journal"]

    redis_client.flushdb()
