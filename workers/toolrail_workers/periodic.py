"""Do something again and again, whatever happens to it once.

Is: the loop of announcer, reaper and watchdog. Is not: what they do. Above: `runtime.py`.
Below: asyncio.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolrail.errors import ToolrailError

log = logging.getLogger(__name__)


class Periodic:
    """One action, every `interval_s` and whenever it is woken."""

    def __init__(
        self,
        name: str,
        action: Callable[[], Awaitable[None]],
        *,
        interval_s: float | Callable[[], float],
    ) -> None:
        """Prepare.

        Args:
            name: First word of its events in the log.
            action: What is done.
            interval_s: The rest between two rounds; a function is asked before each rest.
        """
        self.name = name
        self._action = action
        self._interval_s = interval_s
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Do it now; never blocks. Woken during the action, it is done once more."""
        self._woken.set()

    async def run(self) -> None:
        """Do it for ever. A failure is logged, and the next round is a new try."""
        while True:
            self._woken.clear()
            try:
                await self._action()
            except ToolrailError as error:
                log.warning(f"{self.name}.failed", extra={"reason": error.message})  # noqa: G004
            except Exception:
                # The edge of a loop that must outlive its defects.
                log.exception(f"{self.name}.crashed")  # noqa: G004
            await self._rest()

    async def _rest(self) -> None:
        interval_s = self._interval_s
        try:
            async with asyncio.timeout(interval_s() if callable(interval_s) else interval_s):
                await self._woken.wait()
        except TimeoutError:
            pass
