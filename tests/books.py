"""Check that the ledger's books balance: no call is lost or doubled.

Is: the conservation law, and the counters of open calls against the sets that hold them. Is not:
what the counters by tool or duration say (`tests/totals.py`). Above: the server fixtures, which
check every database after its test. Below: `toolrail.ledger`.
"""

from collections.abc import Iterator
from typing import cast

import redis

from toolrail.keys import Keys
from toolrail.ledger import unaccounted
from toolrail.metrics.labels import SOURCES

TOTALS = "totals"
PARKED_BY_RUN = """
local found = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local run_id = string.match(key, 'run:([^:]+):approvals$')
  local page = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  for i = 1, #page, 2 do
    found[#found + 1] = run_id .. '|' .. page[i]
    found[#found + 1] = page[i + 1]
  end
end
return found
"""
"""The parked calls that the runs' own lists hold: `run|call`, expiry, ...."""


def imbalances(client: "redis.Redis") -> list[str]:
    """Return what does not balance, a sentence each, over all prefixes of the client's database."""
    keys = cast("Iterator[bytes]", client.scan_iter(match=f"*{TOTALS}", count=1000))
    prefixes = sorted(key.decode().removesuffix(TOTALS) for key in keys)
    return [sentence for prefix in prefixes for sentence in _of_one(client, Keys(prefix))]


def _of_one(client: "redis.Redis", keys: Keys) -> Iterator[str]:
    # One transaction: workers may still be at it.
    pipe = client.pipeline(transaction=True)
    pipe.hgetall(keys.totals)
    pipe.zcard(keys.leases)
    pipe.zrange(keys.approvals, 0, -1, withscores=True)
    pipe.eval(PARKED_BY_RUN, 0, keys.run_approvals("*"))
    for source in SOURCES:
        pipe.zcard(keys.queued(source))
        pipe.zcard(keys.asked(source))
    raw, leases, parked, by_run, *by_source = cast("list[object]", pipe.execute())
    queued, asked = cast("list[int]", by_source[::2]), cast("list[int]", by_source[1::2])
    counters = cast("dict[bytes, bytes]", raw)
    totals = {name.decode(): int(value) for name, value in counters.items()}
    of_all = dict(cast("list[tuple[bytes, float]]", parked))
    flat = cast("list[bytes]", by_run)
    of_runs = {member: float(ms) for member, ms in zip(flat[::2], flat[1::2], strict=True)}
    if of_runs != of_all:
        yield f"calls that wait for a person: {of_all} in all, {of_runs} by run"
    waiting = [totals.get(f"open:{source}:awaiting_approval", 0) for source in SOURCES]
    if asked != waiting:
        yield f"calls that wait for a person: {waiting} by source, {asked} by when they were asked"
    off = unaccounted(totals)
    if off:
        yield f"{off} calls are unaccounted for: accepted - finished - open is not 0 in {totals}"
    for state, held in {
        "running": leases,
        "awaiting_approval": len(of_all),
        "queued": sum(queued),
    }.items():
        counted = sum(totals.get(f"open:{source}:{state}", 0) for source in SOURCES)
        if counted != held:
            yield f"{counted} calls are counted as {state}, and {held} are held as such"
