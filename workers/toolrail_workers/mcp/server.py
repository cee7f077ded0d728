"""Keep one MCP server running and reachable, for as long as the worker lives.

Is: the owner task of one server: connect, list, publish, wait, leave, back off, again; and the
gate through which calls pass. Is not: a connection (`connection.py`) or a process (`stdio.py`).
Above: `executor.py`. Below: `connection.py`, `listing.py`, `launch.py`.

The owner task alone enters and leaves SDK contexts: their cancel scopes must be left by the task
that entered them, and a caller that owned one would be cancelled when the server dies. Callers
use the live connection directly and concurrently from their own tasks.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, InputRequiredResult

from toolrail.redaction import clean_said
from toolrail_schemas import JsonObject
from toolrail_workers.mcp.config import ServerConfig
from toolrail_workers.mcp.connection import Connection, Era, Rhythm, connect
from toolrail_workers.mcp.launch import CannotStart, explain_start_failure
from toolrail_workers.mcp.listing import Listing, build_listing
from toolrail_workers.mcp.mapping import busy, unavailable
from toolrail_workers.mcp.metrics import McpMetrics, McpOutcome, ServerMeter
from toolrail_workers.mcp.transport import End, ServerTransport

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 8.0
"""Grace, SIGTERM and reaping of a server that ignores all of them, and a little more."""
STDERR_LOGGED_CHARS = 500
WAITING_SHARE = 0.9
"""Of a call's time that may pass before it is sent."""
SDK_MARGIN_S = 5.0
"""The SDK's own timeout comes after the deadline of the call, which `execute.py` keeps."""


class ServerState(StrEnum):
    """Where a server stands. `error` is final until the worker starts again."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    ERROR = "error"


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long and how often a server is waited for."""

    ready_s: float = 5.0
    """A call waits this long for a server that is on its way back."""
    first_backoff_s: float = 0.2
    last_backoff_s: float = 30.0
    settled_s: float = 30.0
    """A server that lived this long starts again without delay."""
    start_retries: int = 3
    """Of a command that cannot be started at all. Source: semantics 4.6."""


