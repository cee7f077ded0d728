"""Leave a call that this worker cannot run to one that can, without touching it.

Is: what happens after a claim was refused because the tool, or this version of it, is not here, or
the doorbell came to the wrong queue. A doorbell says nothing but "look": whoever hears it must not
end a call that another worker can run. Is not: the claim (`execute.py`, `lua/claim.lua`).
Above: `execute.py`. Below: the registry, `specs.py`, the ledger.

Bounded, so that workers do not send a call round in circles: while another worker lives that has
the tool, the doorbell is rung again `AT_ONCE` times, after a pause that doubles; else it is
dropped, and the reaper rings when it has missed it (`probing.py`: for a few, and for all when
somebody comes). After `MOST` rings, or when nobody else has the tool, the call ends here.
"""

import asyncio
import logging
from collections.abc import Set as AbstractSet

from toolrail.ledger import StoredCall
from toolrail.registry import RegisteredTool, Registry, RegistryView
from toolrail_schemas import Doorbell
from toolrail_workers.books import Books
from toolrail_workers.specs import SpecIndex

log = logging.getLogger(__name__)

AT_ONCE = 5
PAUSE_S = 0.02
"""Before the second of those times; this worker may be the only one that pops."""
MOST = 100
ANY = ""
"""A claim of whatever the call wants, to end it."""


class Passing:
    """Decides about the calls that one worker cannot run."""

    def __init__(
        self,
        books: Books,
        registry: Registry,
        specs: SpecIndex,
        *,
        worker: str,
        queues: AbstractSet[str],
    ) -> None:
        """Prepare.

        Args:
            books: Of the cell.
            registry: Says who else has the tool.
            specs: The tools of this worker.
            worker: Id of this worker.
            queues: Those that it serves.
        """
        self._books = books
        self._registry = registry
        self._view = RegistryView(registry)
        self._specs = specs
        self._worker = worker
        self._queues = queues

    async def tools_to_claim_with(self, doorbell: Doorbell) -> str | None:
        """Return the digest for another claim, `ANY` to end the call, None when it was left.

        Raises:
            RedisUnavailable: The call stays queued.
        """
        call = await self._books.reader.call(doorbell.run_id, doorbell.call_key)
        if call is None:
            return None
        if call.fields["queue"] not in self._queues:
            # Whoever put it here, this worker is not the one to say that the tool is missing.
            await self._pass_on(call, doorbell.attempt)
            return None
        wish = await self._wish(call)
        if wish == ANY:
            # On a worker that has just started, servers may still be listing their tools.
            timeout_s = int(call.fields["timeout_ms"]) / 1000
            await self._specs.find_soon(call.fields["tool"], timeout_s=timeout_s)
            wish = await self._wish(call)
        if wish is None:
            await self._leave(call, doorbell.attempt)
        return wish

    async def _leave(self, call: StoredCall, attempt: int) -> None:
        rings = call.number("rings")
        if rings < AT_ONCE and self._lives_elsewhere(call, await self._find(call)):
            await asyncio.sleep(PAUSE_S * (2**rings - 1))
            await self._pass_on(call, attempt)
        else:
            log.info("call.left_unrung", extra=_fields(call))

    async def _wish(self, call: StoredCall) -> str | None:
        if await self._is_here(call):
            return self._specs.tools.digest
        return None if await self._is_elsewhere(call) else ANY

    async def _is_here(self, call: StoredCall) -> bool:
        tools = self._specs.tools
        if tools.versions.get(call.fields["tool"]) != call.fields["spec_hash"]:
            return False
        # Just learned, or forgotten by Redis.
        await self._registry.keep_tools(tools)
        return True

    async def _is_elsewhere(self, call: StoredCall) -> bool:
        if call.number("rings") >= MOST:
            return False
        tool = await self._find(call)
        if tool is None:
            return False
        # Who went a moment ago may be back soon, and may be this worker, if it lacks the tool.
        is_missed = (
            bool(tool.missed - {self._worker})
            and call.fields["tool"] not in self._specs.tools.versions
        )
        return is_missed or self._lives_elsewhere(call, tool)

    async def _find(self, call: StoredCall) -> RegisteredTool | None:
        tool = await self._view.find(call.fields["tool"])
        return tool if tool is not None and tool.queue == call.fields["queue"] else None

    def _lives_elsewhere(self, call: StoredCall, tool: RegisteredTool | None) -> bool:
        if tool is None:
            return False
        return bool(tool.runners.get(call.fields["spec_hash"], frozenset()) - {self._worker})

    async def _pass_on(self, call: StoredCall, attempt: int) -> None:
        queue = call.fields["queue"]
        log.info("call.left_to_another", extra=_fields(call))
        if call.number("rings") >= AT_ONCE:
            return
        ring = await self._books.reader.ring_number(queue, f"{call.run_id}|{call.call_key}")
        if ring is None:
            return
        bell = self._books.sign(call, attempt)
        rung = await self._books.ledger.ring(
            call.run_id,
            call.call_key,
            attempt=attempt,
            ring=ring,
            envelope=self._books.doorbell.inline(queue, bell),
        )
        if rung:
            await self._books.doorbell.ring(queue, bell)


def _fields(call: StoredCall) -> dict[str, str | int]:
    return {
        "run_id": call.run_id,
        "call_key": call.call_key,
        "tool": call.fields["tool"],
        "queue": call.fields["queue"],
        "rings": call.number("rings"),
    }
