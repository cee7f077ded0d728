"""Stand between a transport and the SDK session and pass on only what the session can take.

Is: which answer belongs to which request, and a count of what was heard. Is not: the cleaning
itself (`sanitize.py`). Uses the SDK's public seam only: a session reads and writes two streams.
Above: `connection.py`. Below: `sanitize.py`.
"""

import logging
from types import TracebackType
from typing import Self

from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCRequest, JSONRPCResponse
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from toolrail_workers.mcp.sanitize import clean_call_result, clean_listing
from toolrail_workers.mcp.transport import ReadStream, Streams, WriteStream

log = logging.getLogger(__name__)

MAX_PENDING = 10_000
"""Requests whose answer is awaited; beyond it the oldest was abandoned long ago."""


class Tap:
    """Watch one connection; wrap its streams before the session gets them."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._pending: dict[int | str, str] = {}
        # The wire models of all handshake revisions are one set, those of the modern ones another.
        self._version = LATEST_MODERN_VERSION
        self.received = 0
        """Messages heard from the server so far."""

    def wrap(self, streams: Streams) -> Streams:
        """Return streams that clean what passes."""
        read, write = streams
        return _TappedRead(read, self), _TappedWrite(write, self)

    def outbound(self, item: SessionMessage) -> None:
        """Remember what was asked."""
        message = item.message
        if not isinstance(message, JSONRPCRequest):
            return
        if message.method == "initialize":
            self._version = LATEST_HANDSHAKE_VERSION
        if message.method in ("tools/list", "tools/call"):
            self._pending[message.id] = message.method
            if len(self._pending) > MAX_PENDING:
                del self._pending[next(iter(self._pending))]

    def inbound(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        """Return the message as the session may see it."""
        self.received += 1
        if isinstance(item, Exception):
            return item
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._note_request(message)
        elif isinstance(message, JSONRPCError):
            self._pending.pop(message.id if message.id is not None else "", None)
        elif isinstance(message, JSONRPCResponse):
            return SessionMessage(self._cleaned(message), item.metadata)
        return item

    def _cleaned(self, answer: JSONRPCResponse) -> JSONRPCResponse:
        method = self._pending.pop(answer.id, None)
        if method is None:
            return answer
        clean = clean_listing if method == "tools/list" else clean_call_result
        return answer.model_copy(update={"result": clean(answer.result, version=self._version)})

    def _note_request(self, request: JSONRPCRequest) -> None:
        """Log what a server asks of us; the session declares nothing and so refuses it."""
        if request.method != "ping":
            log.warning(
                "mcp.request_refused", extra={"server": self._server, "method": request.method}
            )


class _TappedRead:
    """A read stream that shows every message to the tap."""

    def __init__(self, inner: ReadStream, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def receive(self) -> SessionMessage | Exception:
        return self._tap.inbound(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._tap.inbound(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        await self.aclose()
        return None


class _TappedWrite:
    """A write stream that shows every message to the tap."""

    def __init__(self, inner: WriteStream, tap: Tap) -> None:
        self._inner = inner
        self._tap = tap

    async def send(self, item: SessionMessage, /) -> None:
        self._tap.outbound(item)
        await self._inner.send(item)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        await self.aclose()
        return None