class McpServer:
    """One server of the file."""

    def __init__(
        self,
        config: ServerConfig,
        *,
        make_transport: Callable[[ServerConfig], ServerTransport],
        on_change: Callable[[], None],
        patience: Patience | None = None,
        jitter: Callable[[], float] = random.random,
        metrics: McpMetrics | None = None,
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            config: The server's entry.
            make_transport: Returns a fresh transport for each attempt; may raise `CannotStart`.
            on_change: Called when tools, availability or its reason changed.
            patience: Waits and retries.
            jitter: Draws in [0, 1); spreads the restarts of a fleet.
            metrics: Where to count; None counts for nobody.
        """
        self.config = config
        self._make_transport = make_transport
        self._on_change = on_change
        self._patience = patience or Patience()
        self._jitter = jitter
        self._meter = ServerMeter(config.id, metrics)
        self._meter.watch(
            is_up=lambda: self._state is ServerState.RUNNING,
            sessions=lambda: int(self._connection is not None),
            inflight=lambda: self._connection.in_flight if self._connection else 0,
        )
        self._ended_by: End | None = None
        self._state = ServerState.STOPPED
        self._reason: str | None = "it was not started"
        self._listing = Listing()
        self._connection: Connection | None = None
        self._moved = asyncio.Event()
        self._stopping = asyncio.Event()
        self._slots = asyncio.Semaphore(config.options.max_concurrency)
        self._owner: asyncio.Task[None] | None = None
        self._era: Era = "auto"
        self._start_failures = 0
        self._failed_in_a_row = 0
        self._backoff_s = self._patience.first_backoff_s

    @property
    def state(self) -> ServerState:
        """Where it stands now."""
        return self._state

    @property
    def reason(self) -> str | None:
        """Why it is not running, for operators; None while it is."""
        return self._reason

    @property
    def listing(self) -> Listing:
        """Its tools, as last listed; they stay known while it is away."""
        return self._listing

    @property
    def is_available(self) -> bool:
        """Whether a call made now has a good chance.

        A server that has just gone away and is being started again counts: a call waits for it.
        """
        if self._state is ServerState.RUNNING:
            return True
        coming = self._state in (ServerState.BACKOFF, ServerState.STARTING)
        return coming and bool(self._listing.tools) and self._failed_in_a_row == 0

    @property
    def is_settled(self) -> bool:
        """Whether the first attempt has ended, one way or the other."""
        return self._state is not ServerState.STARTING or self._failed_in_a_row > 0

    def start(self) -> None:
        """Begin the owner task."""
        self._enter(ServerState.STARTING, "it is starting")
        self._owner = asyncio.create_task(self._own(), name=f"mcp:{self.config.id}")
        self._owner.add_done_callback(self._owner_ended)

    async def stop(self) -> None:
        """Close the connection and end the server with everything it started, in bounded time."""
        self._stopping.set()
        owner = self._owner
        if owner is None:
            return
        if self._state is not ServerState.RUNNING:
            owner.cancel()
        self._enter(ServerState.STOPPING, "it is being stopped")
        await asyncio.wait({owner}, timeout=STOP_TIMEOUT_S)
        if not owner.done():
            log.error("mcp.stop_timed_out", extra={"server": self.config.id})
            owner.cancel()
            await asyncio.wait({owner}, timeout=STOP_TIMEOUT_S)

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        timeout_s: float,
        on_progress: ProgressFnT | None = None,
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool by the server's own name for it, waiting for a slot and for the server.

        Raises:
            ToolError: `mcp.server_unavailable`; the call was not made.
            MCPError: An error answer, a timeout, or the end of the connection.
            ValueError: The answer cannot be understood.
        """
        # Waiting ends a little before the deadline of the call: cancelled while it waits, a call
        # that was never made would have to be reported as one whose outcome nobody knows.
        clock = asyncio.get_running_loop().time
        due_at, give_up_at = clock() + timeout_s, clock() + timeout_s * WAITING_SHARE
        await self._take_slot(give_up_at)
        try:
            connection = await self._connected(give_up_at)
            with self._meter.request("tools/call", timeout_s=due_at - clock()) as request:
                result = await connection.call(
                    tool, arguments, timeout_s=timeout_s + SDK_MARGIN_S, on_progress=on_progress
                )
                if isinstance(result, CallToolResult) and result.is_error:
                    request.outcome = McpOutcome.TOOL_ERROR
                return result
        finally:
            self._slots.release()

    async def _take_slot(self, give_up_at: float) -> None:
        try:
            async with asyncio.timeout_at(give_up_at):
                await self._slots.acquire()
        except TimeoutError:
            raise busy(self.config.id) from None

    async def _connected(self, give_up_at: float) -> Connection:
        ready_by = asyncio.get_running_loop().time() + self._patience.ready_s
        final = (ServerState.ERROR, ServerState.STOPPED, ServerState.STOPPING)
        try:
            async with asyncio.timeout_at(min(ready_by, give_up_at)):
                while self._state not in final:
                    # The owner may not yet have noticed that the connection it holds is dead.
                    if self._connection is not None and self._connection.is_open:
                        return self._connection
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            pass
        raise unavailable(self.config.id)

    async def _own(self) -> None:
        try:
            while not self._stopping.is_set():
                started_at = asyncio.get_running_loop().time()
                await self._live_once()
                if self._stopping.is_set() or self._state is ServerState.ERROR:
                    break
                await self._back_off(asyncio.get_running_loop().time() - started_at)
                if not self._stopping.is_set():
                    self._meter.note_restart(self._ended_by or End.EXIT)
        finally:
            if self._state is not ServerState.ERROR:
                self._enter(ServerState.STOPPED, "it was stopped")

    def _owner_ended(self, owner: asyncio.Task[None]) -> None:
        error = None if owner.cancelled() else owner.exception()
        if error is not None:
            log.error("mcp.owner_failed", extra={"server": self.config.id}, exc_info=error)

    async def _live_once(self) -> None:
        """Connect, serve until the end, and record why it ended."""
        failed_before = self._failed_in_a_row > 0
        self._enter(ServerState.STARTING, self._reason if failed_before else "it is starting")
        transport: ServerTransport | None = None
        self._ended_by = None
        try:
            transport = self._make_transport(self.config)
            reason = await self._serve(transport)
        except TimeoutError:
            self._note_end(End.HANG)
            limit_s = self.config.options.connect_timeout_s
            self._failed(f"it was not ready within {limit_s:g} s", transport)
        except (CannotStart, OSError) as error:
            self._cannot_start(error)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._note_end(End.PROTOCOL)
            self._failed("the transport cancelled its owner")
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001  # edge to third-party code
            self._handshake_failed(_leaf(error), transport)
        else:
            self._ended(reason, transport)

    async def _serve(self, transport: ServerTransport) -> str:
        options = self.config.options
        rhythm = Rhythm(liveness_s=options.liveness_s, request_timeout_s=options.connect_timeout_s)
        opening: AbstractAsyncContextManager[Connection] = connect(
            transport, server=self.config.id, era=self._era, rhythm=rhythm, meter=self._meter
        )
        async with asyncio.timeout(options.connect_timeout_s) as deadline, opening as connection:
            await self._refresh(connection)
            deadline.reschedule(None)
            self._became_ready(connection)
            try:
                return await connection.serve(
                    stop=self._stopping, refresh=lambda: self._refresh(connection)
                )
            finally:
                self._note_end(connection.end)
                self._connection = None

    def _became_ready(self, connection: Connection) -> None:
        # Remembered, because a legacy server that ignores the modern question costs its timeout.
        self._era = "auto" if connection.is_modern else "legacy"
        self._connection = connection
        self._start_failures = self._failed_in_a_row = 0
        self._enter(ServerState.RUNNING, None)

    async def _refresh(self, connection: Connection) -> None:
        limit_s = self.config.options.connect_timeout_s
        with self._meter.request("tools/list", timeout_s=limit_s):
            tools, dropped = await connection.list_tools()
        before = self._listing
        self._listing = build_listing(tools, config=self.config, dropped=dropped)
        if self._listing.warnings != before.warnings:
            for warning in self._listing.warnings:
                log.warning(
                    "mcp.tool_listing",
                    extra={"server": self.config.id, "warning": clean_said(warning)},
                )
        if before.tools and self._listing.tools != before.tools:
            self._meter.note_change()
        if self._state is ServerState.RUNNING and self._listing.tools != before.tools:
            self._on_change()

    async def _back_off(self, lived_s: float) -> None:
        if lived_s >= self._patience.settled_s:
            self._backoff_s = self._patience.first_backoff_s
        delay_s = self._backoff_s * (0.7 + 0.6 * self._jitter())
        self._backoff_s = min(self._backoff_s * 2, self._patience.last_backoff_s)
        try:
            async with asyncio.timeout(delay_s):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _cannot_start(self, error: CannotStart | OSError) -> None:
        reason = (
            explain_start_failure(error, self.config.command)
            if isinstance(error, OSError)
            else str(error)
        )
        self._note_end(End.EXIT)
        self._start_failures += 1
        if self._start_failures > self._patience.start_retries:
            log.error("mcp.server_error", extra={"server": self.config.id, "reason": reason})
            self._enter(ServerState.ERROR, reason)
        else:
            self._failed(reason)

    def _handshake_failed(self, error: BaseException, transport: ServerTransport | None) -> None:
        # Some legacy servers exit on the modern question, so the next attempt asks the old way;
        # and one that was updated refuses the old way, so the one after that asks both.
        self._era = "legacy" if self._era == "auto" else "auto"
        has_closed = transport is not None and transport.closed.is_set()
        why = transport.reason if transport is not None and has_closed else None
        self._note_end(transport.end if transport is not None and has_closed else End.PROTOCOL)
        said = (
            clean_said(error.message)[:200] if isinstance(error, MCPError) else type(error).__name__
        )
        self._failed(why or f"the handshake failed: {said}", transport)

    def _note_end(self, end: End) -> None:
        """Keep what ended this life first; the rest only followed from it."""
        self._ended_by = self._ended_by or end

    def _failed(self, reason: str, transport: ServerTransport | None = None) -> None:
        self._failed_in_a_row += 1
        self._log_end("mcp.connect_failed", reason, transport)
        self._enter(ServerState.BACKOFF, reason)

    def _ended(self, reason: str, transport: ServerTransport) -> None:
        if not self._stopping.is_set():
            self._log_end("mcp.connection_ended", reason, transport)
            self._enter(ServerState.BACKOFF, reason)

    def _log_end(self, event: str, reason: str, transport: ServerTransport | None) -> None:
        log.warning(event, extra={"server": self.config.id, "reason": reason})
        # A server may print content, so its words are for who debugs only, and without secrets.
        # Cleaned before they are cut, because half a secret looks like nothing.
        if transport is None or not log.isEnabledFor(logging.DEBUG):
            return
        tail = clean_said(transport.diagnosis())[-STDERR_LOGGED_CHARS:]
        if tail:
            log.debug("mcp.server_said", extra={"server": self.config.id, "stderr_tail": tail})

    def _enter(self, state: ServerState, reason: str | None) -> None:
        before = (self.is_available, self._reason)
        self._state, self._reason = state, reason
        self._moved.set()
        if (self.is_available, self._reason) != before:
            self._on_change()


def _leaf(error: BaseException) -> BaseException:
    """Return the first cause inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return _leaf(group.exceptions[0])
    return error
