"""Look at the ledger's own books: does everything add up, and does somebody settle what is due.

Is: conservation, overdue leases and deadlines, the reaper, approvals, dead letters, an empty place.
Is not: the queues (`queues.py`). Above: `examine.py`. Below: `paging.py`, the ledger's reader.
"""

from collections.abc import Iterator
from typing import cast

from redis.asyncio import Redis

from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.ledger import LedgerReader, unaccounted
from toolrail.paging import Pages
from toolrail.spans import age_text

OVERDUE_MS = 30_000
"""What is due is settled within a second or two; after this nobody does it."""
EXPIRES_SOON_MS = 60_000


async def check_books(
    redis: Redis, *, prefix: str, place: str, deadline_s: float, has_workers: bool
) -> list[Finding]:
    """Return what the books say.

    Args:
        redis: Of the ledger.
        prefix: Of its keys.
        place: What to call it.
        deadline_s: Patience with Redis.
        has_workers: Whether any worker lives, and so a reaper should.

    Raises:
        RedisError: It refuses, or does not answer.
    """
    pages = Pages(redis, prefix=prefix, deadline_s=deadline_s)
    reader = LedgerReader(redis, prefix=prefix, deadline_s=deadline_s)
    totals, now_ms = await reader.totals(), await reader.now_ms()
    if not totals and not has_workers:
        fix = "If there should be: TOOLRAIL_KEY_PREFIX and the database must be the workers'."
        return [warn("ledger", f"nothing was ever called under {place}", fix)]
    return [
        judge_balance(totals),
        *await _due(pages, now_ms, has_workers=has_workers),
        await _approvals(pages, now_ms),
        await _letters(pages, now_ms),
    ]


def judge_balance(totals: dict[str, int]) -> Finding:
    """Return whether every accepted call is finished or open."""
    missing = unaccounted(totals)
    if missing == 0:
        return ok("ledger", "every accepted call is finished or open")
    seen = f"{abs(missing)} calls are {'lost' if missing > 0 else 'counted twice'}"
    fix = "Was Redis restored, or were keys deleted? If not, it is a bug: report it with `totals`."
    return fail("ledger", seen, fix)


async def _due(pages: Pages, now_ms: int, *, has_workers: bool) -> list[Finding]:
    keys, late_ms = pages.keys, now_ms - OVERDUE_MS
    counts = {
        "leases": await pages.ask("ZCOUNT", keys.leases, "-inf", late_ms),
        "deadlines": await pages.ask("ZCOUNT", keys.deadlines, "-inf", late_ms),
        "approvals": await pages.ask("ZCOUNT", keys.approvals, "-inf", late_ms),
    }
    leader = await pages.ask("GET", keys.reaper_leader)
    late = [f"{count} {name}" for name, count in counts.items() if int(str(count))]
    return list(judge_due(late, has_leader=leader is not None, has_workers=has_workers))


def judge_due(late: list[str], *, has_leader: bool, has_workers: bool) -> Iterator[Finding]:
    """Return what it means that these are overdue, and whether somebody settles them."""
    if late:
        seen = f"overdue by {age_text(OVERDUE_MS)} and not settled: {', '.join(late)}"
        fix = "Start a worker; if some live, look for reaper.* in their logs and restart them."
        yield fail("reaper", seen, fix)
    elif has_workers and not has_leader:
        seen = "workers live, but none of them leads as reaper"
        yield warn("reaper", seen, "Look again in five seconds; then at reaper.* in their logs.")
    elif has_leader:
        yield ok("reaper", "one worker leads, and nothing is overdue")


async def _approvals(pages: Pages, now_ms: int) -> Finding:
    count = await pages.size(pages.keys.approvals)
    if count == 0:
        return ok("approvals", "nobody is asked")
    reply = await pages.ask("ZRANGE", pages.keys.approvals, 0, 0, "WITHSCORES")
    left_ms = int(float(cast("list[str]", reply)[1])) - now_ms
    seen = f"{count} calls wait for a person; the first expires in {age_text(left_ms)}"
    if left_ms > EXPIRES_SOON_MS:
        return ok("approvals", seen)
    return warn("approvals", seen, "toolrail approvals list")


async def _letters(pages: Pages, now_ms: int) -> Finding:
    count = await pages.size(pages.keys.dead_letters)
    if count == 0:
        return ok("letters", "there is no dead letter")
    reply = await pages.ask("ZREVRANGE", pages.keys.dead_letters, 0, 0, "WITHSCORES")
    age_ms = now_ms - int(float(cast("list[str]", reply)[1]))
    seen = f"{count} dead letters, the newest {age_text(age_ms)} old"
    return warn("letters", seen, "toolrail dlq list")
