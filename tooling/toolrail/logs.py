"""Set up logging, once per process and in one place.

Is: the handler, the two formats (text for a person, JSON lines for a collector), how fields given
by `extra=` are shown, and that no secret leaves through it, whichever library speaks. Is not: what
is logged; events are named where they happen.
Above: the CLI and the workers, at their start. Below: `redaction.py`.
"""

import json
import logging
import sys
import traceback
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Literal, TextIO, cast

from toolrail.redaction import clean, clean_said
from toolrail_schemas import REDACTED, is_secret_name

LogFormat = Literal["text", "json"]

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes every record has; all others came as `extra=`."""

CHAIN_MAX = 5
FRAMES_MAX = 40
"""Of an exception in a log: how many causes, and how many frames of them all."""

_QUIET = ("asyncio", "kombu", "amqp", "celery.utils.functional", "mcp", "httpx", "httpcore")
"""Libraries whose debug and info lines drown ours; they speak from warning on."""
_OURS = ("toolrail", "toolrail_workers")
"""Loggers whose words are our own."""
FIELD_DEPTH_MAX = 8
"""Of lists and objects in a field."""


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


class CleanFormatter(logging.Formatter):
    """What both formats share: the words of a record, without secrets.

    Ours may hold what this process knows; those of others also what a call brought along.
    """

    def message(self, record: logging.LogRecord) -> str:
        """Return the message."""
        return _cleaner(record)(record.getMessage())

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """Return what the caller gave as `extra=`."""
        cleaner = _cleaner(record)
        return {
            name: _clean_field(name, value, cleaner) for name, value in extra_fields(record).items()
        }

    def trace(self, record: logging.LogRecord) -> str | None:
        """Return the traceback and the stack, None when there is neither."""
        parts = [] if record.exc_info is None else [self.formatException(record.exc_info)]
        if record.stack_info:
            parts.append(self.formatStack(record.stack_info))
        return clean_said("\n".join(parts)) if parts else None


def _cleaner(record: logging.LogRecord) -> Callable[[str], str]:
    return clean if record.name.split(".", 1)[0] in _OURS else clean_said


def _clean_field(name: str, value: object, cleaner: Callable[[str], str], depth: int = 0) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if is_secret_name(name):
        return REDACTED
    if depth < FIELD_DEPTH_MAX:
        if isinstance(value, dict):
            return {
                cleaner(str(key)): _clean_field(str(key), inner, cleaner, depth + 1)
                for key, inner in cast("dict[object, object]", value).items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            items = cast("Iterable[object]", value)
            return [_clean_field("", inner, cleaner, depth + 1) for inner in items]
    return cleaner(str(value))


class TextFormatter(CleanFormatter):
    """`12:03:04 INFO toolrail.reaper call.requeued run_id=run_… attempt=2`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback below it when there is one."""
        # A person reads this on his own machine, so the clock is his.
        clock = datetime.fromtimestamp(record.created, tz=UTC).astimezone()
        head = f"{clock:%H:%M:%S} {record.levelname} {record.name} {self.message(record)}"
        parts = [f"{name}={_plain(value)}" for name, value in self.fields(record).items()]
        line, trace = " ".join([head, *parts]), self.trace(record)
        return line if trace is None else f"{line}\n{trace}"


class JsonFormatter(CleanFormatter):
    """One JSON object a line: ts, level, logger, event, the extra fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line; values JSON does not know are written as text."""
        instant = datetime.fromtimestamp(record.created, tz=UTC)
        fields: dict[str, object] = {
            "ts": instant.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": self.message(record),
        }
        for name, value in self.fields(record).items():
            # An extra field never hides one of the four above.
            fields.setdefault(name, value)
        trace = self.trace(record)
        if trace is not None:
            fields["traceback"] = trace
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
