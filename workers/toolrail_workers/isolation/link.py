"""The worker's end of the guard process.

Is: starts the guard, orders forks and reaps, hands its reports on, notices its end. Is not: the
guard's side (`guard.py`), nor restarts (`process.py`).
Above: `process.py`. Below: asyncio subprocesses, a socket that carries descriptors.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Self

from toolrail_workers.isolation.framing import ORDER, REPORT, Order, Report
from toolrail_workers.isolation.guard import GuardOptions

READ_BYTES = 65_536


class GuardLink:
    """One running guard.

    Attributes:
        gone: Done when the guard's socket closed; everything it had forked dies with it.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        control: socket.socket,
        on_report: Callable[[Report, int, int], None],
    ) -> None:
        self._process = process
        self._control = control
        self._on_report = on_report
        self._buffer = bytearray()
        self._loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(control.fileno(), self._read)

    @classmethod
    async def start(
        cls,
        options: Callable[[int], GuardOptions],
        *,
        environment: Mapping[str, str],
        on_report: Callable[[Report, int, int], None],
    ) -> Self:
        """Start a guard; READY is reported when it can fork.

        Args:
            options: Returns the options for a control descriptor.
            environment: All variables the guard and its children see.
            on_report: Called in the loop for every report, in order.

        Raises:
            OSError: The process could not be started.
        """
        near, far = socket.socketpair()
        # The children import what the worker imports, wherever it found it.
        path = os.pathsep.join(filter(None, sys.path))
        module = "toolrail_workers.isolation.guard"
        argument = options(far.fileno()).to_argument()
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", module, argument),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**environment, "PYTHONPATH": path},
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
        except BaseException:
            near.close()
            raise
        finally:
            far.close()
        near.setblocking(False)
        return cls(process, near, on_report)

    def fork(self, number: int, *, calls: int, output: int) -> None:
        """Order a child that serves on these descriptors.

        Raises:
            OSError: The guard is gone.
        """
        socket.send_fds(self._control, [ORDER.pack(Order.FORK, number)], [calls, output])

    def reap(self, number: int) -> None:
        """Let the guard forget a dead child."""
        with contextlib.suppress(OSError):
            self._control.send(ORDER.pack(Order.REAP, number))

    async def stop(self, *, patience_s: float) -> None:
        """End the guard and everything it forked; kill it if it does not end by itself."""
        self._close()
        try:
            async with asyncio.timeout(patience_s):
                await self._process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _read(self) -> None:
        try:
            data = self._control.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._close()
            return
        self._buffer += data
        complete = len(self._buffer) // REPORT.size * REPORT.size
        reports = bytes(self._buffer[:complete])
        del self._buffer[:complete]
        for kind, number, value in REPORT.iter_unpack(reports):
            self._on_report(Report(kind), number, value)

    def _close(self) -> None:
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
        if not self.gone.done():
            self.gone.set_result(None)
