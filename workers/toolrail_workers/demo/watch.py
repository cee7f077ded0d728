"""Print the journal of a run as it happens, and keep it.

Is: a reader of the journal. Is not: the journal, nor a judge of it (`findings.py`).
Above: `agent.py`. Below: `toolrail.run`, `toolrail.cli.show`.
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

from toolrail.cli.show import journal_line
from toolrail.run import Run
from toolrail_schemas import EventType, JournalEvent, UnknownEvent

Event = JournalEvent | UnknownEvent

_LAST_EVENTS_S = 10.0
"""A run that should have ended and did not has no last event; the table then says so."""


class Watch:
    """Follows one run inside `async with`, until the run has ended."""

    def __init__(self, run: Run, say: Callable[[str], None], *, colour: bool) -> None:
        self._run = run
        self._say = say
        self._colour = colour
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.events: list[Event] = []

    async def __aenter__(self) -> Self:
        """Start to follow."""
        self._task = asyncio.create_task(self._follow(), name=f"watch {self._run.id}")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Read the run's last events when all went well; stop at once otherwise."""
        if self._task is None:
            return
        await asyncio.wait({self._task}, timeout=_LAST_EVENTS_S if error is None else 0.0)
        self._task.cancel()
        await asyncio.wait({self._task})

    async def first(self, event_type: EventType, call_id: str) -> JournalEvent:
        """Return the first event of a kind about a call; wait for it if need be."""

        def found() -> JournalEvent | None:
            return next(iter(self.of_call(call_id, event_type)), None)

        async with self._changed:
            await self._changed.wait_for(lambda: found() is not None)
        event = found()
        if event is None:
            raise RuntimeError("events are only ever added")
        return event

    @property
    def _last_seq(self) -> int:
        return self.events[-1].seq if self.events else 0

    async def catch_up(self) -> None:
        """Return once everything that the journal has now was printed.

        Raises:
            TimeoutError: It is not read any more.
        """
        seq = self._last_seq
        while page := await self._run.journal(after_seq=seq):
            seq = page[-1].seq
        async with asyncio.timeout(_LAST_EVENTS_S), self._changed:
            await self._changed.wait_for(lambda: self._last_seq >= seq)

    def of_call(self, call_id: str, event_type: EventType | None = None) -> list[JournalEvent]:
        """Return the events about a call seen so far, of one kind or of all."""
        return [
            event
            for event in self.events
            if isinstance(event, JournalEvent)
            and event.payload.get("call_id") == call_id
            and event_type in (None, event.type)
        ]

    async def _follow(self) -> None:
        async for event in self._run.events():
            self._say(journal_line(event, colour=self._colour))
            async with self._changed:
                self.events.append(event)
                self._changed.notify_all()
