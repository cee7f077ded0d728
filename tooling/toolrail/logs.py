"""Set up logging, once per process and in one place.

Is: the handler, the two formats (text for a person, JSON lines for a collector), and how fields
given by `extra=` are shown. Is not: what is logged; events are named where they happen.
Above: the CLI and the workers, at their start. Below: the standard library.
"""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Literal, TextIO

LogFormat = Literal["text", "json"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes every record has; all others came as `extra=`."""

CHAIN_MAX = 5
FRAMES_MAX = 40
"""Of an exception in a log: how many causes, and how many frames of them all."""

_QUIET = ("asyncio", "kombu", "amqp", "celery.utils.functional", "mcp", "httpx", "httpcore")
"""Libraries whose debug and info lines drown ours; they speak from warning on."""


def set_up_logging(level: str, log_format: LogFormat, stream: TextIO | None = None) -> None:
    """Send all logging of this process to one handler; replaces what was set up before.

    Args:
        level: Lowest level that is written: debug, info, warning or error.
        log_format: Text for a terminal, JSON lines for a collector.
        stream: Where to; None is standard error, because standard output belongs to results.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.captureWarnings(capture=True)


class TextFormatter(logging.Formatter):
    """`12:03:04 INFO toolrail.reaper call.requeued run_id=run_… attempt=2`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback below it when there is one."""
        # A person reads this on his own machine, so the clock is his.
        clock = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        head = f"{clock:%H:%M:%S} {record.levelname} {record.name} {record.getMessage()}"
        parts = [f"{name}={_plain(value)}" for name, value in extra_fields(record).items()]
        line = " ".join([head, *parts])
        return line if record.exc_info is None else f"{line}\n{self._traceback(record)}"

    def _traceback(self, record: logging.LogRecord) -> str:
        return "" if record.exc_info is None else self.formatException(record.exc_info)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, event, the extra fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line; values JSON does not know are written as text."""
        instant = datetime.fromtimestamp(record.created, tz=UTC)
        fields: dict[str, object] = {
            "ts": instant.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        for name, value in extra_fields(record).items():
            # An extra field never hides one of the four above.
            fields.setdefault(name, value)
        if record.exc_info is not None:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False, default=str)


def fields_of(error: BaseException | None) -> dict[str, object]:
    """Return an exception as fields for `extra=`: types and frames, no message and no value.

    For exceptions of tools and of what they call: their words may quote arguments and secrets,
    which a log never holds.
    """
    types: list[str] = []
    frames: list[str] = []
    while error is not None and len(types) < CHAIN_MAX:
        types.append(type(error).__name__)
        frames += [
            f"{frame.f_code.co_filename}:{line} {frame.f_code.co_name}"
            for frame, line in traceback.walk_tb(error.__traceback__)
        ]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return {"raised": " from ".join(types), "frames": frames[:FRAMES_MAX]}


def extra_fields(record: logging.LogRecord) -> dict[str, object]:
    """Return what the caller gave as `extra=`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _plain(value: object) -> str:
    text = str(value)
    # Line ends and blanks would let a value look like more lines or more fields.
    is_bare = text != "" and not any(c.isspace() or c in '"=' or not c.isprintable() for c in text)
    return text if is_bare else json.dumps(text, ensure_ascii=False)
