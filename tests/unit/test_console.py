"""Log lines of many processes on one terminal.

Is: the sinks of `toolrail.supervisor.console`. Is not: reading the processes' output.
Above: nothing. Below: `toolrail.supervisor.console`.
"""

import io

import pytest

from toolrail.supervisor.console import ConsoleSink, JsonSink, KeepingSink


class GoneStream(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError


def test_every_line_starts_with_its_childs_name() -> None:
    """Aligned, so that a person reads down one column."""
    stream = io.StringIO()
    sink = ConsoleSink(stream, colour=False, width=8)
    sink.line("mcp.1", "hello")
    sink.event("mcp.1", "ready")

    assert stream.getvalue() == "mcp.1    | hello\ntoolrail | mcp.1: ready\n"


def test_a_line_that_went_through_no_log_is_shown_without_secrets() -> None:
    """A child that dies of an exception prints it raw."""
    stream = io.StringIO()
    ConsoleSink(stream, colour=False).line("w", "OSError: redis://:hunter2@h/0")

    assert stream.getvalue().endswith("| OSError: redis://:«redacted»@h/0\n")


def test_each_child_has_a_colour_and_keeps_it() -> None:
    """Problems are red."""
    stream = io.StringIO()
    sink = ConsoleSink(stream, colour=True, width=1)
    for name in ("a", "b", "a"):
        sink.line(name, "x")
    sink.event("a", "ended", is_problem=True)
    first, second, third, problem = stream.getvalue().splitlines()

    assert first == third != second.replace("b", "a")
    assert "\x1b[1;31ma: ended" in problem


def test_a_closed_terminal_does_not_end_the_supervisor() -> None:
    """The children are worth more than their echo."""
    sink = ConsoleSink(GoneStream(), colour=False)
    sink.line("a", "lost")
    sink.line("a", "lost too")


def test_json_lines_stay_json_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A collector gets what the children wrote, and the supervisor's words by logging."""
    stream = io.StringIO()
    sink = JsonSink(stream)
    sink.line("mcp.1", '{"event": "x"}')
    sink.event("mcp.1", "ended", is_problem=True)

    assert stream.getvalue() == '{"event": "x"}\n'
    assert [(record.levelname, vars(record)["child"]) for record in caplog.records] == [
        ("WARNING", "mcp.1")
    ]


def test_a_keeping_sink_forgets_the_oldest_and_passes_everything_on() -> None:
    """A cluster that runs for days does not fill the memory."""
    stream = io.StringIO()
    sink = KeepingSink(limit=2, onward=ConsoleSink(stream, colour=False, width=1))
    for number in range(3):
        sink.line("a", str(number))
    sink.event("a", "ready")

    assert sink.lines("a") == sink.lines() == ["1", "2"]
    assert sink.lines("b") == []
    assert sink.events() == ["ready"]
    assert len(stream.getvalue().splitlines()) == 4
