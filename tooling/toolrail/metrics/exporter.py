"""Keep what the cell counts in view of Prometheus, whether Redis is there or not.

Is: the loop that reads once a second and the server that shows what was read. Is not: what is read
(`reader.py`) or how it is written (`page.py`). Above: `toolrail exporter`. Below: both, `serve.py`.

One exporter per cell: two would show the same calls twice. It only reads, so it needs no more than
the right to.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from toolrail.errors import ToolrailError
from toolrail.metrics.page import Page
from toolrail.metrics.process import show_build
from toolrail.metrics.reader import FleetReader
from toolrail.metrics.registry import ProcessRegistry
from toolrail.metrics.serve import Server, serve
from toolrail.redis_io import connect
from toolrail.settings import Settings
from toolrail.tasks import end_task

log = logging.getLogger(__name__)

DEFAULT_PORT = 9464
"""Of exporters in containers. Source: OpenTelemetry's for a Prometheus exporter."""
INTERVAL_S = 1.0
"""From the end of one read to the start of the next; far shorter than a scrape interval."""
READ_S = 2.0
"""Patience for one read, in which Redis answers in milliseconds."""


class Exporter:
    """One cell on one page."""

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        """Prepare; nothing is read or served yet.

        Args:
            settings: Which cell, and where to listen.
            clock: Seconds since 1970.
        """
        self._settings = settings
        self._clock = clock
        self._was_up: bool | None = None
        own = ProcessRegistry()
        show_build(own, build=settings.build)
        self.page = Page(own)

    async def run(
        self, stop: asyncio.Event, *, on_ready: Callable[[Server], None] = lambda _server: None
    ) -> None:
        """Serve until `stop` is set.

        Args:
            stop: Ends it at once, also in the middle of a read.
            on_ready: Called when the server answers, which is before the first read.

        Raises:
            MetricsPortTaken: Nobody can listen there.
        """
        settings = self._settings
        port = DEFAULT_PORT if settings.metrics_port is None else settings.metrics_port
        server = serve(
            self.page.text, host=settings.metrics_host, port=port, is_ready=self.page.problem
        )
        try:
            on_ready(server)
            turns = asyncio.create_task(self._turns(), name="exporter turns")
            stopped = asyncio.create_task(_set(stop), name="exporter stop")
            try:
                await asyncio.wait({turns, stopped}, return_when=asyncio.FIRST_COMPLETED)
                if turns.done():
                    turns.result()
            finally:
                await end_task(stopped)
                await end_task(turns)
        finally:
            server.close()

    async def _turns(self) -> None:
        redis = connect(self._settings.redis_url, timeout_s=READ_S, name="toolrail-exporter")
        reader = FleetReader(redis, prefix=self._settings.key_prefix, clock=self._clock)
        try:
            while True:
                await self._turn(reader)
                await asyncio.sleep(INTERVAL_S)
        finally:
            with contextlib.suppress(OSError):
                await redis.aclose()

    async def _turn(self, reader: FleetReader) -> None:
        try:
            async with asyncio.timeout(READ_S):
                self.page.show(await reader.read())
        except (ToolrailError, TimeoutError) as error:
            self.page.show_down()
            self._tell(is_up=False, reason=str(error) or "No answer in time.")
        except Exception:
            # The edge: whatever another version wrote there, what is known stays shown.
            self.page.show_down()
            if self._was_up is not False:
                log.exception("exporter.unreadable")
            self._was_up = False
        else:
            self._tell(is_up=True)

    def _tell(self, *, is_up: bool, reason: str = "") -> None:
        """Log a change, once."""
        if is_up is self._was_up:
            return
        self._was_up = is_up
        if is_up:
            log.info("exporter.reading")
        else:
            log.warning("exporter.redis_away", extra={"reason": reason})


async def _set(event: asyncio.Event) -> None:
    await event.wait()
