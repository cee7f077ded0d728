"""Read a run's journal: whole, from a number on, or as it is written.

Is: stream entries to `JournalEvent`, with a check that no number is missing. Is not: writing
(the ledger's scripts append). Above: client, CLI. Below: `redis_io`, the schemas.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import cast

import orjson
from redis.asyncio import Redis

from toolrail.errors import JournalGap, RunNotFound
from toolrail.keys import Keys
from toolrail.redis_io import Away, command, outlasting, retrying, xread
from toolrail_schemas import JournalEvent, JsonObject, UnknownEvent, format_timestamp, parse_event

log = logging.getLogger(__name__)

READ_MAX = 500
"""Most events of one read. Source: semantics 2.2."""
BLOCK_MS = 1000

RUN_FORGOTTEN = "Check the id; a run is forgotten after its retention."
RUN_ENDS = frozenset({"run_completed", "run_failed", "run_cancelled"})


class JournalReader:
    """The journals of one cell.

    Args:
        redis: For reads that answer at once.
        blocking: For reads that wait; its socket has no read timeout.
        prefix: Key prefix.
        deadline_s: Patience while Redis is away.
    """

    def __init__(self, redis: Redis, blocking: Redis, *, prefix: str, deadline_s: float) -> None:
        self._redis = redis
        self._blocking = blocking
        self._keys = Keys(prefix)
        self._deadline_s = deadline_s
        self._told_run = ""
        """The run of which the log says that an event cannot be read; once is enough."""

    async def read(
        self, run_id: str, *, after_seq: int = 0, limit: int = READ_MAX
    ) -> list[JournalEvent | UnknownEvent]:
        """Return up to `limit` (1..500) events after a sequence number, in order.

        An entry that is no lawful event keeps its place as an `UnknownEvent`.

        Raises:
            JournalGap: A number is missing.
        """
        key = self._keys.journal(run_id)
        reply = await retrying(
            lambda: command(
                self._redis, "XRANGE", key, f"({after_seq}-0", "+", "COUNT", min(limit, READ_MAX)
            ),
            deadline_s=self._deadline_s,
        )
        entries = cast("Sequence[tuple[str, Mapping[str, str]]]", reply)
        return self._checked(run_id, entries, after_seq)

    async def last_change(self) -> str:
        """Return the id of the newest entry over all runs, to follow `changes` from."""
        reply = await retrying(
            lambda: command(self._redis, "XREVRANGE", self._keys.journal_all, "+", "-", "COUNT", 1),
            deadline_s=self._deadline_s,
        )
        entries = cast("list[tuple[str, dict[str, str]]]", reply)
        return entries[0][0] if entries else "0-0"

    async def lately(self, *, kinds: Collection[str], limit: int) -> list[tuple[str, str]]:
        """Return (run_id, call_key) of events of these kinds among the newest `limit` of all runs.

        The newest first; one call may come more than once.
        """
        reply = await retrying(
            lambda: command(
                self._redis, "XREVRANGE", self._keys.journal_all, "+", "-", "COUNT", limit
            ),
            deadline_s=self._deadline_s,
        )
        entries = cast("list[tuple[str, dict[str, str]]]", reply)
        return [
            (fields.get("run", ""), fields.get("call", ""))
            for _, fields in entries
            if fields.get("type") in kinds
        ]

    async def changes(
        self, *, after: str, kinds: Collection[str], away: Away | None = None
    ) -> AsyncIterator[tuple[str, str]]:
        """Yield (run_id, call_key) of each event of these kinds, over all runs, for ever.

        A hint: who falls 100,000 events behind misses some.

        Args:
            after: Id of the last entry that is known.
            kinds: Types of events.
            away: Told of a Redis that is away, instead of ending; see `outlasting`.
        """
        key, last = self._keys.journal_all, after
        while True:
            entries = await outlasting(
                lambda last=last: xread(  # type: ignore[misc]
                    self._blocking, {key: last}, count=READ_MAX, block_ms=BLOCK_MS
                ),
                deadline_s=self._deadline_s,
                away=away,
            )
            for _, entry, fields in entries:
                last = entry
                if fields.get("type") in kinds:
                    yield fields.get("run", ""), fields.get("call", "")

    async def follow(
        self, run_id: str, *, after_seq: int = 0, is_wanted: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[JournalEvent | UnknownEvent]:
        """Yield every event after a number, old and new, until the run has ended.

        Resume with the last `seq` seen and nothing is missed. A run whose journal broke ends
        without an event that says so.

        Args:
            run_id: The run.
            after_seq: The last number seen.
            is_wanted: Asked at least every second; False ends the following.

        Raises:
            JournalGap: A number is missing.
            RunNotFound: There is no such run, or it is past its retention.
        """
        key, last = self._keys.journal(run_id), after_seq
        while is_wanted():
            entries = await retrying(
                lambda last=last: xread(  # type: ignore[misc]
                    self._blocking, {key: f"{last}-0"}, count=READ_MAX, block_ms=BLOCK_MS
                ),
                deadline_s=self._deadline_s,
            )
            found = [(entry, fields) for _, entry, fields in entries]
            if not found and await self._is_complete(run_id, last):
                return
            for event in self._checked(run_id, found, last):
                last = event.seq
                yield event
                if event.type in RUN_ENDS:
                    return

    async def _is_complete(self, run_id: str, last: int) -> bool:
        """Whether the run has ended and nothing was written after `last`."""
        status = await retrying(
            lambda: command(self._redis, "HGET", self._keys.run(run_id), "status"),
            deadline_s=self._deadline_s,
        )
        if status is None:
            raise RunNotFound(f"There is no run {run_id!r} any more. {RUN_FORGOTTEN}")
        # Looked at in this order, since whoever ends a run writes its last event with the status.
        return status != "open" and not await self.read(run_id, after_seq=last, limit=1)

    def _checked(
        self, run_id: str, entries: Sequence[tuple[str, Mapping[str, str]]], after_seq: int
    ) -> list[JournalEvent | UnknownEvent]:
        events: list[JournalEvent | UnknownEvent] = []
        expected = after_seq + 1
        for entry_id, fields in entries:
            seq = int(entry_id.partition("-")[0])
            if seq != expected:
                raise JournalGap(
                    f"The journal of {run_id} jumps from {expected - 1} to {seq}. "
                    "Stop using the run and restore Redis from a backup."
                )
            events.append(self._event(run_id, seq, fields))
            expected += 1
        return events

    def _event(
        self, run_id: str, seq: int, fields: Mapping[str, str]
    ) -> JournalEvent | UnknownEvent:
        try:
            return parse_event(_envelope(run_id, seq, fields))
        except (ValueError, KeyError, TypeError) as error:
            # One entry that broke a rule must not hide all the others, nor the end of the run.
            if self._told_run != run_id:
                self._told_run = run_id
                told = {"run_id": run_id, "seq": seq, "error": type(error).__name__}
                log.error("journal.unlawful_event", extra=told)
            return _place(run_id, seq, fields)


def _place(run_id: str, seq: int, fields: Mapping[str, str]) -> UnknownEvent:
    """Return an entry that is no lawful event, with whatever can be read of it."""
    try:
        return UnknownEvent.model_validate(_envelope(run_id, seq, fields))
    except (ValueError, KeyError, TypeError):
        kind, event_id = fields.get("type", ""), fields.get("id", "")
        at = format_timestamp(0)
        return UnknownEvent(seq=seq, event_id=event_id, run_id=run_id, ts=at, type=kind)


def _envelope(run_id: str, seq: int, fields: Mapping[str, str]) -> dict[str, object]:
    payload = cast("JsonObject", orjson.loads(fields["p"]))
    causality: dict[str, object] = {}
    if "call" in fields:
        turn = int(fields["turn"])
        causality = {"call_id": fields["call_id"], "turn": turn}
        payload = {
            **payload,
            "call_id": fields["call_id"],
            "call_key": fields["call"],
            "name": fields["name"],
            "turn": turn,
        }
    kind, _, actor_id = fields["actor"].partition(":")
    return {
        "seq": seq,
        "event_id": fields["id"],
        "run_id": run_id,
        "ts": format_timestamp(int(float(fields["ts"]))),
        "level": fields["level"],
        "type": fields["type"],
        "payload": payload,
        "causality": causality,
        "actor": {"kind": kind, "id": actor_id},
    }
