"""The two log formats: fields survive, and no value can forge a line or a field.

Is: `toolrail.logs` on made-up records. Is not: what is logged.
Above: nothing. Below: `toolrail.logs`.
"""

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from toolrail.logs import JsonFormatter, TextFormatter, extra_fields, fields_of, set_up_logging


def record(message: str = "call.claimed", **fields: object) -> logging.LogRecord:
    """Return a record as `log.info(message, extra=fields)` makes it."""
    made = logging.makeLogRecord(
        {"name": "toolrail.test", "levelname": "INFO", "levelno": 20, "msg": message, **fields}
    )
    made.created = 0.0
    return made


@pytest.fixture
def root_kept() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_json_lines_carry_the_event_and_every_extra_field() -> None:
    """A collector needs no parsing beyond JSON."""
    line = JsonFormatter().format(record(call_key="ab", attempt=2))

    assert json.loads(line) == {
        "ts": "1970-01-01T00:00:00.000+00:00",
        "level": "info",
        "logger": "toolrail.test",
        "event": "call.claimed",
        "call_key": "ab",
        "attempt": 2,
    }


def test_an_extra_field_cannot_hide_the_level_of_a_json_line() -> None:
    """The four standing fields win."""
    line = JsonFormatter().format(record(level="debug", ts="never"))

    assert json.loads(line)["level"] == "info"
    assert json.loads(line)["ts"].startswith("1970")


def test_a_value_cannot_forge_a_second_line_or_field() -> None:
    """Blanks, quotes and line ends are quoted in text lines."""
    line = TextFormatter().format(record(tool='x y="z"\nERROR all gone', run_id="run_1"))

    assert line.count("\n") == 0
    assert line.endswith('tool="x y=\\"z\\"\\nERROR all gone" run_id=run_1')


def test_a_traceback_follows_its_line() -> None:
    """Nothing that an exception says is lost in either format."""
    made = record("task.failed")
    try:
        raise ValueError("boom")
    except ValueError:
        made.exc_info = sys.exc_info()

    assert "ValueError: boom" in TextFormatter().format(made)
    assert "ValueError: boom" in json.loads(JsonFormatter().format(made))["traceback"]


def test_an_exception_of_a_tool_is_logged_without_its_words() -> None:
    """They may quote arguments and secrets; type and place do not."""

    def log_in(password: str) -> None:
        try:
            raise KeyError(password)
        except KeyError as error:
            raise ValueError(f"no user has {password!r}") from error

    with pytest.raises(ValueError, match="no user") as caught:
        log_in("needle-in-words")
    line = JsonFormatter().format(record("tool.raised", **fields_of(caught.value)))
    fields = json.loads(line)
    assert fields["raised"] == "ValueError from KeyError"
    assert fields["frames"][-1].endswith(" log_in")
    assert "needle" not in line
    assert fields_of(None)["frames"] == []


def test_only_what_the_caller_gave_is_extra() -> None:
    """The attributes of every record are not fields."""
    assert extra_fields(record(call_key="ab")) == {"call_key": "ab"}


@pytest.mark.usefixtures("root_kept")
def test_setting_up_twice_writes_each_line_once() -> None:
    """The second set-up replaces the first."""
    stream = io.StringIO()
    set_up_logging("info", "text", stream)
    set_up_logging("info", "json", stream)
    logging.getLogger("toolrail.test").info("once")
    logging.getLogger("toolrail.test").debug("never")
    logging.getLogger("kombu").info("too chatty")

    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["once"]
