"""Exchange MCP messages with a server process over its standard input and output.

Is: framing, bounds, the stderr ring, the reason of an end. Is not: the process itself
(`process.py`) or the session (the SDK). Not the SDK's own stdio client, which leaves
grandchildren alive, keeps no stderr, bounds no line and tells nobody when the server ends.
Above: `connection.py`. Below: `process.py`. Port: `transport.ServerTransport`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from toolrail_workers.mcp.process import ServerProcess, spawn
from toolrail_workers.mcp.transport import End, Streams
from toolrail_workers.mcp.wire import read_message

log = logging.getLogger(__name__)

CHUNK_BYTES = 65_536
INBOUND_MESSAGES = 64
"""Messages read ahead of the session; then the pipe, and so the server, has to wait."""
FLOOD_CHUNK_BYTES = 32_768
FLOOD_PAUSE_S = 0.005
"""After a large piece of stderr: caps a flood at about 10 MB/s and some percent of a core."""
LAST_WORDS_S = 1.0
"""After the exit of a server, how long its output may still be read by us."""
IMPATIENT_S = 0.05

Inbound = MemoryObjectSendStream[SessionMessage | Exception]
Outbound = MemoryObjectReceiveStream[SessionMessage]


class LineTooLong(ValueError):
    """The server sent a line beyond the limit. Lower what its tool returns."""


class LineBuffer:
    """Cut a byte stream into lines, holding no more than one line and one chunk."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without their line ends.

        Raises:
            LineTooLong: A line is longer than the limit.
        """
        first, newline, others = chunk.partition(b"\n")
        self._rest += first
        lines: list[bytes] = []
        if newline:
            *lines, rest = [bytes(self._rest), *others.split(b"\n")]
            self._rest = bytearray(rest)
        if max(len(self._rest), *map(len, lines), 0) > self._limit_bytes:
            raise LineTooLong
        return lines


class StderrRing:
    """Keep the last words of a server, however much it says."""

    def __init__(self, keep_bytes: int) -> None:
        self._keep_bytes = keep_bytes
        self._chunks: deque[bytes] = deque()
        self._kept = 0

    def append(self, chunk: bytes) -> None:
        """Add to the ring, forgetting the oldest."""
        self._chunks.append(chunk[-self._keep_bytes :])
        self._kept += len(self._chunks[-1])
        while self._kept - len(self._chunks[0]) >= self._keep_bytes:
            self._kept -= len(self._chunks.popleft())

    def tail(self, limit_bytes: int) -> str:
        """Return the end of what was said, undecodable bytes replaced."""
        return b"".join(self._chunks)[-limit_bytes:].decode("utf-8", errors="replace")


@dataclass(frozen=True, kw_only=True)
class StdioCommand:
    """What to start, fully resolved."""

    command: str
    args: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    cwd: Path | None = None


@dataclass(frozen=True, kw_only=True)
class StdioLimits:
    """Bounds on a server's pipes and its end."""

    line_bytes: int = 33_554_432
    """Largest message; an image of 8 MiB is 11 MiB of base64."""
    stderr_bytes: int = 65_536
    grace_s: float = 2.0
    """To exit by itself once its input is closed, as the MCP specification asks."""
    term_s: float = 2.0


