"""Run one child process: start it, know when it is ready, read what it prints, end it for sure.

Is: one start to one end. Is not: restarts and order (`supervisor.py`).
Above: `supervisor.py`. Below: `launch.py`, `ready.py`, `spec.py`, asyncio's subprocesses.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import deque
from pathlib import Path

from toolrail.supervisor.console import LineSink
from toolrail.supervisor.ready import is_ready_line, ready_address
from toolrail.supervisor.spec import ChildSpec, ReadyLine, ReadyProbe, StartedIsReady

_LAUNCH = str(Path(__file__).with_name("launch.py"))
_READ_BYTES = 65_536
_LONGEST_LINE_BYTES = 65_536
_PUMP_END_S = 1.0
"""A grandchild that left the group may hold the output open; wait no longer for its end."""


class NotReady(Exception):
    """The child ended, or its time was over, before it was ready. Control flow, not an error."""


class _Pipe:
    """A pipe from a child to this loop.

    Ours and not asyncio's `PIPE`, because there `Process.wait` also waits until every holder of
    the other end is gone (Python 3.11), so a grandchild would hide that the child has ended.
    """

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        self._transport: asyncio.BaseTransport | None = None
        self.reader = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)

    async def open(self) -> None:
        """Start reading."""
        protocol = asyncio.StreamReaderProtocol(self.reader)
        read_end = os.fdopen(self._read_fd, "rb", buffering=0)
        self._read_fd = -1
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: protocol, read_end
        )

    def close_write_end(self) -> None:
        """Leave the write end to the child, so that its end is end of file here."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def close(self) -> None:
        """Stop reading; may be called in any state, more than once."""
        self.close_write_end()
        if self._transport is not None:
            self._transport.close()
        elif self._read_fd >= 0:
            os.close(self._read_fd)
            self._read_fd = -1


class ChildProcess:
    """One running process of a `ChildSpec`, in its own process group."""

    def __init__(self, spec: ChildSpec, sink: LineSink) -> None:
        self._spec = spec
        self._sink = sink
        self._process: asyncio.subprocess.Process | None = None
        self._output: _Pipe | None = None
        self._ready_pipe: _Pipe | None = None
        self._pump: asyncio.Task[None] | None = None
        self.last_lines: deque[str] = deque(maxlen=40)
        self.address = ""
        """Where it listens, if it says so when it is ready."""

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its process group."""
        return self._running.pid

    async def start(self) -> None:
        """Start the process; return as soon as it exists.

        Raises:
            OSError: The Python that launches children cannot be started.
        """
        self._output = _Pipe()
        if isinstance(self._spec.readiness, ReadyLine):
            self._ready_pipe = _Pipe()
        try:
            self._process = await self._spawn(self._output)
            for pipe in self._pipes():
                pipe.close_write_end()
                await pipe.open()
        except BaseException:
            self._close_pipes()
            raise
        self._pump = asyncio.create_task(
            self._read_output(self._output.reader), name=f"pump {self._spec.name}"
        )

    async def wait_ready(self) -> None:
        """Return when the child is ready.

        Raises:
            NotReady: It ended first, or `ready_timeout_s` passed.
        """
        ready = asyncio.create_task(self._ready(), name=f"ready {self._spec.name}")
        ended = asyncio.create_task(self._running.wait(), name=f"end {self._spec.name}")
        try:
            done, _ = await asyncio.wait(
                {ready, ended},
                timeout=self._spec.ready_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            for task in (ready, ended):
                task.cancel()
            await asyncio.gather(ready, ended, return_exceptions=True)
        if ready in done and ready.exception() is None:
            return
        if ended in done:
            raise NotReady("ended before it was ready")
        if ready in done:
            raise NotReady("closed its ready pipe without a ready line")
        raise NotReady(f"not ready after {self._spec.ready_timeout_s:g} s")

    async def wait_end(self) -> int:
        """Return the exit code (negative: the signal) once the process and its group are gone."""
        code = await self._running.wait()
        # What the child started and left behind must not keep ports, files or CPU.
        self.kill()
        if self._pump is not None:
            await asyncio.wait({self._pump}, timeout=_PUMP_END_S)
            self._pump.cancel()
        self._close_pipes()
        return code

    def terminate(self) -> None:
        """Ask the process to end. Only itself: it knows best in which order its own children go."""
        with contextlib.suppress(ProcessLookupError):
            self._running.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process and everything in its process group at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def stop(self, grace_s: float) -> int:
        """End the process: SIGTERM, and SIGKILL to its group after `grace_s` seconds.

        Returns:
            The exit code; negative is the signal that ended it.
        """
        self.terminate()
        try:
            await asyncio.wait_for(self._running.wait(), grace_s)
        except TimeoutError:
            problem = f"still running {grace_s:g} s after SIGTERM; killed"
            self._sink.event(self._spec.name, problem, is_problem=True)
            self.kill()
        return await self.wait_end()

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"child {self._spec.name} was not started")
        return self._process

    def _pipes(self) -> list[_Pipe]:
        return [pipe for pipe in (self._output, self._ready_pipe) if pipe is not None]

    def _close_pipes(self) -> None:
        for pipe in self._pipes():
            pipe.close()

    async def _spawn(self, output: _Pipe) -> asyncio.subprocess.Process:
        argv = [sys.executable, "-I", "-S", _LAUNCH, str(os.getpid()), *self._spec.argv]
        pass_fds: tuple[int, ...] = ()
        if isinstance(self._spec.readiness, ReadyLine) and self._ready_pipe is not None:
            pass_fds = (self._ready_pipe.write_fd,)
            argv += [self._spec.readiness.option, str(self._ready_pipe.write_fd)]
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            # One pipe for both, so that a traceback stays between the lines it belongs to.
            stdout=output.write_fd,
            stderr=output.write_fd,
            cwd=self._spec.cwd,
            env=self._spec.env,
            pass_fds=pass_fds,
            # Its own group: Ctrl-C in the terminal reaches the supervisor only, which then stops
            # the children in order. A session and no `process_group`, which uvloop does not know.
            start_new_session=True,
        )

    async def _ready(self) -> None:
        readiness = self._spec.readiness
        if isinstance(readiness, StartedIsReady):
            return
        if isinstance(readiness, ReadyProbe):
            await readiness.wait()
            return
        if self._ready_pipe is None:
            raise RuntimeError("start() opens the ready pipe")
        async for line in self._ready_pipe.reader:
            if is_ready_line(line):
                self.address = ready_address(line)
                return
        raise NotReady("closed its ready pipe")

    async def _read_output(self, output: asyncio.StreamReader) -> None:
        rest = b""
        while block := await output.read(_READ_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            if len(rest) > _LONGEST_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._show(line)
        if rest:
            self._show(rest)

    def _show(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        self.last_lines.append(text)
        self._sink.line(self._spec.name, text)
