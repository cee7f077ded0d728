"""Bring each answer to the call that waits for it, and only the first one.

Is: waiting calls, the memory of answers, late ones and conflicts. Is not: reading the stream
(`listener.py`) or what an answer means (`reading.py`). Above: `executor.py`, `listener.py`.
Below: asyncio.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from toolrail.extension.bridge import CallId
from toolrail_schemas import sha256_hex

log = logging.getLogger(__name__)

SEEN_MAX = 4096
"""Answers whose digests are remembered, to tell a repeated one from a second one."""


@dataclass(frozen=True, slots=True)
class AskedOf:
    """One call, as it was asked of one session."""

    extension: str
    session: str
    call: CallId


@dataclass(slots=True)
class Counts:
    """What happened to answers that nobody was given."""

    late: int = 0
    duplicate: int = 0
    conflicting: int = 0


class SessionGone(Exception):
    """The session ended, and every answer it gave has been read."""


class AnswersConflict(Exception):
    """The call was answered twice, differently."""


class Waiting:
    """A call that waits for its answer."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._has_conflict = False

    async def answer(self) -> str:
        """Return the answer as it came.

        Raises:
            SessionGone: There will be none.
            AnswersConflict: There were two.
        """
        # Shielded, so that who gave up waiting can still ask for what came meanwhile.
        text = await asyncio.shield(self._answer)
        if self._has_conflict:
            raise AnswersConflict
        return text

    @property
    def is_answered(self) -> bool:
        """Whether `answer` would return or raise at once."""
        return self._answer.done()

    def give(self, text: str) -> None:
        """The answer is here."""
        if not self._answer.done():
            self._answer.set_result(text)

    def give_up(self) -> None:
        """There will be no answer."""
        if not self._answer.done():
            self._answer.set_exception(SessionGone())
            # Asked for or not, it is no news to the loop.
            self._answer.exception()

    def note_conflict(self) -> None:
        """There was a second answer."""
        self._has_conflict = True


class Mailbox:
    """The calls of one worker that wait, over all extensions."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._waiting: dict[AskedOf, Waiting] = {}
        self._seen: OrderedDict[AskedOf, str] = OrderedDict()

    @contextmanager
    def expect(self, asked: AskedOf) -> Generator[Waiting]:
        """Wait for a call's answer inside; afterwards it is late."""
        waiting = self._waiting[asked] = Waiting()
        try:
            yield waiting
        finally:
            self._waiting.pop(asked, None)

    def deliver(self, asked: AskedOf, text: str) -> bool:
        """Take an answer; False when it contradicts the one that came before."""
        digest = sha256_hex(text.encode())
        before = self._seen.get(asked)
        waiting = self._waiting.get(asked)
        if before is None:
            self._remember(asked, digest)
            self._give(asked, waiting, text)
            return True
        if before == digest:
            self.counts.duplicate += 1
            return True
        self.counts.conflicting += 1
        log.error("extension.answers_conflict", extra=_fields(asked))
        if waiting is not None:
            waiting.note_conflict()
        return False

    def sessions(self) -> set[tuple[str, str]]:
        """Return (extension, session) of every waiting call."""
        return {(asked.extension, asked.session) for asked in self._waiting}

    def give_up(self, extension: str, session: str) -> None:
        """The session has ended: its calls get no answer any more."""
        for asked, waiting in self._waiting.items():
            if (asked.extension, asked.session) == (extension, session):
                waiting.give_up()

    def _give(self, asked: AskedOf, waiting: Waiting | None, text: str) -> None:
        if waiting is None or waiting.is_answered:
            self.counts.late += 1
            log.info("extension.late_result", extra=_fields(asked))
        else:
            waiting.give(text)

    def _remember(self, asked: AskedOf, digest: str) -> None:
        self._seen[asked] = digest
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)


def _fields(asked: AskedOf) -> dict[str, str]:
    return {"extension": asked.extension, "call": str(asked.call)}
