"""Hold one claimed call while its tool works, and stop the tool for a named reason.

Is: the tool's task, its deadline, and what is done with a task that will not stop. Is not: the
lease (`renewals.py`), or what the caller is told (`answers.py`).
Above: `execute.py`; `renewals.py` and the runtime call `stop`. Below: asyncio.
"""

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from enum import StrEnum

from toolrail.ledger import Held
from toolrail.tools import ToolOutput

log = logging.getLogger(__name__)

STOP_GRACE_S = 5.0
"""How long a stopped tool may clean up. The slot is then given up on its task."""
PATIENT_SHARE = 0.9
"""Part of the grace that is left to a tool's own cleaning up, before it is asked once more."""

_abandoned: set[asyncio.Task[ToolOutput]] = set()
"""Tasks that ignored their cancellation; referenced so that they are not lost half way."""


class StopReason(StrEnum):
    """Why a tool was told to stop."""

    DEADLINE = "deadline"
    CANCEL = "cancel"
    LOST = "lost"
    """The lease is not ours any more: whatever the tool answers is discarded."""
    SHUTDOWN = "shutdown"


class ToolExited(Exception):
    """The tool tried to end the process, which is not its to end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the work ended. Neither output nor error: it was stopped."""

    output: ToolOutput | None = None
    error: BaseException | None = None
    started: bool = True
    """Whether the tool was ever reached."""
    abandoned: bool = False
    """The tool did not stop in time and may still be at it."""


class Running:
    """One claimed call on this worker."""

    def __init__(
        self,
        held: Held,
        *,
        lease_until: float,
        queue: str = "",
        stop_grace_s: float = STOP_GRACE_S,
    ) -> None:
        self._stop_grace_s = stop_grace_s
        self.held = held
        self.queue = queue
        """The queue it came by; only for those who count."""
        self.lease_until = lease_until
        """On the loop's clock: when this worker must assume that the lease is over."""
        self.stop_reason: StopReason | None = None
        """The first reason given before the work had ended."""
        self._task: asyncio.Task[ToolOutput] | None = None
        self._ended: asyncio.Future[Ended] | None = None
        self._grace: asyncio.TimerHandle | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Run and call."""
        return self.held.run_id, self.held.call_key

    def stop(self, reason: StopReason) -> None:
        """Stop the tool, or keep it from starting; without effect once it has ended."""
        if self.stop_reason is not None or (self._ended is not None and self._ended.done()):
            return
        self.stop_reason = reason
        if self._task is not None:
            self._task.cancel()
            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(self._stop_grace_s * PATIENT_SHARE, self._stop_again)

    async def work(self, work: Coroutine[object, object, ToolOutput], *, timeout_s: float) -> Ended:
        """Run the work until it ends or was stopped; always returns.

        A cancellation of the caller itself, by a pool that is closing, stops the tool too; a
        second one is let through.
        """
        if self.stop_reason is not None:
            work.close()
            return Ended(started=False)
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._task = loop.create_task(_contained(work))
        self._task.add_done_callback(self._note_end)
        deadline = loop.call_later(timeout_s, self.stop, StopReason.DEADLINE)
        try:
            return await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            self.stop(StopReason.SHUTDOWN)
            return await asyncio.shield(self._ended)
        finally:
            deadline.cancel()
            if self._grace is not None:
                self._grace.cancel()

    def _note_end(self, task: asyncio.Task[ToolOutput]) -> None:
        if task in _abandoned:
            _abandoned.discard(task)
            log.warning("tool.stopped_late", extra={"call_key": self.held.call_key})
            if not task.cancelled():
                task.exception()  # nobody else will ask for it
            return
        if self._ended is None or self._ended.done():
            return
        if task.cancelled():
            self._ended.set_result(Ended())
        elif (error := task.exception()) is not None:
            self._ended.set_result(Ended(error=error))
        else:
            self._ended.set_result(Ended(output=task.result()))

    def _stop_again(self) -> None:
        """Ask a second time: a library may have swallowed the first cancellation."""
        if self._task is not None:
            self._task.cancel()
            loop = asyncio.get_running_loop()
            left_s = self._stop_grace_s * (1 - PATIENT_SHARE)
            self._grace = loop.call_later(left_s, self._abandon)

    def _abandon(self) -> None:
        if self._task is None or self._ended is None or self._ended.done():
            return
        log.error(
            "tool.ignores_stop",
            extra={"call_key": self.held.call_key, "reason": self.stop_reason},
        )
        _abandoned.add(self._task)
        self._ended.set_result(Ended(abandoned=True))


async def _contained(work: Coroutine[object, object, ToolOutput]) -> ToolOutput:
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        # asyncio would let these through the loop, which would end every other call too.
        raise ToolExited(type(error).__name__) from error
