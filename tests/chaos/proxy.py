"""Stand between a process and its Redis, and hold back, cut or refuse what passes.

Is: a TCP proxy on loopback whose faults are switched while it runs. Is not: anything that knows
Redis. Above: `rig.py`. Below: asyncio.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Literal

CHUNK_BYTES = 65_536
Way = Literal["up", "down"]
"""`up` is from the process to Redis; held back, a command is late; `down`, its reply is."""


class FaultProxy:
    """One port that leads to another."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self._target = port
        self._server: asyncio.Server | None = None
        self._gates = {"up": asyncio.Event(), "down": asyncio.Event()}
        self._held = {"up": bytearray(), "down": bytearray()}
        self._trap = b""
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        for gate in self._gates.values():
            gate.set()

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut everything and listen no more."""
        if self._server is not None:
            self._server.close()
        self.open("up")
        self.open("down")
        self.cut()

    def hold(self, *ways: Way) -> None:
        """Let nothing pass; connections stay, as when a network drops packets."""
        for way in ways:
            self._held[way].clear()
            self._gates[way].clear()

    def trap(self, words: bytes) -> None:
        """Hold commands from the first one on that has these words; b"" is no trap."""
        self._trap = words

    def open(self, *ways: Way) -> None:
        """Let pass, late, what was held back, also of connections that were given up since."""
        for way in ways:
            self._gates[way].set()

    def holds(self, way: Way, words: bytes) -> bool:
        """Return whether something with these words is held back."""
        return not self._gates[way].is_set() and words in self._held[way]

    def cut(self) -> None:
        """Reset every connection."""
        for writer in list(self._writers):
            writer.transport.abort()

    @contextmanager
    def refusing(self) -> Generator[None]:
        """Cut, and accept nothing, while inside."""
        self._refuses = True
        self.cut()
        try:
            yield
        finally:
            self._refuses = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, up_writer}
        self._writers |= both
        try:
            await asyncio.gather(
                self._pass("up", reader, up_writer), self._pass("down", up_reader, writer)
            )
        finally:
            self._writers -= both
            for each in both:
                each.close()

    async def _pass(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        gate, held = self._gates[way], self._held[way]
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if way == "up" and self._trap and self._trap in data:
                    self._trap = b""
                    self.hold("up")
                if not gate.is_set():
                    held += data
                    await gate.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
