"""Hear from extensions: their answers, and when they come, leave and die.

Is: the one task of a worker that reads the answers' stream and looks at liveness, so that an answer
is never overtaken by the news that its session has ended. Is not: what either means.
Above: `executor.py`. Below: `mailbox.py`, `directory.py`, `toolrail.extension.bridge`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from redis.asyncio import Redis
from redis.exceptions import RedisError as RedisPyError

from toolrail.errors import ToolrailError
from toolrail.extension.bridge import Bridge, CallId
from toolrail.redis_io import command, xread
from toolrail_workers.extension.directory import Directory
from toolrail_workers.extension.mailbox import AskedOf, Mailbox
from toolrail_workers.extension.metrics import SessionMetrics

log = logging.getLogger(__name__)

READ_MAX = 100
PAUSE_S = 0.5
DEAF_S = 10.0
CONFLICT = "A call was answered twice, differently; each call has one answer."


class Listener:
    """The reader of one worker."""

    def __init__(
        self,
        bridge: Bridge,
        blocking: Redis,
        *,
        worker: str,
        directory: Directory,
        mailbox: Mailbox,
        poll_s: float,
        metrics: SessionMetrics,
    ) -> None:
        """Prepare; nothing is read.

        Args:
            bridge: The steps in Redis.
            blocking: A connection that may wait for entries.
            worker: Id of this worker.
            directory: Kept up to date.
            mailbox: Gets the answers.
            poll_s: How often liveness is looked at without a hint; deaths give none.
            metrics: Told of hints and looks.
        """
        self._bridge = bridge
        self._blocking = blocking
        self._directory = directory
        self._mailbox = mailbox
        self._poll_s = poll_s
        self._metrics = metrics
        self._worker = worker
        self._replies = bridge.keys.extension_replies(worker)
        self._changes = bridge.keys.extension_changes
        self._last = {self._replies: "0-0", self._changes: "0-0"}
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self._offset_ms = 0.0
        self._on_change: Callable[[], None] = _nobody

    def redis_now_ms(self) -> int:
        """Return the time by the clock of Redis; never ahead of it."""
        return int(asyncio.get_running_loop().time() * 1000 + self._offset_ms)

    async def start(self, on_change: Callable[[], None]) -> None:
        """Look once, so that the owners are known before the first announcement."""
        self._on_change = on_change
        try:
            await self.look()
        except ToolrailError as error:
            log.warning("extension.no_look", extra={"reason": error.message})

    async def run(self) -> None:
        """Read for ever; a Redis that is away only delays."""
        while True:
            try:
                await self._round()
            except (RedisPyError, OSError, ToolrailError) as error:
                log.warning("extension.unreadable", extra={"reason": type(error).__name__})
                await asyncio.sleep(PAUSE_S)
            except UnicodeDecodeError:
                log.error("extension.reply_not_text")
                await self._skip()
            except Exception:
                # The edge of a loop that must outlive its defects.
                log.exception("extension.listener_crashed")
                await asyncio.sleep(PAUSE_S)

    async def look(self) -> None:
        """The directory is as of now; calls of sessions that have ended are given up.

        Raises:
            RedisUnavailable: Nobody knows what is there now.
        """
        async with self._looking:
            loop = asyncio.get_running_loop()
            view = await self._bridge.view()
            self._looked_at = loop.time()
            self._offset_ms = view.now_ms - self._looked_at * 1000
            self._metrics.saw(view.presences)
            if await self._directory.update(view, self._bridge):
                self._on_change()

    async def _round(self) -> None:
        wait_s = self._looked_at + self._poll_s - asyncio.get_running_loop().time()
        has_hint = await self._read(block_ms=max(1, int(wait_s * 1000)))
        if has_hint or asyncio.get_running_loop().time() >= self._looked_at + self._poll_s:
            await self.look()
        await self._give_up_lost()

    async def _give_up_lost(self) -> None:
        lost = [
            (extension, session)
            for extension, session in self._mailbox.sessions()
            if not self._directory.is_alive(extension, session)
        ]
        if not lost:
            return
        # An ended session can send nothing more, so what it did send is in the stream by now.
        while await self._read(block_ms=None, only_replies=True):
            pass
        for extension, session in lost:
            self._mailbox.give_up(extension, session)

    async def _read(self, *, block_ms: int | None, only_replies: bool = False) -> bool:
        """Deliver what came; return whether there was a hint, or, of replies only, any."""
        streams = {self._replies: self._last[self._replies]} if only_replies else self._last
        # A connection that died silently would never say so.
        async with asyncio.timeout((block_ms or 0) / 1000 + DEAF_S):
            entries = await xread(self._blocking, streams, count=READ_MAX, block_ms=block_ms)
        has_hint, has_replies = False, False
        for stream, entry, fields in entries:
            self._last[stream] = entry
            if stream == self._changes:
                has_hint = True
                self._metrics.heard(fields.get("extension", ""), fields.get("change", ""))
                continue
            has_replies = True
            await self._deliver(fields)
        if has_replies:
            await command(
                self._blocking, "XTRIM", self._replies, "MINID", self._last[self._replies]
            )
        return has_replies if only_replies else has_hint

    async def _skip(self) -> None:
        """Step over what cannot be read: answers lost with it end by their calls' deadlines."""
        self._last[self._changes] = f"{self.redis_now_ms()}-0"
        try:
            await self._bridge.forget_replies(self._worker)
        except ToolrailError:
            await asyncio.sleep(PAUSE_S)

    async def _deliver(self, fields: Mapping[str, str]) -> None:
        try:
            call_key, attempt = fields["call"].split(".")
            call = CallId(call_key, int(attempt))
            asked = AskedOf(fields["extension"], fields["session"], call)
            text = fields["message"]
        except (KeyError, ValueError):
            log.warning("extension.stray_reply")
            return
        if not self._mailbox.deliver(asked, text):
            await self._bridge.close(asked.extension, asked.session, reason=CONFLICT)


def _nobody() -> None:
    """Stand for the listener before there is one."""
