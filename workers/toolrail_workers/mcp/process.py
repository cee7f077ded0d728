"""Run one server process with everything it starts, and be able to end all of it.

Is: spawn in an own session, three pipes with flow control, the end of the whole process group.
Is not: MCP, nor what the bytes mean.
Above: `stdio.py`. Below: asyncio subprocess protocols, which unlike `asyncio.subprocess.Process`
tell of an exit while a grandchild still holds the pipes.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

READ_LIMIT_BYTES = 65_536
REAP_TIMEOUT_S = 2.0
"""Time for the event loop to see a kill; only an unkillable process runs this out."""


class _Pipes(asyncio.SubprocessProtocol):
    """What asyncio tells about a process: bytes, lost pipes, the exit."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stdout = asyncio.StreamReader(limit=READ_LIMIT_BYTES, loop=loop)
        self.stderr = asyncio.StreamReader(limit=READ_LIMIT_BYTES, loop=loop)
        self.exited = asyncio.Event()
        self.may_write = asyncio.Event()
        self.may_write.set()
        self._readers = {1: self.stdout, 2: self.stderr}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Let the readers pause their pipes."""
        process = cast(asyncio.SubprocessTransport, transport)
        for fd, reader in self._readers.items():
            pipe = process.get_pipe_transport(fd)
            if pipe is not None:
                reader.set_transport(pipe)

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        """Pass bytes on; the reader pauses the pipe when nobody takes them."""
        self._readers[fd].feed_data(cast(bytes, data))

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """End the stream of that pipe."""
        reader = self._readers.get(fd)
        if reader is not None:
            reader.feed_eof()
        else:
            self.may_write.set()

    def process_exited(self) -> None:
        """Note the exit."""
        self.exited.set()

    def pause_writing(self) -> None:
        """Stop writers: the process does not read fast enough."""
        self.may_write.clear()

    def resume_writing(self) -> None:
        """Let writers go on."""
        self.may_write.set()


class ServerProcess:
    """A running server process; `spawn` makes it.

    Attributes:
        pid: Its id and, since it leads its own session, that of its process group.
        stdout: What it answers.
        stderr: What it tells people.
        exited: Set when the process itself is gone, whoever still holds its pipes.
    """

    def __init__(self, transport: asyncio.SubprocessTransport, pipes: _Pipes, *, pid: int) -> None:
        self.pid = pid
        self.stdout = pipes.stdout
        self.stderr = pipes.stderr
        self.exited = pipes.exited
        self._pipes = pipes
        self._transport = transport
        self._stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))

    async def write(self, data: bytes) -> None:
        """Hand `data` to the process, waiting while its pipe is full.

        Raises:
            BrokenPipeError: The process reads no more.
        """
        if self._stdin.is_closing():
            raise BrokenPipeError
        self._stdin.write(data)
        await self._pipes.may_write.wait()

    async def end(self, *, grace_s: float, term_s: float) -> None:
        """Leave nothing of the process group alive, the polite way first.

        Args:
            grace_s: Time to exit by itself after its input was closed.
            term_s: Time to exit after SIGTERM.
        """
        self._stdin.close()
        if not await self._exits_within(grace_s):
            self._signal_group(signal.SIGTERM)
            await self._exits_within(term_s)
        # Also after a polite exit: what the server started may still be there, and would hold
        # files, ports and our pipes for ever.
        self._signal_group(signal.SIGKILL)
        await self._exits_within(REAP_TIMEOUT_S)
        self._transport.close()

    def describe_exit(self) -> str:
        """Return the exit in words."""
        code = self._transport.get_returncode()
        if code is None:
            return "is still running"
        if code >= 0:
            return f"exited with status {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    async def _exits_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.exited.wait()
        except TimeoutError:
            return False
        return True

    def _signal_group(self, number: signal.Signals) -> None:
        # Nobody is left, or only a process that changed its user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


async def spawn(
    command: str, args: Sequence[str], *, environment: Mapping[str, str], cwd: Path | None
) -> ServerProcess:
    """Start a process that leads its own session, with exactly this environment.

    Raises:
        OSError: It cannot be started; `FileNotFoundError` when there is no such command or folder.
    """
    loop = asyncio.get_running_loop()
    transport, pipes = await loop.subprocess_exec(
        lambda: _Pipes(loop),
        command,
        *args,
        env=dict(environment),
        cwd=cwd,
        start_new_session=True,
    )
    return ServerProcess(transport, pipes, pid=transport.get_pid())
