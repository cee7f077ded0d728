"""Run the installed `toolrail` on a terminal of its own, as a person sees it.

Is: a pseudo-terminal with a width, typed lines, and what the screen showed. Is not: a terminal
emulator; what a program prints is kept as it came. Above: tests of prompts, the recording.
Below: `pty`, `tests/waiting.py`.
"""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.waiting import wait_until

BOUND_S = 30.0
"""For one command; a busy machine starts a Python in seconds."""
TOOLRAIL = Path(sys.executable).with_name("toolrail")
WIDTHS = {"COLUMNS", "LINES"}
"""Variables that would win over the terminal's own size; pytest-xdist sets them."""
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """One command on a terminal. Ended, if it still runs, with the `with` block."""

    def __init__(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path, columns: int = 100
    ) -> None:
        """Start the command.

        Args:
            words: After `toolrail`.
            env: The whole environment.
            cwd: Where.
            columns: Width of the terminal.
        """
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._seen = bytearray()
        self._read_to = 0
        self.process = subprocess.Popen(
            [TOOLRAIL, *words],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={name: value for name, value in env.items() if name not in WIDTHS},
            cwd=cwd,
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, name="terminal", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._master)

    @property
    def screen(self) -> str:
        """Everything that was shown so far, typed lines included, without colours."""
        text = bytes(self._seen).decode("utf-8", "backslashreplace")
        return _STYLE.sub("", text.replace("\r\n", "\n"))

    def expect(self, text: str) -> None:
        """Return once the text was shown after what was expected before."""

        def is_there() -> bool:
            return text in self.screen[self._read_to :]

        wait_until(
            lambda: is_there() or not self._reader.is_alive(),
            f"{text!r} on a screen that shows:\n{self.screen}",
            timeout_s=BOUND_S,
        )
        assert is_there(), f"no {text!r} on:\n{self.screen}"
        self._read_to = self.screen.index(text, self._read_to) + len(text)

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """Return the exit code."""
        code = self.process.wait(BOUND_S)
        self._reader.join(BOUND_S)
        return code

    def _read(self) -> None:
        while True:
            try:
                block = os.read(self._master, 65_536)
            except OSError:  # the other side is closed
                return
            if not block:
                return
            self._seen += block
