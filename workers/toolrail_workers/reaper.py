"""Make sure that every accepted call ends, whatever happened to its doorbell, worker or client.

Is: one elected sweeper in the fleet; which sweeps, in which order. Is not: the sweeps
(`sweeps.py`, `run_sweeps.py`, `rebell.py`,
`letter_sweep.py`, `name_sweep.py`) or the rules they apply (`lost.py`, the Lua guards).
Above: `runtime.py`, which ticks it. Below: `leader.py`.

Only the clock of Redis decides, and every decision is guarded by the ledger, so that a second
reaper, or one that slept, can do nothing wrong.
"""

import logging
from collections.abc import Awaitable, Callable

from toolrail.errors import ToolrailError
from toolrail.ledger import LedgerReader
from toolrail_workers.leader import Leadership
from toolrail_workers.letter_sweep import ForgottenLetters
from toolrail_workers.name_sweep import FormerTools
from toolrail_workers.rebell import LostDoorbells
from toolrail_workers.run_sweeps import RunSweeps
from toolrail_workers.sweeps import CallSweeps

log = logging.getLogger(__name__)

Sweep = Callable[[int], Awaitable[None]]


class Reaper:
    """This worker's candidate for the fleet's reaper."""

    def __init__(
        self,
        *,
        leadership: Leadership,
        reader: LedgerReader,
        calls: CallSweeps,
        runs: RunSweeps,
        doorbells: LostDoorbells,
        letters: ForgottenLetters,
        names: FormerTools,
    ) -> None:
        self._leadership = leadership
        self._reader = reader
        self._doorbells = doorbells
        self._leads = False
        # Doorbells last: what the others queue again or close needs no ring.
        self._sweeps: tuple[tuple[str, Sweep], ...] = (
            ("leases", calls.leases),
            ("approvals", calls.approvals),
            ("deadlines", calls.deadlines),
            ("ending", runs.ending),
            ("ended", runs.ended),
            ("idle", runs.idle),
            ("letters", letters.sweep),
            ("names", names.sweep),
            ("doorbells", doorbells.sweep),
        )

    async def tick(self) -> None:
        """Everything that is due by now is done, if we lead.

        Raises:
            RedisUnavailable: Nobody can do anything at the moment.
        """
        leads = await self._leadership.hold()
        if leads != self._leads:
            self._leads = leads
            log.info("reaper.leads" if leads else "reaper.follows")
            self._doorbells.forget()
        if not leads:
            return
        for name, sweep in self._sweeps:
            try:
                await sweep(await self._reader.now_ms())
            except ToolrailError as error:
                # The other sweeps still have a chance; the next tick tries again.
                log.warning("reaper.sweep_failed", extra={"sweep": name, "reason": error.message})

    async def release(self) -> None:
        """Let another worker lead at once."""
        if self._leads:
            self._leads = False
            await self._leadership.release()