class StdioTransport:
    """One run of a server process."""

    def __init__(self, command: StdioCommand, *, limits: StdioLimits | None = None) -> None:
        self._command = command
        self._limits = limits or StdioLimits()
        self._stderr = StderrRing(self._limits.stderr_bytes)
        self._closed = asyncio.Event()
        self._reason: str | None = None
        self._process: ServerProcess | None = None
        self._heard = False
        self._hung = False
        self._junk_lines = 0
        self._end_kind = End.EXIT

    @property
    def closed(self) -> asyncio.Event:
        """Set when the server is gone or cannot be understood."""
        return self._closed

    @property
    def reason(self) -> str | None:
        """Why it closed; an exit outranks what merely followed from it."""
        if self._closed.is_set() and self._process is not None and self._process.exited.is_set():
            return f"the server process {self._process.describe_exit()}"
        return self._reason

    @property
    def end(self) -> End:
        """What closed it first; an exit may only have followed from it."""
        return self._end_kind

    @property
    def pid(self) -> int | None:
        """Process id of the server; None before it was started."""
        return None if self._process is None else self._process.pid

    def mark_hung(self) -> None:
        """Give the server no time to say goodbye."""
        self._hung = True

    def diagnosis(self) -> str:
        """Return the end of the server's stderr."""
        return self._stderr.tail(self._limits.stderr_bytes)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Streams, None]:
        """Start the server; on leaving, end it and everything it started.

        Raises:
            OSError: The server cannot be started.
        """
        what = self._command
        process = await spawn(what.command, what.args, environment=what.environment, cwd=what.cwd)
        # No await between here and `try`, or a cancel in the gap would leak the process.
        self._process = process
        to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](
            INBOUND_MESSAGES
        )
        to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
        reading = asyncio.create_task(self._read(process, to_session))
        tasks = [
            reading,
            asyncio.create_task(self._write(process, from_session)),
            asyncio.create_task(self._drain_stderr(process)),
            asyncio.create_task(self._watch_exit(process, reading)),
        ]
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                await _uninterrupted(self._end(process, tasks))
            async with AsyncExitStack() as streams:
                for stream in (to_session, from_server, to_server, from_session):
                    streams.push_async_callback(stream.aclose)

    async def _read(self, process: ServerProcess, to_session: Inbound) -> None:
        lines = LineBuffer(self._limits.line_bytes)
        try:
            while chunk := await process.stdout.read(CHUNK_BYTES):
                self._heard = True
                for line in lines.feed(chunk):
                    await self._deliver(line, to_session)
            self._close("the server closed its output")
        except LineTooLong:
            self._hung = True
            self._end_kind = End.FLOOD
            self._close(f"the server sent a line over {self._limits.line_bytes} bytes")
        finally:
            self._close("reading was stopped")
            to_session.close()

    async def _deliver(self, line: bytes, to_session: Inbound) -> None:
        message = read_message(line)
        if message is None:
            self._note_junk(line)
            return
        try:
            await to_session.send(SessionMessage(message))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            # The session is gone. Reading goes on, so that a server busy writing can exit.
            return

    def _note_junk(self, line: bytes) -> None:
        if not line.strip():
            return
        self._junk_lines += 1
        if self._junk_lines == 1:
            log.warning(
                "mcp.output_not_json",
                extra={"command": self._command.command, "line_bytes": len(line)},
            )

    async def _write(self, process: ServerProcess, from_session: Outbound) -> None:
        try:
            async for item in from_session:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.write(text.encode("utf-8") + b"\n")
        except OSError:
            self._close("the server stopped reading its input")

    async def _drain_stderr(self, process: ServerProcess) -> None:
        while chunk := await process.stderr.read(CHUNK_BYTES):
            self._stderr.append(chunk)
            if len(chunk) >= FLOOD_CHUNK_BYTES:
                await asyncio.sleep(FLOOD_PAUSE_S)

    async def _watch_exit(self, process: ServerProcess, reading: asyncio.Task[None]) -> None:
        await process.exited.wait()
        # Its last answers may still be in the pipe; but a grandchild may hold that pipe open.
        await asyncio.wait({reading}, timeout=LAST_WORDS_S)
        reading.cancel()

    def _close(self, reason: str) -> None:
        if not self._closed.is_set():
            self._reason = reason
            self._closed.set()

    async def _end(self, process: ServerProcess, tasks: list[asyncio.Task[None]]) -> None:
        # A server that never said a word, or stopped answering, is not owed a goodbye.
        patient = self._heard and not self._hung
        await process.end(
            grace_s=self._limits.grace_s if patient else IMPATIENT_S,
            term_s=self._limits.term_s if patient else IMPATIENT_S,
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _uninterrupted(work: Coroutine[None, None, None]) -> None:
    """Finish `work` even while this task is being cancelled, then let the cancel through."""
    task = asyncio.ensure_future(work)
    interruption: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as cancel:
            interruption = cancel
    if interruption is not None:
        raise interruption
    task.result()
