"""What a person sees of events and results in a terminal.

Is: `toolrail.cli.show`. Is not: the commands that print it.
Above: nothing. Below: `toolrail.cli.show`.
"""

import pytest

from toolrail.cli.show import exit_code_of, journal_json, journal_line, result_text
from toolrail_schemas import (
    Actor,
    ErrorClass,
    EventType,
    FileRefBlock,
    JournalEvent,
    JsonBlock,
    TextBlock,
    ToolResult,
    parse_event,
)

RUN = "run_01J00000000000000000000000"


def event(payload: dict[str, object]) -> JournalEvent:
    """Return a failed call as the journal has it."""
    parsed = parse_event(
        {
            "seq": 7,
            "event_id": "e7",
            "run_id": RUN,
            "ts": "2026-11-30T18:45:01.123Z",
            "type": EventType.TOOL_CALL_FAILED,
            "payload": {
                "call_id": "c1",
                "call_key": "0123456789abcdef",
                "name": "workspace.read_file",
                "turn": 1,
                "error_class": "recoverable",
                "error_code": "workspace.file_not_found",
                "message": "There is no such file.",
                "duration_ms": 3,
                **payload,
            },
            "actor": Actor(kind="worker", id="w").model_dump(),
        }
    )
    assert isinstance(parsed, JournalEvent)
    return parsed


def test_an_event_that_another_version_wrote_is_shown_without_secrets() -> None:
    """As a line and as JSON; the event itself is not changed."""
    told = event({"message": "it was https://u:needle@h"})

    assert "it was https://u:«redacted»@h" in journal_line(told)
    assert "needle" not in journal_json(told)
    assert JournalEvent.model_validate_json(journal_json(told)).seq == told.seq


def failure(error_class: ErrorClass) -> ToolResult:
    """Return a result of one error class."""
    return ToolResult(
        call_id="c1",
        name="a.b",
        is_error=True,
        error_code="a.b",
        error_class=error_class,
        content=(TextBlock(text="No."),),
    )


def test_an_event_is_one_line_that_starts_with_sequence_time_and_type() -> None:
    """Then the tool and the call, then what the event says of its own."""
    assert journal_line(event({})) == (
        "   7  18:45:01.123  tool_call_failed             workspace.read_file c1  "
        "error_class=recoverable error_code=workspace.file_not_found "
        'message="There is no such file." duration_ms=3'
    )


def test_a_tools_words_cannot_draw_on_the_terminal() -> None:
    """Line ends and escape codes from outside are blanked, long texts cut."""
    line = journal_line(event({"message": "a\x1b[2J\nb" + "x" * 300}))

    assert "\x1b" not in line
    assert "\n" not in line
    assert line.count("x") < 130


def test_colour_marks_what_went_wrong() -> None:
    """Red for a failed call, and only when colours are asked for."""
    assert "\x1b[31mtool_call_failed" in journal_line(event({}), colour=True)


def test_an_event_of_a_newer_version_is_shown_too() -> None:
    """A reader that does not know a kind still shows that it was there."""
    unknown = parse_event(
        {
            "seq": 8,
            "event_id": "e8",
            "run_id": RUN,
            "ts": "2026-11-30T18:45:01.123Z",
            "type": "tool_call_dreamed",
            "payload": {"depth": 2},
        }
    )

    assert journal_line(unknown) == "   8  18:45:01.123  tool_call_dreamed            depth=2"


def test_a_result_reads_as_its_content() -> None:
    """Text as it is, JSON in one line, a file by its reference."""
    content = (
        TextBlock(text="two\nlines"),
        JsonBlock(value={"b": 1, "a": [True]}),
        FileRefBlock(ref="workspace:output/a.txt", path="output/a.txt", bytes=3, sha256="0" * 64),
    )
    refs = ("workspace:output/a.txt",)
    text = result_text(ToolResult(call_id="c", name="a.b", content=content, resource_refs=refs))

    assert text.startswith('two\nlines\n{"a":[true],"b":1}\n[file_ref] {"bytes":3,')
    assert result_text(ToolResult(call_id="c", name="a.b", structured={"n": 1})) == '{"n":1}'
    assert result_text(ToolResult(call_id="c", name="a.b")) == "(no output)"


@pytest.mark.parametrize(
    ("error_class", "code"),
    [
        (ErrorClass.RECOVERABLE, 1),
        (ErrorClass.POLICY_DENIED, 2),
        (ErrorClass.SYSTEM, 3),
    ],
)
def test_the_exit_code_is_the_error_class(error_class: ErrorClass, code: int) -> None:
    """0 is a result without error."""
    assert exit_code_of(failure(error_class)) == code
    assert exit_code_of(ToolResult(call_id="c", name="a.b")) == 0


def test_an_id_cannot_forge_a_line() -> None:
    """What a model wrote is shown without control characters."""
    event = parse_event(
        {
            "seq": 1,
            "event_id": "e",
            "run_id": "run_" + "0" * 26,
            "ts": "2026-11-30T00:00:00.000Z",
            "type": "tool_from_the_future",
            "payload": {"name": "a\x1b[31mb", "call_id": "c\n   9  00:00  run_completed"},
        }
    )
    line = journal_line(event)

    assert line.isprintable()
