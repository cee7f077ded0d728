"""Fork the children of one worker, and kill them when that worker is gone.

Is: a process of its own, one thread, that never runs tool code. It forks children on order,
reports their deaths, kills whatever they leave behind, and when the worker's end of its socket
closes, which a SIGKILL of the worker does too, it kills everything and ends. A thread inside the
child could not: a tool that holds the interpreter lock would stop it.
Is not: deadlines (`handle.py` kills a child's process group itself), nor calls (`child.py`).
Above: `process.py` starts `python -m toolrail_workers.isolation.guard`. Below: `child.py`.

Each child leads a process group. On Linux the guard and every child are subreapers, so that even
a daemon that left the group and lost its parent comes back to the guard and is killed.
"""

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from dataclasses import asdict, dataclass
from typing import NoReturn, Self

from toolrail_workers.isolation import child
from toolrail_workers.isolation.framing import ORDER, REPORT, Order, Report


@dataclass(frozen=True, slots=True)
class GuardOptions:
    """What the guard is told on its command line.

    Attributes:
        control: Descriptor of the socket to the worker.
        preload: Modules to import before the first fork, so that every child has them at once.
            Trusted code only: it runs in the guard.
        limits: Resource limits of every child.
    """

    control: int
    preload: tuple[str, ...]
    limits: child.ChildLimits

    def to_argument(self) -> str:
        """Return the one command line argument that `from_argument` reads."""
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, argument: str) -> Self:
        """Return the options of this process."""
        options = json.loads(argument)
        return cls(
            control=int(options["control"]),
            preload=tuple(map(str, options["preload"])),
            limits=child.ChildLimits(**options["limits"]),
        )


class Guard:
    """The loop of the guard process."""

    def __init__(self, control: socket.socket, limits: child.ChildLimits) -> None:
        self._control = control
        self._limits = limits
        self._living: dict[int, int] = {}
        self._dead: dict[int, int] = {}
        self._wake, wake_write = os.pipe()
        for end in (self._wake, wake_write):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._wake_write = wake_write

    def run(self) -> NoReturn:
        """Serve until the worker is gone, then end with everything that was started."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        self._report(Report.READY, 0, os.getpid())
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._wake:
                    self._on_child_signal()
                elif not self._on_order():
                    self._end()

    def _on_order(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._control, ORDER.size, 2)
        if len(message) != ORDER.size:
            return False
        kind, number = ORDER.unpack(message)
        if kind == Order.FORK:
            self._fork(number, descriptors)
        else:
            pid = self._dead.pop(number, None)
            if pid is not None:
                os.waitpid(pid, 0)
        return True

    def _fork(self, number: int, descriptors: list[int]) -> None:
        calls, output = descriptors
        pid = os.fork()
        if pid == 0:
            self._become_child(calls, output)
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            # The child does the same; whoever comes first, the group exists when we report it.
            os.setpgid(pid, pid)
        self._living[number] = pid
        self._report(Report.STARTED, number, pid)

    def _become_child(self, calls: int, output: int) -> NoReturn:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._control.close()
        os.close(self._wake)
        os.close(self._wake_write)
        child.main(calls=calls, output=output, limits=self._limits)

    def _on_child_signal(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4_096)
        for number, pid in list(self._living.items()):
            # WNOWAIT leaves a zombie, so the worker cannot kill a stranger with this number.
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                del self._living[number]
                self._dead[number] = pid
                _kill_group(pid)
                self._kill_strays()
                self._report(Report.EXITED, number, _exit_code(found))
        self._kill_strays()

    def _kill_strays(self) -> None:
        """Kill what children left behind; their own children arrive here next and die too."""
        known = {*self._living.values(), *self._dead.values()}
        for pid in child.children_of_this_process() - known:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _report(self, kind: Report, number: int, value: int) -> None:
        try:
            self._control.sendall(REPORT.pack(kind, number, value))
        except OSError as error:
            if error.errno not in {errno.EPIPE, errno.ECONNRESET}:
                raise
            self._end()

    def _end(self) -> NoReturn:
        for pid in self._living.values():
            _kill_group(pid)
        while True:
            self._kill_strays()
            try:
                os.wait()
            except ChildProcessError:
                os._exit(0)


def _exit_code(found: os.waitid_result) -> int:
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _ignore(_number: int, _frame: object) -> None:
    """Be a handler, so that SIGCHLD writes to the wake-up descriptor."""


def main(argument: str) -> NoReturn:
    """Run the guard described by its command line argument until the worker is gone."""
    options = GuardOptions.from_argument(argument)
    control = socket.socket(fileno=options.control)
    control.set_inheritable(False)
    control.setblocking(True)
    for module in options.preload:
        importlib.import_module(module)
    child.become_subreaper()
    gc.freeze()
    Guard(control, options.limits).run()


if __name__ == "__main__":
    main(sys.argv[1])
