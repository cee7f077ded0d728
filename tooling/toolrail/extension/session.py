"""Hold one live session of an extension: hello, heartbeat, messages, goodbye.

Is: the connection's life and the way of messages to and from `calls.py`. Is not: when there is a
next session (`extension.py`), or the steps in Redis (`bridge.py`).
Above: `extension.py`. Below: `bridge.py`, `calls.py`.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError as RedisPyError

from toolrail.errors import (
    ExtensionClosed,
    ExtensionNameTaken,
    RedisUnavailable,
    ToolrailError,
)
from toolrail.extension.bridge import Bridge, CallId, SessionTerms, Taken
from toolrail.extension.calls import Calls, Order
from toolrail.redis_io import outlasting, xread
from toolrail.tasks import end_task
from toolrail.tools import Tool
from toolrail_schemas import (
    CancelCall,
    ExecuteCall,
    ExtensionHello,
    ExtensionMessage,
    RegisterTools,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

READ_MAX = 100
BLOCK_MS = 1000
DEAF_S = 10.0
PAUSE_S = 0.2
TAKEN_POLL_S = 0.5
GOODBYE_S = 5.0

_MESSAGE: TypeAdapter[ExtensionMessage] = TypeAdapter(ExtensionMessage)


class SessionEnd(Enum):
    """How a session ended that no rule was broken in."""

    STOPPED = "stopped"
    LOST = "lost"
    """It was not renewed in time, or Redis forgot it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """What every session of an extension has in common."""

    extension: str
    version: str
    tools: Mapping[str, Tool]
    """By the extension's own name."""
    message: RegisterTools
    concurrency: int
    heartbeat_s: float
    dead_after_s: float
    drain_s: float


