"""Keep the leases of all running calls, with one script for all of them.

Is: renewing every `renew_s`, and stopping what was lost or cancelled. Is not: the reaper, which
acts on leases that were not kept. Above: `execute.py`, `nudges.py`, `runtime.py`.
Below: `Ledger.renew`, `running.py`.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager

from toolrail.errors import ToolrailError
from toolrail.ledger import Ledger, Renewal
from toolrail_workers.running import Running, StopReason

log = logging.getLogger(__name__)

LOCAL_SHARE = 0.9
"""A worker that cannot reach Redis stops before the lease ends there, for priority one is that
no effect happens twice; the rest of the lease is for stopping."""
BATCH = 500
"""Calls per script, so that none of them blocks Redis for long."""
EARLY_MAX = 1000
RETRY_S = 1.0


class Renewals:
    """The calls this worker holds."""

    def __init__(self, ledger: Ledger, *, lease_s: float, renew_s: float) -> None:
        self._ledger = ledger
        self.lease_ms = int(lease_s * 1000)
        self._local_s = lease_s * LOCAL_SHARE
        self._renew_s = renew_s
        self._held: dict[tuple[str, str], Running] = {}
        self._early: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def running(self) -> list[Running]:
        """Return the calls that are held now. Any thread."""
        return list(self._held.values())

    def lease_until(self, sent_at: float) -> float:
        """Return when a lease that was asked for at this loop time must count as over."""
        return sent_at + self._local_s

    @contextmanager
    def holding(self, running: Running) -> Generator[None]:
        """Renew the call's lease while inside."""
        self._held[running.key] = running
        if running.key in self._early:
            del self._early[running.key]
            running.stop(StopReason.CANCEL)
        try:
            yield
        finally:
            if self._held.get(running.key) is running:
                del self._held[running.key]

    def cancel(self, run_id: str, call_key: str) -> None:
        """Stop a call that somebody cancelled, also one whose claim is still on its way back."""
        running = self._held.get((run_id, call_key))
        if running is not None:
            running.stop(StopReason.CANCEL)
            return
        self._early[run_id, call_key] = None
        if len(self._early) > EARLY_MAX:
            self._early.popitem(last=False)

    def stop_all(self, reason: StopReason) -> None:
        """Stop every call that is held now."""
        for running in self.running():
            running.stop(reason)

    async def run(self) -> None:
        """Renew for ever."""
        while True:
            renewed = await self.renew()
            await asyncio.sleep(self._renew_s if renewed else min(RETRY_S, self._renew_s))

    async def watch(self) -> None:
        """Stop, for ever, what could not be renewed in time, also while a renewal hangs."""
        while True:
            await asyncio.sleep(min(RETRY_S, self._renew_s / 4))
            now = asyncio.get_running_loop().time()
            for running in self.running():
                if now >= running.lease_until:
                    running.stop(StopReason.LOST)

    async def renew(self) -> bool:
        """Renew what is held; return whether the ledger answered."""
        held = self.running()
        answered = [
            await self._renew_batch(held[start : start + BATCH])
            for start in range(0, len(held), BATCH)
        ]
        return all(answered)

    async def renew_one(self, running: Running) -> None:
        """Renew one call now, because its claim took long to come back."""
        await self._renew_batch([running])

    async def _renew_batch(self, batch: list[Running]) -> bool:
        sent_at = asyncio.get_running_loop().time()
        try:
            answers = await self._ledger.renew(
                [running.held for running in batch],
                lease_ms=self.lease_ms,
                deadline_s=self._renew_s / 2,
            )
        except ToolrailError as error:
            log.warning("leases.not_renewed", extra={"held": len(batch), "reason": error.code})
            return False
        for running, answer in zip(batch, answers, strict=True):
            match answer:
                case Renewal.KEPT:
                    running.lease_until = self.lease_until(sent_at)
                case Renewal.CANCEL:
                    running.lease_until = self.lease_until(sent_at)
                    running.stop(StopReason.CANCEL)
                case Renewal.LOST:
                    running.stop(StopReason.LOST)
        return True
