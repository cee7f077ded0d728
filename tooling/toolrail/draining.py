"""Choose workers, ask them to drain, and watch until they have nothing left to do.

Is: the order to many workers and how far each has come. Is not: the order to one
(`fleet.py`), or how a worker follows it (`toolrail_workers.duty`).
Above: `toolrail drain`, rollout scripts. Below: `fleet.py`.
"""

import asyncio
import difflib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from toolrail.errors import LedgerError, RedisUnavailable
from toolrail.fleet import Fleet, WorkerRecord

LOOK_EVERY_S = 0.25
"""A draining worker speaks every second."""


class WorkerNotFound(LedgerError):
    """No live worker has this name. `toolrail workers` lists those that live."""

    code = "worker.not_found"


class DrainState(StrEnum):
    """How far one worker has come."""

    ASKED = "asked"
    """It has not said yet that it claims no more."""
    BUSY = "busy"
    """It claims no more, and runs what it has."""
    DRAINED = "drained"
    """It claims no more and runs nothing."""
    GONE = "gone"
    """It ended, or was silent until its record expired; the reaper has what it left."""


ENDS = frozenset({DrainState.DRAINED, DrainState.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which workers are meant; names, or what they have in common.

    Attributes:
        names: Ids of workers; the other attributes are then not looked at.
        source: A source they serve; None for any.
        host: The host they run on; None for any.
        build: Their build; None for any.
    """

    names: tuple[str, ...] = ()
    source: str | None = None
    host: str | None = None
    build: str | None = None

    def fits(self, worker: WorkerRecord) -> bool:
        """Whether the worker is meant."""
        if self.names:
            return worker.worker in self.names
        return (
            (self.source is None or self.source in worker.sources)
            and self.host in {None, worker.host}
            and self.build in {None, worker.build}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One worker that was asked.

    Attributes:
        worker: Its id.
        state: How far it has come.
        busy: Calls it ran when it spoke last.
        sources: Whose tools it runs.
        host: Where.
        build: Of what.
    """

    worker: str
    state: DrainState
    busy: int
    sources: tuple[str, ...]
    host: str
    build: str


class Draining:
    """Orders to the workers of one cell."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def choose(self, choice: Choice) -> list[WorkerRecord]:
        """Return the live workers that are meant; none may fit what they should have in common.

        Raises:
            WorkerNotFound: A name, host or build that no live worker has; says which there are.
            RedisUnavailable: No answer in time.
        """
        live = await self._fleet.workers()
        known = [worker.worker for worker in live]
        for name in choice.names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                guess = f"Did you mean {near[0]}? " if near else ""
                raise WorkerNotFound(
                    f"No live worker is called {name[:80]!r}. {guess}"
                    f"`toolrail workers` lists the {len(live)} that live; nobody was asked."
                )
        _check_known("host", choice.host, {worker.host for worker in live})
        _check_known("build", choice.build, {worker.build for worker in live})
        return [worker for worker in live if choice.fits(worker)]

    async def ask(self, workers: Iterable[WorkerRecord]) -> list[Progress]:
        """Each claims no more calls, mostly at once; asking again is no change."""
        asked = list(workers)
        for worker in asked:
            await self._fleet.ask_drain(worker.worker)
        return [_progress(worker) for worker in asked]

    async def undo(self, workers: Iterable[WorkerRecord]) -> None:
        """Each claims calls again."""
        for worker in workers:
            await self._fleet.undo_drain(worker.worker)

    async def watch(
        self, asked: Sequence[Progress], *, timeout_s: float
    ) -> AsyncIterator[list[Progress]]:
        """Yield all workers whenever one has come further, until all have, or time is over.

        A Redis that is away meanwhile costs only time.

        Raises:
            RedisUnavailable: Redis was away at the end.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        before, now = list(asked), list(asked)
        yield now
        while not all(worker.state in ENDS for worker in now) and loop.time() < until:
            await asyncio.sleep(min(LOOK_EVERY_S, max(0.0, until - loop.time())))
            try:
                now = await self._look(before)
            except RedisUnavailable:
                if loop.time() >= until:
                    raise
                continue
            if now != before:
                yield now
            before = now

    async def _look(self, asked: Iterable[Progress]) -> list[Progress]:
        live = {worker.worker: worker for worker in await self._fleet.workers()}
        return [_progress(live[one.worker]) if one.worker in live else _gone(one) for one in asked]


def _progress(worker: WorkerRecord) -> Progress:
    state = DrainState.ASKED
    if worker.draining:
        state = DrainState.BUSY if worker.busy else DrainState.DRAINED
    return Progress(
        worker=worker.worker,
        state=state,
        busy=worker.busy,
        sources=worker.sources,
        host=worker.host,
        build=worker.build,
    )


def _gone(worker: Progress) -> Progress:
    return Progress(
        worker=worker.worker,
        state=DrainState.GONE,
        busy=0,
        sources=worker.sources,
        host=worker.host,
        build=worker.build,
    )


def _check_known(what: str, wanted: str | None, known: set[str]) -> None:
    if wanted is None or wanted in known:
        return
    there = ", ".join(sorted(value[:80] or f"no {what}" for value in known))
    lives = f"Those that live have {there}" if known else "None lives"
    raise WorkerNotFound(
        f"No live worker has the {what} {wanted[:80]!r}. {lives}; nobody was asked."
    )
