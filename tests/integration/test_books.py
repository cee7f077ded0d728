"""The check of the books finds a call that was lost or doubled, and fails whatever test lost it.

Is: a test of a test helper. Is not: the conservation law itself (every test on a server checks
that). Above: nothing. Below: `tests/books.py`, `tests/servers.py`.
"""

from collections.abc import AsyncIterator

import pytest
import redis

from tests.books import imbalances
from tests.calls import LedgerBench, ledger_bench
from tests.promises import promise
from tests.servers import fail_unless_failed
from toolrail.ledger import Claim
from toolrail.settings import Settings


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[LedgerBench]:
    """Give a bench with one call in each state."""
    async with ledger_bench(settings) as bench:
        for call_id in ("done", "running", "queued"):
            await bench.ledger.dispatch(bench.new_call(call_id))
        await bench.ledger.dispatch(await bench.parked_call("parked"))
        for call_id in ("done", "running"):
            claim = await bench.ledger.claim(
                bench.run_id, bench.key(call_id), attempt=1, nonce="n", worker="w", lease_ms=60_000
            )
            assert isinstance(claim, Claim)
        ending = await bench.ending("done")
        await bench.ledger.finish(bench.run_id, bench.key("done"), ending, fence=1, actor="w")
        yield bench


def test_the_books_of_every_state_balance(
    bench: LedgerBench, redis_client: "redis.Redis", key_prefix: str
) -> None:
    """One call each that waits, runs, is parked and has ended."""
    assert redis_client.hget(f"{key_prefix}totals", "accepted:builtin") == b"4"
    assert imbalances(redis_client) == []


@promise("call.never-unaccounted")
@pytest.mark.parametrize(
    ("field", "by"),
    [
        ("accepted:mcp", 1),
        ("finished:builtin:ok", 1),
        ("finished:builtin:ok", -1),
        ("open:builtin:running", -1),
    ],
)
def test_totals_that_were_tampered_with_fail_the_test_that_left_them(
    bench: LedgerBench,
    redis_client: "redis.Redis",
    key_prefix: str,
    request: pytest.FixtureRequest,
    field: str,
    by: int,
) -> None:
    """By what the fixture of every database does after its test."""
    redis_client.hincrby(f"{key_prefix}totals", field, by)

    with pytest.raises(pytest.fail.Exception, match="unaccounted for"):
        fail_unless_failed(request, imbalances(redis_client))
    redis_client.flushdb()


@pytest.mark.parametrize(
    ("zset", "state"),
    [("leases", "running"), ("approvals", "awaiting_approval"), ("queued:builtin", "queued")],
)
def test_a_call_that_nobody_holds_any_more_is_found(
    bench: LedgerBench, redis_client: "redis.Redis", key_prefix: str, zset: str, state: str
) -> None:
    """It is counted as open, and no reaper would ever look at it."""
    redis_client.delete(f"{key_prefix}{zset}")

    assert f"1 calls are counted as {state}, and 0 are held as such" in imbalances(redis_client)
    redis_client.flushdb()


def test_a_question_that_one_list_does_not_hold_is_found(
    bench: LedgerBench, redis_client: "redis.Redis"
) -> None:
    """Those of all, of the runs and of the queues hold the same calls."""
    redis_client.delete(bench.keys.run_approvals(bench.run_id), bench.keys.asked("builtin"))
    by_run, by_time = imbalances(redis_client)

    assert by_run.endswith("{} by run")
    assert by_time.endswith("[0, 0, 0, 0] by when they were asked")
    redis_client.flushdb()
