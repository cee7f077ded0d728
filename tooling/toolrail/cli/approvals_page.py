"""Lay questions out for a person: a list of four lines each, one page of everything, JSON.

Is: which fact stands where; facts of ours are never cut, only the arguments in the list are.
Is not: the words (`approvals_words.py`) or the reading (`toolrail.approvals`).
Above: the commands of `approvals.py`. Below: `approvals_words.py`, `plain.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import typer
from pydantic import JsonValue

from toolrail.cli.approvals_words import (
    STATE_COLOUR,
    effect_words,
    left_words,
    name_words,
    source_words,
    state_words,
)
from toolrail.cli.plain import (
    barred,
    cut,
    filled,
    joined,
    json_lines,
    plain,
    said,
    shown_width,
    wrapped,
)
from toolrail.redaction import clean
from toolrail.spans import age_text
from toolrail_schemas import ApprovalRecord, ApprovalScope, ApprovalState, format_timestamp

_LEFT_WIDTH = 10
_INDENT = 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Arguments to show whole, and what is to be said of them."""

    arguments: Mapping[str, JsonValue]
    note: str


def list_head(id_width: int) -> str:
    """Return the heads of the list's columns."""
    return typer.style(f"{'ID':<{id_width}}  {'LEFT':<{_LEFT_WIDTH}}  TOOL", bold=True)


def list_lines(
    record: ApprovalRecord, short_id: str, *, id_width: int, now_ms: int, width: int
) -> Iterator[str]:
    """Yield the four lines of one question: what, how dangerous and whose, who asks, with what."""
    left = left_words(record, now_ms=now_ms)
    head = f"{short_id:<{id_width}}  {left:<{_LEFT_WIDTH}}"
    yield from title_lines(record, head=head, tail="", indent=id_width + 2, width=width)
    yield from fact_lines(record, indent=id_width + 2, width=width)


def title_lines(
    record: ApprovalRecord, *, head: str, tail: str, indent: int, width: int
) -> Iterator[str]:
    """Yield name and title between our words; behind a bar below them where one line is too short.

    A terminal breaks a long line, and a padded title could then begin one that looks like ours.
    """
    name = name_words(record)
    title = "" if record.title == record.name else said(record.title)
    whole = joined(head, typer.style(name, bold=True), title, tail)
    if shown_width(whole) <= width:
        yield whole
        return
    if ours := joined(head, tail):
        yield ours
    yield from barred([joined(name, title)], indent=indent, width=width)


def fact_lines(record: ApprovalRecord, *, indent: int, width: int) -> Iterator[str]:
    """Yield what the call may do and whose tool it is, who asks, and the arguments, cut."""
    pad, room = " " * indent, width - indent
    facts = filled((*effect_words(record), source_words(record)), indent=2, width=room)
    asking = wrapped(plain(record.policy_reason), indent=2, width=room)
    yield from (pad + line for line in (*facts, *asking))
    arguments = "  ".join(map(plain, record.args_summary.splitlines()))
    yield pad + typer.style(cut(arguments or "(no arguments)", room), dim=True)


def page_lines(
    record: ApprovalRecord, *, now_ms: int, width: int, shown: Shown | None = None
) -> Iterator[str]:
    """Yield everything of one question; the words of strangers stand behind a bar.

    Args:
        record: The question.
        now_ms: By the clock of Redis.
        width: Columns.
        shown: The arguments, whole; None shows their summary.
    """
    yield from title_lines(record, head="", tail="", indent=0, width=width)
    state = typer.style(record.state.value, fg=STATE_COLOUR.get(record.state), bold=True)
    words = state_words(record, now_ms=now_ms)
    yield _head("state") + f"{state}{', ' if record.decided_by is None else ' '}{words}"
    yield from _lines("effects", filled(effect_words(record), indent=0, width=width - _INDENT))
    yield _head("source") + source_words(record)
    yield from _fact("asked by", plain(record.policy_reason), width)
    yield from _fact("asked at", _asked(record, now_ms), width)
    if record.state is ApprovalState.PENDING and ApprovalScope.RUN in record.scopes:
        yield from _fact("may hold", "once, or for the rest of the run (--remember)", width)
    yield from _identity(record, width)
    yield from _told(record, width)
    if record.description:
        yield from _block("description", "in the words of its author", width)
        yield from barred([plain(record.description)], indent=2, width=width)
    if shown is None:
        yield from _block("arguments", "a summary; --full shows them whole", width)
        yield from barred(_summary(record), indent=2, width=width)
    else:
        yield from _block("arguments", shown.note, width)
        yield from barred(json_lines(dict(shown.arguments)), indent=2, width=width)


def record_data(record: ApprovalRecord, *, now_ms: int) -> dict[str, JsonValue]:
    """Return a question for a program: the record without secrets, and `left_ms`."""
    data: dict[str, JsonValue] = record.model_dump(mode="json")
    for field in ("title", "description", "args_summary", "policy_reason", "comment"):
        value = data[field]
        data[field] = clean(value) if isinstance(value, str) else value
    return {**data, "left_ms": max(0, record.expires_at - now_ms)}


def _identity(record: ApprovalRecord, width: int) -> Iterator[str]:
    """Yield what the question is about to the letter: ids and digests."""
    run = f"{record.run_id}, tenant {plain(record.tenant)}, profile {plain(record.profile)}"
    yield from _fact("id", record.approval_id, width)
    yield from _fact("run", run, width)
    yield from _fact("call", f"{said(record.call_id)} of {record.caller.value}", width)
    digests = (
        ("arguments", record.args_sha256),
        ("edited", record.edited_args_sha256),
        ("definition", record.spec_hash),
        ("policy", record.policy_hash),
    )
    for name, digest in digests:
        if digest is not None:
            yield from _fact("sha256", f"{digest} of the {name}", width)


def _told(record: ApprovalRecord, width: int) -> Iterator[str]:
    """Yield what the person who denied said to the model."""
    if record.comment:
        yield from _block("reason", "what the model is told", width)
        yield from barred([plain(record.comment)], indent=2, width=width)


def _asked(record: ApprovalRecord, now_ms: int) -> str:
    ago = age_text(now_ms - record.requested_at)
    until = format_timestamp(record.expires_at)
    return f"{format_timestamp(record.requested_at)}, {ago} ago; stands until {until}"


def _summary(record: ApprovalRecord) -> Sequence[str]:
    return [plain(line) for line in record.args_summary.splitlines()] or ["(none)"]


def _fact(name: str, text: str, width: int) -> Iterator[str]:
    return _lines(name, wrapped(text, indent=0, width=width - _INDENT))


def _lines(name: str, lines: Sequence[str]) -> Iterator[str]:
    for index, line in enumerate(lines):
        yield (" " * _INDENT if index else _head(name)) + line


def _head(name: str) -> str:
    return typer.style(f"  {name:<{_INDENT - 2}}", dim=True)


def _block(name: str, note: str, width: int) -> Iterator[str]:
    yield from _fact(name, f"({note})", width)
