"""A runtime for a real worker process, that does what the doorbell says and writes it down.

Is: the other side of the pool in the tests of pool and transport; also the Celery app that runs
it (`celery -A tests.fake_runtime`). Is not: a ledger; nothing is claimed.
Above: `tests/celery_worker.py`. Below: `toolrail_workers.port`.

The first digit of a call key says what its handling does, see `Deed`. Events go to the file
`events` in the state folder, one a line, flushed at once, so that they survive every kill.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from celery import Celery

from tests.waiting import await_until
from toolrail.errors import ConfigError
from toolrail.settings import Settings
from toolrail_schemas import Doorbell
from toolrail_workers.app import create_app
from toolrail_workers.port import DoorbellNotTaken, PoolControl

LONG_S = 600.0
"""Longer than any test; who waits here is ended from outside."""


class Deed(StrEnum):
    """What handling a doorbell does."""

    QUICK = "0"
    """Return at once, and write nothing: for counting by the thousand."""
    NOTED = "1"
    """Return at once."""
    GATED = "2"
    """Return when the file `gate` exists."""
    RAISES = "3"
    NOT_TAKEN = "4"
    """Give the doorbell back, but only once."""
    EXITS = "5"
    """Ask for the end of the worker."""
    STUCK = "6"
    """Ask for the end of the worker, and hold up the event loop for ever."""
    PAUSES = "7"
    """Pause the pool until the file `resume` exists; doorbells meanwhile are given back."""


class FakeRuntime:
    """See the module."""

    metrics_address = ""

    def __init__(self, settings: Settings, sources: Sequence[str], control: PoolControl) -> None:
        self._folder = settings.state_dir
        self._control = control
        self._sources = sources
        self._given_back: set[str] = set()
        self._running = 0
        self._pause: asyncio.Task[None] | None = None
        self._events = (self._folder / "events").open("a", encoding="utf-8", buffering=1)

    async def start(self) -> None:
        if (self._folder / "fail-start").exists():
            raise ConfigError("the fake runtime was told to fail.")
        self._note(f"start {','.join(self._sources)}")

    async def handle(self, doorbell: Doorbell) -> None:
        if self._pause is not None and not self._pause.done():
            raise DoorbellNotTaken
        if doorbell.call_key[0] == Deed.QUICK:
            return
        self._running += 1
        self._note(f"began {doorbell.call_key}")
        try:
            await self._do(doorbell)
            self._note(f"done {doorbell.call_key}")
        except asyncio.CancelledError:
            self._note(f"cancelled {doorbell.call_key}")
            raise
        finally:
            self._running -= 1

    async def _do(self, doorbell: Doorbell) -> None:
        match Deed(doorbell.call_key[0]):
            case Deed.GATED:
                await await_until((self._folder / "gate").exists, "the gate", timeout_s=LONG_S)
            case Deed.RAISES:
                raise ZeroDivisionError
            case Deed.NOT_TAKEN if doorbell.call_key not in self._given_back:
                self._given_back.add(doorbell.call_key)
                raise DoorbellNotTaken
            case Deed.EXITS:
                self._control.exit_worker("a doorbell asked for it")
            case Deed.PAUSES:
                self._pause = asyncio.get_running_loop().create_task(self._paused())
            case Deed.STUCK:
                self._control.exit_worker("the loop is stuck")
                while True:
                    pass
            case _:
                return

    async def _paused(self) -> None:
        self._control.pause()
        self._note("paused")
        await await_until((self._folder / "resume").exists, "the resume", timeout_s=LONG_S)
        self._control.resume()

    async def drain(self, grace_s: float) -> None:
        self._note("drain")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await await_until(lambda: not self._running, "the drain", timeout_s=LONG_S)

    async def stop(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
        self._note(f"stop {self._control.stats()}")

    def _note(self, event: str) -> None:
        self._events.write(f"{event}\n")


def create_runtime(settings: Settings, sources: Sequence[str], control: PoolControl) -> FakeRuntime:
    """Return the runtime; named in `create_app`."""
    return FakeRuntime(settings, sources, control)


def read_events(folder: Path) -> list[str]:
    """Return what was written down so far."""
    file = folder / "events"
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def __getattr__(name: str) -> Celery:
    """Make the app when the `celery` command asks for it."""
    if name != "app":
        raise AttributeError(name)
    return create_app(Settings.from_env(), runtime="tests.fake_runtime:create_runtime")
