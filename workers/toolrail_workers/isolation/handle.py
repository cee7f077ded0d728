"""The worker's end of one child process.

Is: from the order to fork until the confirmed death of one child: sends a call, receives its
reply, kills the whole process group at once. Is not: which child takes which call (`process.py`).
Above: `process.py`. Below: `link.py` (the guard), `framing.py`, `output.py`.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Callable
from typing import Protocol, cast

import orjson

from toolrail_workers.isolation.errors import ChildDied
from toolrail_workers.isolation.framing import HEADER, Reply, frame
from toolrail_workers.isolation.output import ChildOutput

EOF_PATIENCE_S = 1.0
"""A dead child's socket ends at once; this is for a kernel that thinks otherwise."""


class ChildOwner(Protocol):
    """Who is told what becomes of a child."""

    def on_ready(self, child: "Child") -> None:
        """The child serves calls from now on."""

    def on_gone(self, child: "Child") -> None:
        """The child and everything it started are dead."""


class Child(asyncio.Protocol):
    """One child process; runs one call at a time.

    Attributes:
        number: What the guard calls it; unique within one guard.
        pid: Process id and process group; None until the guard reported it.
        calls: How many calls it was given.
        leftovers: The last call left processes behind.
    """

    def __init__(self, number: int, owner: ChildOwner) -> None:
        self.number = number
        self.pid: int | None = None
        self.calls = 0
        self.leftovers = False
        self.output = ChildOutput()
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._reply: asyncio.Future[Reply] | None = None
        self._limit = HEADER.size + 2
        self._ready = False
        self._killed = False
        self._connected = True
        self._exit_code: int | None = None
        self._gone = False

    async def connect(self, fork: Callable[[int, int], None]) -> None:
        """Make the two channels and have `fork(calls, output)` pass the far ends to the guard.

        Raises:
            OSError: There are no descriptors left, or the guard is gone.
        """
        near, far = socket.socketpair()
        reading, writing = os.pipe()
        try:
            fork(far.fileno(), writing)
        except OSError:
            near.close()
            os.close(reading)
            raise
        finally:
            far.close()
            os.close(writing)
        near.setblocking(False)
        await self._loop.create_unix_connection(lambda: self, sock=near)
        await self._loop.connect_read_pipe(
            lambda: self.output, os.fdopen(reading, "rb", buffering=0)
        )

    @property
    def usable(self) -> bool:
        """Whether it can be given a call."""
        return self._ready and not self._killed and self._exit_code is None and self._connected

    def exchange(self, request: bytes, *, call_key: str, limit: int) -> asyncio.Future[Reply]:
        """Send one call; the future has its reply.

        Args:
            request: The call as JSON.
            call_key: For the lines it prints.
            limit: Longest reply in bytes; a longer one is a broken child, which is killed.

        The future fails with `ChildDied` when the child is gone before it replied.
        """
        self._reply = self._loop.create_future()
        self._limit = limit
        if self._transport is None or not self.usable:
            self._reply.set_exception(ChildDied(self._exit_code or -signal.SIGKILL))
            return self._reply
        self.calls += 1
        self.output.begin_call(call_key)
        self._transport.write(frame(request))
        return self._reply

    def kill(self) -> None:
        """Kill the child and its whole group now; `on_gone` follows."""
        if self._killed:
            return
        self._killed = True
        if self.pid is not None and self._exit_code is None:
            # Until the guard was told to reap it, this number cannot belong to a stranger.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        if self._transport is not None:
            # A child that was not started yet ends when it finds nobody at the other end.
            self._transport.abort()

    def on_started(self, pid: int) -> None:
        """Hear from the guard that the process exists."""
        self.pid = pid
        if self._killed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def on_exited(self, exit_code: int) -> None:
        """Hear from the guard that the process is dead, or that the guard itself is."""
        if self._exit_code is not None:
            return
        self._exit_code = exit_code
        if self._connected:
            # A reply it sent before it died may still wait in the socket.
            self._loop.call_later(EOF_PATIENCE_S, self._finish)
        else:
            self._finish()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Take one reply; anything else is a broken child."""
        self._buffer += data
        if len(self._buffer) < HEADER.size:
            return
        (size,) = HEADER.unpack_from(self._buffer)
        end = HEADER.size + size
        if end > self._limit or len(self._buffer) > end:
            self.kill()
            return
        if len(self._buffer) < end:
            return
        payload = bytes(self._buffer[HEADER.size :])
        self._buffer.clear()
        self._on_message(payload)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for the guard to say why, unless it did already."""
        self._connected = False
        if self._exit_code is not None:
            self._finish()
        else:
            # It closed its channel but may still run: it cannot serve, so it must not live.
            self.kill()

    def _on_message(self, payload: bytes) -> None:
        if not self._ready:
            self._ready = True
            self._owner.on_ready(self)
            return
        reply, self._reply = self._reply, None
        if reply is None or reply.done():
            self.kill()
            return
        try:
            message = cast(Reply, orjson.loads(payload))
        except ValueError:
            self._reply = reply
            self.kill()
            return
        self.leftovers = message["leftovers"]
        reply.set_result(message)

    def _finish(self) -> None:
        if self._gone:
            return
        self._gone = True
        if self._transport is not None:
            self._transport.abort()
        self.output.close()
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_exception(ChildDied(self._exit_code or 0))
        self._owner.on_gone(self)
