"""The two log formats: fields survive, and no value can forge a line or a field.

Is: `toolrail.logs` on made-up records. Is not: what is logged.
Above: nothing. Below: `toolrail.logs`.
"""

import io
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functions import make_spec
from toolrail.logs import JsonFormatter, TextFormatter, extra_fields, fields_of, set_up_logging
from toolrail.redaction import Holding, know


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


def raised(message: str) -> object:
    """Return the `exc_info` of an exception with these words."""
    try:
        raise OSError(message)
    except OSError:
        return sys.exc_info()


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
@pytest.mark.parametrize("name", ["toolrail.test", "httpx"])
def test_no_secret_leaves_in_message_field_or_traceback(
    formatter: logging.Formatter, name: str
) -> None:
    """Whichever library speaks, and however deep in a field it stands."""
    know(["correct horse battery"])
    made = logging.makeLogRecord(
        {
            "name": name,
            "msg": "GET %s with %s",
            "args": ("https://u:needle@h", "correct horse battery"),
            "headers": {"Authorization": "Bearer needle", "a": [("x", "correct horse battery")]},
            "api_key": "needle",
            "of_any_type": Path("correct horse battery"),
            "exc_info": raised("password=needle"),
            "stack_info": "File correct horse battery",
        }
    )
    line = formatter.format(made)

    assert "needle" not in line
    assert "horse" not in line
    assert "GET https://u:«redacted»@h with «redacted»" in line
    assert "OSError: password=«redacted»" in line


def test_numbers_and_ids_stay_readable() -> None:
    """What merely counts tokens, or is a digest, is no secret."""
    fields: dict[str, object] = {
        "output_tokens": 12,
        "call_key": "0123456789abcdef",
        "is_secret": True,
        "none": None,
    }
    line = JsonFormatter().format(record("call.claimed", **fields))

    assert {name: json.loads(line)[name] for name in fields} == fields


def test_a_model_cannot_blind_our_words_with_an_argument() -> None:
    """It hides what others say of its call, and nothing that we say ourselves."""
    with Holding(make_spec("demo.any"), {"password": "call.claimed"}):
        ours = TextFormatter().format(record("call.claimed", reason="call.claimed"))
        said = logging.makeLogRecord({"name": "some.library", "msg": "got call.claimed"})
        theirs = TextFormatter().format(said)

    assert ours.endswith("call.claimed reason=call.claimed")
    assert theirs.endswith("got «redacted»")


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
