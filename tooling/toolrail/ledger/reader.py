"""Read what the ledger holds.

Is: records of runs and calls, what is due, totals. Is not: changing any of them (`ledger.py`), or
the journal (`journal.py`). Above: client, reaper, CLI. Below: `redis_io`, `keys`, `paging`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.ledger.records import StoredCall
from toolrail.paging import Pages
from toolrail.redis_io import Argument, retrying, round_trips_of
from toolrail_schemas import QueueName

START = "0"
"""Where pages of a set begin, and what follows the last of them."""
ENDED = frozenset({"completed", "failed", "denied", None})
RUN_FIELDS = (
    "status",
    "code",
    "detail",
    "ending",
    "ending_code",
    "finishing",
    "seq",
    "opened_ms",
    "ended_ms",
    "spec",
    "digest",
    "tenant",
    "profile",
    "policy_hash",
    "client",
    "retention_ms",
    "denied",
    "unknown",
    "max_denied",
    "max_unknown",
)
"""What a run's record says of the run itself; it also holds a field or two for each call and turn,
which nobody reads as a whole."""


@dataclass(frozen=True, slots=True)
class Due:
    """One member of a zset whose score has passed."""

    run_id: str
    call_key: str
    score: int


class LedgerReader:
    """All reads of runs and calls; each retries while Redis is away."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._round_trips = round_trips_of(redis)
        self._keys = Keys(prefix)
        self._pages = Pages(redis, prefix=prefix, deadline_s=deadline_s)
        self._deadline_s = deadline_s

    async def now_ms(self) -> int:
        """Return the server's clock, the only one that decides."""
        seconds, micros = cast("list[str]", await self._ask("TIME"))
        return int(seconds) * 1000 + int(micros) // 1000

    async def run(self, run_id: str) -> Mapping[str, str] | None:
        """Return what the run's record says of the run itself (`RUN_FIELDS`), or None."""
        reply = await self._ask("HMGET", self._keys.run(run_id), *RUN_FIELDS)
        values = zip(RUN_FIELDS, cast("list[str | None]", reply), strict=True)
        record = {name: value for name, value in values if value is not None}
        return record if "status" in record else None

    async def run_used(self, run_id: str) -> dict[str, int]:
        """Return the budget units that the run has taken, by tool."""
        # The record grows with the run's calls and turns, so it is never read in one step.
        fields = await self._pages.scan(self._keys.run(run_id), match="used:*")
        return {name.removeprefix("used:"): int(units) for name, units in fields.items()}

    async def run_spec(self, run_id: str) -> str | None:
        """Return what the run was opened with, as JSON, or None; its record may be a large hash."""
        return cast("str | None", await self._ask("HGET", self._keys.run(run_id), "spec"))

    async def policy(self, policy_hash: str) -> str | None:
        """Return the stored policy of this hash, or None."""
        return cast("str | None", await self._ask("GET", self._keys.policy(policy_hash)))

    async def call(self, run_id: str, call_key: str) -> StoredCall | None:
        """Return the call's record, or None."""
        fields = await self._hash(self._keys.call(run_id, call_key))
        return StoredCall(run_id, call_key, fields) if fields else None

    async def call_fields(
        self, calls: Sequence[tuple[str, str]], names: Sequence[str]
    ) -> list[dict[str, str]]:
        """Return the named fields of many calls, each (run_id, call_key), without absent ones."""
        return await self._pages.fields([self._keys.call(*call) for call in calls], names)

    async def has_ended(self, run_id: str, call_key: str) -> bool:
        """Return whether the call has its outcome, or is forgotten; cheaper than its record."""
        state = await self._ask("HGET", self._keys.call(run_id, call_key), "state")
        return state in ENDED

    async def has_open(self, run_id: str) -> bool:
        """Return whether a call of the run has no outcome."""
        return bool(await self._ask("EXISTS", self._keys.open_calls(run_id)))

    async def open_calls(
        self, run_id: str, *, after: str = START, limit: int
    ) -> tuple[list[str], str]:
        """Return about `limit` call keys without an outcome, and what to go on after.

        Once that is `START` again, all were given that were open from the first page on; one may
        come twice.
        """
        key = self._keys.open_calls(run_id)
        reply = await self._ask("SSCAN", key, after, "COUNT", limit)
        cursor, names = cast("tuple[str, list[str]]", reply)
        return names, str(cursor)

    async def parked(self) -> list[tuple[str, str]]:
        """Return (run_id, call_key) of every call that waits for a person, first to expire first.

        Without their records, which weigh fifty times as much.
        """
        members = cast("list[str]", await self._ask("ZRANGE", self._keys.approvals, 0, -1))
        return [(run_id, key) for run_id, _, key in (member.partition("|") for member in members)]

    async def due(self, zset: str, *, until: int, limit: int = 200) -> list[Due]:
        """Return members of `run|call` zsets whose score is at most `until`, lowest first."""
        flat = cast(
            "list[str]",
            await self._ask("ZRANGEBYSCORE", zset, "-inf", until, "WITHSCORES", "LIMIT", 0, limit),
        )
        out: list[Due] = []
        for member, score in zip(flat[::2], flat[1::2], strict=True):
            run_id, _, call_key = member.partition("|")
            out.append(Due(run_id, call_key, int(float(score))))
        return out

    async def totals(self) -> dict[str, int]:
        """Return the fleet's counters."""
        return {name: int(value) for name, value in (await self._hash(self._keys.totals)).items()}

    async def ring_number(self, queue: str, member: str) -> int | None:
        """Return the ring number of a queued `run|call`, or None when it is not queued."""
        score = cast("str | None", await self._ask("ZSCORE", self._keys.queued(queue), member))
        return None if score is None else int(float(score))

    async def oldest_doorbells(self, queue: str, *, limit: int) -> list[str]:
        """Return messages at the consuming end of a queue's list, the next to be popped first."""
        key = self._keys.queue(queue)
        return cast("list[str]", await self._ask("LRANGE", key, -limit, -1))[::-1]

    async def drop(self, zset: str, due: Due) -> None:
        """Forget a member whose record is gone, so that it is not due for ever."""
        member = f"{due.run_id}|{due.call_key}" if due.call_key else due.run_id
        await self._ask("ZREM", zset, member)
        if zset == self._keys.approvals:
            # Without its record nobody knows whose queue it was of, and it would age for ever.
            for queue in get_args(QueueName):
                await self._ask("ZREM", self._keys.asked(queue), member)

    async def _hash(self, key: str) -> dict[str, str]:
        flat = cast("list[str]", await self._ask("HGETALL", key))
        return dict(zip(flat[::2], flat[1::2], strict=True))

    async def _ask(self, *args: Argument) -> object:
        """Return the reply; thousands who ask at once share one connection."""
        return await retrying(lambda: self._round_trips.send(*args), deadline_s=self._deadline_s)


def unaccounted(totals: Mapping[str, int]) -> int:
    """Return accepted minus finished minus open; not 0 means a call was lost or doubled."""
    balance = 0
    for name, value in totals.items():
        kind = name.partition(":")[0]
        balance += {"accepted": value, "finished": -value, "open": -value}.get(kind, 0)
    return balance
