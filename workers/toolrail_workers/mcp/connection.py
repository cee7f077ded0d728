"""Hold one live connection to an MCP server and notice when it is not live any more.

Is: listing, calling, the watch over change notices and over life. Is not: reconnecting, or what
the tools mean (`server.py`).
Above: `server.py`, whose owner task alone enters and leaves `connect`; callers use `call` from
their own tasks, concurrently. Below: the SDK's `Client`, `tap.py`, a `ServerTransport`.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from typing import Literal, cast

from mcp import Client
from mcp.client import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from toolrail_schemas import JsonObject
from toolrail_workers.mcp.metrics import ServerMeter
from toolrail_workers.mcp.sanitize import DROPPED_MARK
from toolrail_workers.mcp.tap import Tap
from toolrail_workers.mcp.transport import End, ServerTransport, Streams

log = logging.getLogger(__name__)

Era = Literal["auto", "legacy"]

MAX_PAGES = 50
MAX_TOOLS = 2_000
PROBE_TIMEOUT_S = 5.0
DEBOUNCE_S = 0.05
"""A server that adds ten tools sends ten notices."""
LISTING_PAUSE_S = 1.0
"""Least time between two listings, whatever the server sends."""
LISTING_TTL_S = 600.0
"""Source: semantics 4.6."""
RELISTEN_S = 1.0
PROTOCOL_ERRORS_IN_A_ROW = 3
"""Source: semantics 7: such a server is unavailable until it was started again."""


@dataclass(frozen=True, kw_only=True)
class Rhythm:
    """How often a live connection is looked after."""

    liveness_s: float = 15.0
    """0 never probes."""
    request_timeout_s: float = 30.0
    """For our own requests: handshake, listing, subscription."""
    listing_ttl_s: float = LISTING_TTL_S
    listing_pause_s: float = LISTING_PAUSE_S


class Connection:
    """One connection that has finished its handshake."""

    def __init__(
        self,
        client: Client,
        *,
        server: str,
        transport: ServerTransport,
        tap: Tap,
        stale: asyncio.Event,
        rhythm: Rhythm,
        meter: ServerMeter,
    ) -> None:
        self._client = client
        self._server = server
        self._meter = meter
        self._transport = transport
        self._tap = tap
        self._stale = stale
        self._rhythm = rhythm
        self._dead = asyncio.Event()
        self._dead_reason: str | None = None
        self._dead_of = End.EXIT
        self._in_flight = 0
        self._unanswered = 0
        self._protocol_errors = 0

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks the revision without a handshake."""
        return self._client.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def is_open(self) -> bool:
        """Whether a request may still reach the server."""
        return not self._dead.is_set() and not self._transport.closed.is_set()

    @property
    def in_flight(self) -> int:
        """How many calls have no answer yet."""
        return self._in_flight

    @property
    def end(self) -> End:
        """What ended it; an exit as long as nothing did."""
        return self._dead_of if self._dead.is_set() else self._transport.end

    async def list_tools(self) -> tuple[list[Tool], list[str]]:
        """Return the tools of all pages, and a sentence for each that was dropped."""
        tools: list[Tool] = []
        dropped: list[str] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page = await self._client.list_tools(cursor=cursor)
            except MCPError as error:
                if error.code != METHOD_NOT_FOUND:
                    raise
                return [], ["the server offers no tools"]
            tools += page.tools
            dropped += cast("list[str]", (page.meta or {}).get(DROPPED_MARK, []))
            cursor = page.next_cursor
            if not cursor or len(tools) >= MAX_TOOLS:
                break
        if cursor:
            dropped.append(f"the listing goes on after {len(tools)} tools; the rest is not taken")
        return tools[:MAX_TOOLS], dropped

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        timeout_s: float,
        on_progress: ProgressFnT | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool; cancelling this task tells the server to stop.

        Raises:
            MCPError: An error answer, a timeout, or the end of the connection.
            ValueError: The answer cannot be understood.
        """
        heard = self._tap.received
        self._in_flight += 1
        try:
            result = await self._client.session.call_tool(
                tool,
                arguments,
                read_timeout_seconds=timeout_s,
                progress_callback=on_progress,
                allow_input_required=True,
            )
        except (asyncio.CancelledError, MCPError) as error:
            was_given_up = not isinstance(error, MCPError) or error.code == REQUEST_TIMEOUT
            if was_given_up and self._tap.received == heard:
                self._unanswered += 1
            raise
        except (ValueError, RuntimeError):
            self._note_protocol_error()
            raise
        finally:
            self._in_flight -= 1
        self._protocol_errors = 0
        return result

    async def serve(self, *, stop: asyncio.Event, refresh: Callable[[], Awaitable[None]]) -> str:
        """Look after the connection until it is dead or `stop` is set; return why.

        Args:
            stop: Set by the owner.
            refresh: Lists the tools again and publishes them.
        """
        chores = [self._chore(self._keep_fresh(refresh))]
        if self._rhythm.liveness_s > 0:
            chores.append(self._chore(self._probe()))
        tools = self._client.server_capabilities.tools
        if self.is_modern and tools is not None and tools.list_changed:
            chores.append(self._chore(self._listen()))
        ends = (stop, self._dead, self._transport.closed)
        waits = [asyncio.create_task(end.wait()) for end in ends]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (*chores, *waits):
                task.cancel()
            await asyncio.gather(*chores, *waits, return_exceptions=True)
        if stop.is_set():
            return "it was stopped"
        return self._transport.reason or self._dead_reason or "the connection ended"

    def mark_dead(self, reason: str, end: End) -> None:
        """End the connection; its owner then leaves it and starts anew."""
        if not self._dead.is_set():
            self._dead_reason, self._dead_of = reason, end
            self._dead.set()

    def _chore(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        task.add_done_callback(self._chore_ended)
        return task

    def _chore_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            # A chore that dies quietly would leave a connection nobody looks after.
            log.error("mcp.chore_failed", extra={"server": self._server}, exc_info=error)
            self.mark_dead("looking after the connection failed", End.PROTOCOL)

    def _note_protocol_error(self) -> None:
        self._protocol_errors += 1
        if self._protocol_errors >= PROTOCOL_ERRORS_IN_A_ROW:
            times = self._protocol_errors
            self.mark_dead(f"it answered wrongly {times} times in a row", End.PROTOCOL)

    async def _keep_fresh(self, refresh: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                async with asyncio.timeout(self._rhythm.listing_ttl_s):
                    await self._stale.wait()
            except TimeoutError:
                pass  # due by age
            else:
                await asyncio.sleep(DEBOUNCE_S)
            self._stale.clear()
            try:
                await refresh()
            except (MCPError, ValidationError) as error:
                log.warning(
                    "mcp.listing_failed",
                    extra={"server": self._server, "error": type(error).__name__},
                )
            await asyncio.sleep(self._rhythm.listing_pause_s)

    async def _listen(self) -> None:
        """Subscribe to changes of a modern server; a legacy one sends them unasked."""
        while True:
            try:
                async with self._client.listen(tools_list_changed=True) as changes:
                    # Nothing is replayed, so each new subscription begins with a listing.
                    self._stale.set()
                    async for _ in changes:
                        self._stale.set()
            except (SubscriptionLost, TimeoutError):
                log.info("mcp.subscription_lost", extra={"server": self._server})
            except MCPError as error:
                log.info(
                    "mcp.subscription_refused",
                    extra={"server": self._server, "error_code": error.code},
                )
                return
            await asyncio.sleep(RELISTEN_S)

    async def _probe(self) -> None:
        """Ask a silent server whether it lives."""
        while True:
            heard = self._tap.received
            await asyncio.sleep(self._rhythm.liveness_s)
            if self._tap.received != heard or await self._answers():
                self._unanswered = 0
                continue
            # A server with one thread is silent while it works, and the call has its own
            # deadline. Only when a call was given up without a word is it hung for sure.
            if self._in_flight and not self._unanswered:
                continue
            self._transport.mark_hung()
            self.mark_dead("it does not answer", End.HANG)
            return

    async def _answers(self) -> bool:
        limit_s = min(PROBE_TIMEOUT_S, self._rhythm.liveness_s)
        try:
            with self._meter.request("ping", timeout_s=limit_s):
                await self._ask_whether_alive(limit_s)
        except TimeoutError:
            return False
        except MCPError as error:
            return error.code not in (CONNECTION_CLOSED, REQUEST_TIMEOUT)
        except ValidationError:
            return True  # wrong, but alive
        return True

    async def _ask_whether_alive(self, limit_s: float) -> None:
        session = self._client.session
        async with asyncio.timeout(limit_s):
            if self.is_modern:
                await session.send_discover(self._client.protocol_version)
            else:
                await session.send_ping()


@asynccontextmanager
async def connect(
    transport: ServerTransport, *, server: str, era: Era, rhythm: Rhythm, meter: ServerMeter
) -> AsyncGenerator[Connection, None]:
    """Reach the server and shake hands; on leaving, take everything down.

    Enter and leave in one task, which does nothing else: the SDK's cancel scopes belong to it.

    Raises:
        OSError: It cannot be started or reached.
        MCPError: It refused, or ended before it was ready.
    """
    tap = Tap(server)
    stale = asyncio.Event()

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            stale.set()

    client = Client(
        _tapped(transport, tap),
        mode=era,
        message_handler=on_message,
        cache=None,  # the registry is the cache, and this listing its source
        read_timeout_seconds=rhythm.request_timeout_s,
        client_info=Implementation(name="toolrail", version=installed_version("toolrail")),
    )
    async with AsyncExitStack() as stack:
        with meter.request("initialize", timeout_s=rhythm.request_timeout_s):
            await stack.enter_async_context(client)
        yield Connection(
            client,
            server=server,
            transport=transport,
            tap=tap,
            stale=stale,
            rhythm=rhythm,
            meter=meter,
        )


@asynccontextmanager
async def _tapped(transport: ServerTransport, tap: Tap) -> AsyncGenerator[Streams, None]:
    async with transport.open() as streams:
        try:
            yield tap.wrap(streams)
        except asyncio.CancelledError:
            # The connect deadline, or a stop in the middle of a start: nobody waits for a goodbye.
            transport.mark_hung()
            raise
