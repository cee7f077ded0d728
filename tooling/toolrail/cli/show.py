"""Show journal events and results to a person, one line each.

Is: text for a terminal. Is not: JSON output (each command prints the models themselves).
Above: `journal.py`, `call.py`, the demo. Below: `toolrail_schemas`.
"""

from collections.abc import Mapping

from toolrail import exit_codes
from toolrail.redaction import clean, clean_payload
from toolrail_schemas import (
    ErrorClass,
    EventType,
    JournalEvent,
    JsonBlock,
    TextBlock,
    ToolResult,
    UnknownEvent,
    canonical_json,
)

_HIDDEN = frozenset(
    {
        "call_id",
        "call_key",
        "name",
        "turn",
        "spec_hash",
        "args_ref",
        "args_sha256",
        "policy_hash",
        "result_ref",
        "sha256",
        "is_error",
        "resource_refs",
    }
)
"""Shown already, or of use to programs only."""

_BAD = frozenset(
    {
        EventType.TOOL_CALL_DENIED,
        EventType.TOOL_CALL_FAILED,
        EventType.TOOL_ATTEMPT_LOST,
        EventType.TOOL_RESULT_LATE,
        EventType.RUN_FAILED,
        EventType.BUDGET_EXHAUSTED,
        EventType.PLAN_POLICY_VIOLATION,
    }
)
_GOOD = frozenset({EventType.TOOL_CALL_COMPLETED, EventType.RUN_COMPLETED})
_RED, _GREEN, _DIM = "31", "32", "2"
_TYPE_WIDTH = 27
_VALUE_CHARS = 120


def journal_line(event: JournalEvent | UnknownEvent, *, colour: bool = False) -> str:
    """Return `seq  time  type  tool call_id  field=value …` of one event."""
    subject = " ".join(
        _short(event.payload[name]) for name in ("name", "call_id") if event.payload.get(name)
    )
    fields = " ".join(
        f"{name}={_short(value)}"
        for name, value in event.payload.items()
        if name not in _HIDDEN and value not in (None, "")
    )
    kind = str(event.type).ljust(_TYPE_WIDTH)
    head = f"{event.seq:>4}  {event.ts[11:23]}"
    line = "  ".join(part for part in (_paint(kind, event, colour=colour), subject, fields) if part)
    return f"{_wrap(head, _DIM) if colour else head}  {line}".rstrip()


def journal_json(event: JournalEvent | UnknownEvent) -> str:
    """Return one event as a line of JSON."""
    return event.model_copy(
        update={"payload": dict(clean_payload(event.payload))}
    ).model_dump_json()


def result_text(result: ToolResult) -> str:
    """Return what a person wants to read of a result: its content, else its structured part."""
    parts: list[str] = []
    for block in result.content:
        match block:
            case TextBlock():
                parts.append(block.text)
            case JsonBlock():
                parts.append(canonical_json(block.value).decode())
            case _:
                parts.append(f"[{block.kind}] {canonical_json(_refs(block.model_dump())).decode()}")
    if not parts and result.structured is not None:
        parts.append(canonical_json(result.structured).decode())
    return "\n".join(parts) or "(no output)"


def exit_code_of(result: ToolResult) -> int:
    """Return 0 ok, 1 recoverable, 2 policy, 3 system."""
    match result.error_class:
        case None:
            return exit_codes.OK
        case ErrorClass.RECOVERABLE:
            return exit_codes.FAILED
        case ErrorClass.POLICY_DENIED:
            return exit_codes.POLICY
        case ErrorClass.SYSTEM:
            return exit_codes.SYSTEM


def _refs(dumped: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in dumped.items() if value is not None and name != "kind"}


def _paint(text: str, event: JournalEvent | UnknownEvent, *, colour: bool) -> str:
    if not colour or event.type not in _BAD | _GOOD:
        return text
    return _wrap(text, _RED if event.type in _BAD else _GREEN)


def _wrap(text: str, code: str) -> str:
    return f"\x1b[{code}m{text}\x1b[0m"


def _short(value: object) -> str:
    # Clean already when it was written; but perhaps by another version, or by somebody else.
    text = clean(value if isinstance(value, str) else canonical_json(value).decode())
    printable = "".join(c if c.isprintable() else " " for c in text)
    cut = printable if len(printable) <= _VALUE_CHARS else printable[: _VALUE_CHARS - 1] + "…"
    return f'"{cut}"' if " " in cut else cut