class Session:
    """One session; used once."""

    def __init__(self, plan: SessionPlan, bridge: Bridge, blocking: Redis) -> None:
        """Prepare; nothing is sent.

        Args:
            plan: What is offered, and how.
            bridge: The steps in Redis.
            blocking: For reading messages as they come.
        """
        self._plan = plan
        self._bridge = bridge
        self._blocking = blocking
        self._hello = ExtensionHello(
            extension_id=plan.extension,
            version=plan.version,
            nonce=secrets.token_urlsafe(24),
        )
        self._calls = Calls(plan.tools, self, concurrency=plan.concurrency)
        self._last = "0-0"
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = False

    async def open(self, *, patience_s: float) -> None:
        """The session is live and its tools are registered.

        Args:
            patience_s: How long to wait for a session of the same name that seems dead.

        Raises:
            ExtensionNameTaken: It is alive, or did not end in that time.
            RedisUnavailable: Redis did not answer.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        terms = SessionTerms(
            holder=f"process {os.getpid()} on {socket.gethostname()}",
            concurrency=self._plan.concurrency,
            dead_after_s=self._plan.dead_after_s,
        )
        before: Taken | None = None
        self._is_open = True  # or may be, when the reply is lost
        while (
            taken := await self._bridge.open(self._hello, self._plan.message, terms)
        ) is not None:
            renewed = before is not None and taken.ends_in_s > before.ends_in_s
            if renewed or loop.time() >= until:
                self._is_open = False
                raise ExtensionNameTaken(_taken(self._plan.extension, taken))
            before = taken
            await asyncio.sleep(min(TAKEN_POLL_S, taken.ends_in_s + 0.01))
        log.info("extension.connected", extra={"extension": self._plan.extension})

    async def run(self, stop: asyncio.Event) -> SessionEnd:
        """Serve calls until stopped or lost.

        Raises:
            ExtensionClosed: The backend closed the session for a broken rule.
        """
        self._tasks = [_start(self._read()), _start(self._beat()), _start(_until(stop))]
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        if not stop.is_set():
            return SessionEnd.LOST
        await self._leave()
        return SessionEnd.STOPPED

    async def _leave(self) -> None:
        """Take no new calls from now on, and answer those that are at work."""
        try:
            await self._bridge.leave(self._hello)
        except ToolrailError as error:
            log.warning("extension.no_goodbye", extra={"reason": error.message})
        await self._calls.finish(self._plan.drain_s)

    async def close(self) -> None:
        """The session has ended, whatever came before; nothing is at work for it any more."""
        for task in self._tasks:
            await end_task(task)
        await self._calls.stop()
        if not self._is_open:
            return
        self._is_open = False
        try:
            async with asyncio.timeout(GOODBYE_S):
                await self._bridge.close(self._plan.extension, self._hello.nonce)
        except (TimeoutError, ToolrailError) as error:
            # Without heartbeat it ends by itself.
            log.warning("extension.no_goodbye", extra={"reason": str(error)})

    async def _beat(self) -> None:
        """Return when the session has ended."""
        while True:
            await asyncio.sleep(self._plan.heartbeat_s)
            try:
                if not await self._bridge.beat(self._hello):
                    log.warning("extension.session_lost", extra={"session": self._hello.nonce})
                    return
            except ToolrailError as error:
                log.warning("extension.no_heartbeat", extra={"reason": error.message})

    async def _read(self) -> None:
        stream = self._bridge.keys.extension_calls(self._plan.extension, self._hello.nonce)
        while True:
            try:
                # A connection that died silently would never say so.
                async with asyncio.timeout(BLOCK_MS / 1000 + DEAF_S):
                    entries = await xread(
                        self._blocking, {stream: self._last}, count=READ_MAX, block_ms=BLOCK_MS
                    )
            except (RedisPyError, OSError) as error:
                log.warning("extension.unreadable", extra={"reason": type(error).__name__})
                await asyncio.sleep(PAUSE_S)
                continue
            for _, entry, fields in entries:
                self._last = entry
                self._take(entry, fields)

    def _take(self, entry: str, fields: Mapping[str, str]) -> None:
        if "closed" in fields:
            raise ExtensionClosed(
                f"The backend closed the session: {fields['closed']} "
                "Correct it and start the extension again."
            )
        try:
            message = _MESSAGE.validate_json(fields.get("message", ""))
        except ValidationError as error:
            # A newer worker; its call ends by its deadline.
            log.warning("extension.unknown_message", extra={"errors": error.error_count()})
            return
        match message:
            case ExecuteCall():
                worker = fields.get("worker", "")
                self._calls.execute(Order(message=message, worker=worker, entry=entry))
            case CancelCall():
                self._calls.cancel(CallId.of(message))
            case _:
                log.warning("extension.unknown_message", extra={"type": message.type})

    async def begin(self, call: CallId, entry: str) -> float:
        """See `calls.Line`; Redis says whether it is too late, whenever it is back."""
        return await self._outlast(lambda: self._bridge.begin(self._hello, call, entry))

    async def reply(self, call: CallId, worker: str, message: str) -> None:
        """See `calls.Line`; what a function did is told however long Redis was away."""
        if not await self._outlast(lambda: self._bridge.reply(self._hello, call, worker, message)):
            log.warning("extension.answer_unwanted", extra={"call": str(call)})

    async def _outlast(self, step: Callable[[], Awaitable[T]]) -> T:
        """Return what a step returns, until the session ends, which cancels its calls."""
        # Each try has the patience of the bridge.
        return await outlasting(step, deadline_s=0.0, away=_note_away)


def _note_away(error: RedisUnavailable | None) -> None:
    if error is not None:
        log.warning("extension.redis_away", extra={"reason": error.message})


def _start(work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    return asyncio.get_running_loop().create_task(work)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


def _taken(extension: str, taken: Taken) -> str:
    return (
        f"The extension {extension!r} is connected already, by {taken.holder}. Stop that one, or "
        f"use another name. If it died, its session ends in {taken.ends_in_s:.0f} s; "
        "patience_s waits for that."
    )
