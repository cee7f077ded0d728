"""Show dead letters: rows of a list, and one as a page with its history.

Is: the words of `toolrail dlq list` and `show`. Is not: the reading (`toolrail.dead_letters`).
Above: `dlq.py`. Below: `tables.py`, `show.py`.
"""

from collections.abc import Mapping, Sequence

import typer

from toolrail.cli.plain import plain
from toolrail.cli.show import journal_line
from toolrail.cli.tables import print_fields, print_note
from toolrail.dead_letters import EFFECT_UNKNOWN, DeadLetter
from toolrail.spans import since
from toolrail_schemas import JournalEvent, UnknownEvent, format_timestamp

LETTER_COLUMNS = (
    "letter",
    "tool",
    "tenant",
    "code",
    "attempts",
    "worker",
    "age",
    "redrives",
    "refused",
)


def letter_cells(letter: DeadLetter, now_ms: int) -> tuple[str, ...]:
    """Return the cells of one row."""
    call = letter.call
    age = since(now_ms, letter.dead_ms)
    if call is None:
        return (letter.letter_id, "(forgotten)", "", "", "", "", age, "", "")
    return (
        letter.letter_id,
        call.tool or "?",
        call.tenant or "?",
        call.error_code,
        f"{call.attempts}/{call.attempts_max}" if call.attempts_max else str(call.attempts),
        call.worker,
        age,
        str(letter.redrives),
        letter.refused_code,
    )


def print_letter(
    letter: DeadLetter, history: Sequence[JournalEvent | UnknownEvent], now_ms: int
) -> None:
    """Print one letter, its history, and what can be done."""
    print_fields(_fields(letter, now_ms))
    if history:
        typer.echo()
    for event in history:
        typer.echo(plain(journal_line(event)))
    print_note(_advice(letter))


def _fields(letter: DeadLetter, now_ms: int) -> Mapping[str, str]:
    fields = {"letter": letter.letter_id, "status": _status(letter, now_ms)}
    call = letter.call
    if call is not None:
        fields |= {
            "tool": call.tool or "?",
            "call": f"{call.call_id} of turn {call.turn}",
            "run": call.run_id,
            "tenant": call.tenant or "?",
            "profile": call.profile or "?",
            "ended": f"{call.state} {call.error_code}".strip(),
            "attempts": f"{call.attempts} of {call.attempts_max or '?'}",
            "last worker": call.worker or "?",
            "arguments": call.args_summary,
        }
    fields["redrives"] = str(letter.redrives)
    if letter.refused_code:
        fields["last refused"] = letter.refused_code
    if letter.redrive_of:
        fields["redrive of"] = f"{letter.redrive_of}, by {letter.redrive_by}"
    return fields


def _status(letter: DeadLetter, now_ms: int) -> str:
    if letter.redriven_as:
        when = format_timestamp(letter.redriven_ms)
        return f"redriven by {letter.redriven_by} at {when} as {letter.redriven_as}"
    if letter.discarded_by:
        return f"discarded by {letter.discarded_by} at {format_timestamp(letter.discarded_ms)}"
    waits = f"waits for {since(now_ms, letter.dead_ms)}"
    if letter.redriving_by:
        return f"{waits}; a redrive by {letter.redriving_by} is not finished"
    return waits


def _advice(letter: DeadLetter) -> str:
    if not letter.dead_ms:
        return "It is handled; nothing waits for it."
    again = f"toolrail dlq redrive {letter.letter_id} --by NAME"
    if letter.effect_unknown:
        return (
            f"It ended as {EFFECT_UNKNOWN}: look whether its effect happened. If a second time "
            f"does no harm: `{again} --effect-may-repeat`."
        )
    return f"Its tool may run again safely: `{again}`."
