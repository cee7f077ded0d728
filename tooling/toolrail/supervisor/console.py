"""Show what the children print, each line with its child's name.

Is: the sinks of log lines: for a terminal, for a collector of JSON lines, and one that keeps them
for tests and diagnosis. Is not: logging of our own processes (`toolrail.logs`).
Above: `cluster.py`, the CLI, the test kit. Below: `toolrail.redaction`.
"""

import logging
from collections import deque
from typing import Protocol, TextIO

from toolrail.redaction import clean_said

log = logging.getLogger(__name__)

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_BOLD_RED = "1;31"
_DIM = "2"


class LineSink(Protocol):
    """Takes every line of every child, and the supervisor's own."""

    def line(self, name: str, text: str) -> None:
        """Take one line that the child `name` printed, without its line end."""
        ...

    def event(self, name: str, text: str, *, is_problem: bool = False) -> None:
        """Take one sentence of the supervisor about the child `name`."""
        ...


class ConsoleSink:
    """Writes lines to a terminal or file, prefixed and, on a terminal, coloured by child."""

    def __init__(self, stream: TextIO, *, colour: bool, width: int = 12) -> None:
        self._stream: TextIO | None = stream
        self._colour = colour
        self._width = width
        self._codes: dict[str, str] = {}

    def line(self, name: str, text: str) -> None:
        """Write one line of a child, without secrets: not all it prints went through its log."""
        code = self._codes.setdefault(name, _COLOURS[len(self._codes) % len(_COLOURS)])
        self._write(f"{self._paint(name.ljust(self._width), code)} | {clean_said(text)}")

    def event(self, name: str, text: str, *, is_problem: bool = False) -> None:
        """Write one sentence of the supervisor; problems are red."""
        mark = self._paint("toolrail".ljust(self._width), _DIM)
        sentence = self._paint(f"{name}: {text}", _BOLD_RED) if is_problem else f"{name}: {text}"
        self._write(f"{mark} | {sentence}")

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colour else text

    def _write(self, text: str) -> None:
        if self._stream is None:
            return
        try:
            self._stream.write(text + "\n")
            self._stream.flush()
        except (BrokenPipeError, ValueError):
            # The reader of our output is gone (`| head`, a closed terminal): the children are
            # worth more than their echo, so the supervisor goes on without it.
            self._stream = None


class JsonSink:
    """Writes the children's lines as they are, which are JSON already, and logs its own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def line(self, name: str, text: str) -> None:
        """Write one line of a child; it names its process itself."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def event(self, name: str, text: str, *, is_problem: bool = False) -> None:
        """Log one sentence of the supervisor."""
        level = logging.WARNING if is_problem else logging.INFO
        log.log(level, "child.event", extra={"child": name, "said": text})


class KeepingSink:
    """Keeps the last lines of every child; optionally passes them on."""

    def __init__(self, *, limit: int = 10_000, onward: LineSink | None = None) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=limit)
        self._events: deque[tuple[str, str]] = deque(maxlen=limit)
        self._onward = onward

    def line(self, name: str, text: str) -> None:
        """Keep one line of a child."""
        self._lines.append((name, text))
        if self._onward is not None:
            self._onward.line(name, text)

    def event(self, name: str, text: str, *, is_problem: bool = False) -> None:
        """Keep one sentence of the supervisor."""
        self._events.append((name, text))
        if self._onward is not None:
            self._onward.event(name, text, is_problem=is_problem)

    def lines(self, name: str | None = None) -> list[str]:
        """Return the kept lines of one child, or of all, oldest first."""
        return [text for owner, text in self._lines if name is None or owner == name]

    def events(self, name: str | None = None) -> list[str]:
        """Return the kept sentences of the supervisor about one child, or all."""
        return [text for owner, text in self._events if name is None or owner == name]
