"""The seam between the Celery side of a worker and the runtime that runs calls.

Is: what the pool asks of the runtime, and what the runtime may ask of the pool. Is not: Celery,
asyncio threads or calls; a runtime is tested without a broker, the pool without a ledger.
Above: `pool.py` calls a `RuntimePort`, `runtime.py` is one. Below: the schemas.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolrail.settings import Settings
from toolrail_schemas import Doorbell


class DoorbellNotTaken(Exception):
    """Raised by `handle` while no calls are claimed: this doorbell belongs to another worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """What the Celery side knows about itself, at this moment."""

    slots: int
    """Doorbells that may be in work at once."""
    busy: int
    """Doorbells in work now."""
    pops: int
    """Batches that arrived from the broker. Stays 0 with kombu's own transports."""
    doorbells: int
    """Doorbells that were handed to the runtime."""
    invalid_doorbells: int
    """Messages that were dropped because they are no doorbell."""
    failed_handles: int
    """Doorbells whose handling raised, which a runtime never should."""
    last_poll_at: float | None
    """When the broker last answered a pop, with or without doorbells, on the clock of
    `time.monotonic()`. None before the first answer and with kombu's own transports."""
    paused: bool
    """Whether it takes no doorbells, because `pause` was called."""


class PoolControl(Protocol):
    """What the pool does for the runtime. Every method may be called from any thread."""

    def stats(self) -> PoolStats:
        """Return the numbers of this moment."""
        ...

    def pause(self) -> None:
        """Take no more doorbells, until `resume`; also on connections that are made meanwhile.

        Returns before it is so: doorbells that are on their way still come, and go back to their
        queue when the runtime does not take them.
        """
        ...

    def resume(self) -> None:
        """Take doorbells again."""
        ...

    def exit_worker(self, reason: str) -> None:
        """End this worker with exit code 1, for its supervisor to start a new one.

        Running calls are drained first, if the Celery side still can; if it cannot, the process
        ends anyway once the time for draining is over.
        """
        ...


class RuntimePort(Protocol):
    """What runs the calls. Made and used on the pool's event loop only."""

    @property
    def metrics_address(self) -> str:
        """Where this worker shows its metrics, `host:port`; empty when it does not. Any thread."""
        ...

    async def start(self) -> None:
        """Get ready for doorbells. An exception ends the worker with one line and code 1."""
        ...

    async def handle(self, doorbell: Doorbell) -> None:
        """Return when the call needs nothing more from this delivery; the doorbell is then gone.

        Raises nothing, except:
            DoorbellNotTaken: The worker claims no calls; the doorbell goes back to its queue.
            asyncio.CancelledError: The worker ends now.
        """
        ...

    async def drain(self, grace_s: float) -> None:
        """Take no new call and return when the running ones are finished, or time is over."""
        ...

    async def stop(self) -> None:
        """Close everything, in bounded time. Called once, also after a failed `start`."""
        ...


RuntimeFactory = Callable[[Settings, Sequence[str], PoolControl], RuntimePort]
"""Called on the event loop as `factory(settings, sources, control)`; sources are queue names."""
