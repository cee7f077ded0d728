"""Say what a way to reach an MCP server must offer, whatever carries the bytes.

Is: the port between one server's owner task and stdio (later HTTP). Is not: protocol; the SDK
speaks that over the streams opened here.
Above: `connection.py`. Below: `stdio.py`.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from types import TracebackType
from typing import Protocol, Self

from mcp.shared.message import SessionMessage


class ReadStream(Protocol):
    """What the SDK session reads from; ends when the server is gone."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        ...

    async def aclose(self) -> None:
        """End the stream."""
        ...

    def __aiter__(self) -> "ReadStream": ...
    async def __anext__(self) -> SessionMessage | Exception: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


class WriteStream(Protocol):
    """What the SDK session writes to."""

    async def send(self, item: SessionMessage, /) -> None:
        """Hand one message to the transport; returns once it is taken, not once it is sent."""
        ...

    async def aclose(self) -> None:
        """End the stream."""
        ...

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None: ...


Streams = tuple[ReadStream, WriteStream]


class End(StrEnum):
    """What ended a connection, as it is counted."""

    EXIT = "exit"
    """The server is gone, or could not be started."""
    HANG = "hang"
    """It does not answer."""
    FLOOD = "flood"
    """It sent more than anybody may send."""
    PROTOCOL = "protocol"
    """It answers, and nobody can understand it."""


class ServerTransport(Protocol):
    """One attempt to reach a server; opened once, by the task that also closes it."""

    @property
    def closed(self) -> asyncio.Event:
        """Set as soon as nothing can be exchanged any more."""
        ...

    @property
    def reason(self) -> str | None:
        """Why it closed, for operators; None while open."""
        ...

    @property
    def end(self) -> End:
        """What closed it; an exit while it is open."""
        ...

    def open(self) -> AbstractAsyncContextManager[Streams]:
        """Reach the server; leaving the context takes down everything that was started.

        Raises:
            OSError: The server cannot be started or reached.
        """
        ...

    def mark_hung(self) -> None:
        """Say that the server does not answer, so that closing need not be patient."""
        ...

    def diagnosis(self) -> str:
        """Return what the server last wrote for people to read, for the log only."""
        ...
