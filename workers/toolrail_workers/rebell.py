"""Ring again for queued calls whose doorbell is gone, and for no others.

Is: finding lost doorbells (DESIGN 2). Is not: expired leases or deadlines (`sweeps.py`).
Above: `reaper.py`. Below: `books.py`, `probing.py`, `toolrail.doorbell`.

When the broker is the ledger's own Redis nothing is guessed: doorbells stand in their list in the
order of their ring numbers, so a queued call with a smaller number than the next message to be
popped has no message. It may have been popped a moment ago and be on its way into a claim, so it
is rung for only if that is still so after the grace; which of those, says `probing.py`. Inside any
other broker we cannot look; there a call is rung for by its age, with a doubling wait.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from toolrail.doorbell import QUEUES, read_envelope
from toolrail.ledger import Due, StoredCall
from toolrail.registry import Registry
from toolrail_workers.books import Books
from toolrail_workers.probing import Probing

log = logging.getLogger(__name__)

LOOK_AT = 20
"""Messages at the end of a queue among which one is looked for that still means something."""
MISSING_MAX = 10_000
AT_ONCE = 64
EVERYTHING = 2**62
BLIND_FIRST_MS = 10_000
BLIND_CAP_MS = 600_000
BLIND_LOOK_AT = 1000


class LostDoorbells:
    """What the leader knows of doorbells; a new leader starts with nothing and waits the grace."""

    def __init__(self, books: Books, registry: Registry, *, grace_ms: int, is_blind: bool) -> None:
        """Prepare.

        Args:
            books: To look at and write to.
            registry: Says when somebody may have come who can run what nobody could.
            grace_ms: How long a message may be on its way into a claim.
            is_blind: The broker is not the ledger's Redis.
        """
        self._books = books
        self._registry = registry
        self._grace_ms = grace_ms
        self._is_blind = is_blind
        self._missing: dict[str, dict[Due, int]] = {}
        """Per queue: a queued call under one ring number, and since when it has no message."""
        self._probing: dict[str, Probing] = {}

    async def sweep(self, now_ms: int) -> None:
        """Every queued call without a message for the whole grace has a new one."""
        for queue in QUEUES:
            if self._is_blind:
                await self._ring_by_age(queue, now_ms)
            else:
                await self._ring_missing(queue, now_ms)

    def forget(self) -> None:
        """Another worker leads; what was seen will be old when we lead again."""
        self._missing.clear()
        self._probing.clear()

    async def _ring_missing(self, queue: str, now_ms: int) -> None:
        missing = await self._find_missing(queue)
        if missing is None:
            return
        before = self._missing.get(queue, {})
        since = {due: before.get(due, now_ms) for due in missing}
        self._missing[queue] = since
        ripe = [due for due in missing if since[due] + self._grace_ms <= now_ms]
        probing = self._probing.setdefault(queue, Probing(self._books.reader, self._registry))
        await self._ring_all(queue, await probing.choose(missing, ripe))

    async def _find_missing(self, queue: str) -> list[Due] | None:
        """Return the queued calls before the next message; None when it cannot be told now."""
        # The list is read first: what is queued between the two reads then has a later number.
        messages = await self._books.reader.oldest_doorbells(queue, limit=LOOK_AT)
        before = EVERYTHING
        if messages:
            ring = await self._first_ring(queue, messages)
            if ring is None:
                return None
            before = ring
        return await self._books.reader.due(
            self._books.keys.queued(queue), until=before - 1, limit=MISSING_MAX
        )

    async def _first_ring(self, queue: str, messages: Iterable[str]) -> int | None:
        """Return the ring number of the first message whose call still waits for it."""
        for message in messages:
            bell = read_envelope(message)
            if bell is None or not bell.verify(self._books.secret):
                continue
            ring = await self._books.reader.ring_number(queue, f"{bell.run_id}|{bell.call_key}")
            if ring is None:
                continue
            call = await self._books.reader.call(bell.run_id, bell.call_key)
            if call is not None and call.number("attempt") == bell.attempt:
                return ring
        return None

    async def _ring_all(self, queue: str, lost: list[Due]) -> None:
        for start in range(0, len(lost), AT_ONCE):
            batch = lost[start : start + AT_ONCE]
            await asyncio.gather(*(self._ring(queue, due) for due in batch))

    async def _ring(self, queue: str, due: Due) -> None:
        call = await self._books.reader.call(due.run_id, due.call_key)
        if call is None:
            await self._books.reader.drop(self._books.keys.queued(queue), due)
        elif call.state == "queued":
            await self._ring_call(queue, due, call)

    async def _ring_call(self, queue: str, due: Due, call: StoredCall) -> None:
        attempt = call.number("attempt")
        bell = self._books.sign(call, attempt)
        rung = await self._books.ledger.ring(
            due.run_id,
            due.call_key,
            attempt=attempt,
            ring=due.score,
            envelope=self._books.doorbell.inline(queue, bell),
        )
        if rung:
            log.warning("doorbell.rung_again", extra=_fields(queue, call))
            await self._books.doorbell.ring(queue, bell)

    async def _ring_by_age(self, queue: str, now_ms: int) -> None:
        """Ring for what waits longest; a duplicate costs a worker one refused claim."""
        oldest = await self._books.reader.due(
            self._books.keys.queued(queue), until=EVERYTHING, limit=BLIND_LOOK_AT
        )
        for due in oldest:
            call = await self._books.reader.call(due.run_id, due.call_key)
            if call is None:
                await self._books.reader.drop(self._books.keys.queued(queue), due)
                continue
            waited_ms = now_ms - call.number("rung_ms")
            if waited_ms < BLIND_FIRST_MS:
                # All that follow were rung later.
                return
            wait_ms = min(BLIND_FIRST_MS << min(call.number("rings"), 10), BLIND_CAP_MS)
            if call.state == "queued" and waited_ms >= wait_ms:
                await self._ring_call(queue, due, call)


def _fields(queue: str, call: StoredCall) -> Mapping[str, str]:
    return {
        "queue": queue,
        "run_id": call.run_id,
        "call_key": call.call_key,
        "tool": call.fields.get("tool", ""),
    }
