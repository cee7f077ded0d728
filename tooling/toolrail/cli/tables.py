"""Print what an operator asked for: a table for a person, JSON lines for a machine.

Is: cells that cannot harm a terminal, one form of JSON. Is not: what stands in them.
Above: `queues.py`, `runs.py`, `run.py`, `dlq.py`, `workers.py`, `drain.py`. Below: rich,
`plain.py`.

Names of tenants and tools come from outside: whatever stands in a cell is escaped, so that it
cannot move the cursor, hide text or turn it around, and cleaned of secrets.
"""

import dataclasses
import json
import sys
from collections.abc import Iterable, Mapping, Sequence

import typer
from pydantic import JsonValue
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from toolrail.cli.plain import columns as terminal_columns
from toolrail.cli.plain import plain
from toolrail.redaction import clean, clean_json
from toolrail_schemas import escape_text

_PIPED_WIDTH = 2000
"""Columns when nobody looks: no cell is cut or folded."""
_FOLD_MIN = 10
"""No cell is folded to fewer columns; ages, counts and states never are."""
_GAP = 2


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their heads, the first of which names an id.

    On a terminal long cells are folded to its width and columns at the right left out, which is
    said; but an id stays on one line, since it is to be copied.
    """
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    if not sys.stdout.isatty():
        _print_plain([columns, *cells], widths)
        return
    id_place = next(n for n, head in enumerate(columns) if head)
    least = [w if n == id_place else min(w, _FOLD_MIN) for n, w in enumerate(widths)]
    room, shown = terminal_columns(), len(columns)
    while shown > id_place + 1 and _line_width(least[:shown]) > room:
        shown -= 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    for n, column in enumerate(columns[:shown]):
        table.add_column(column, overflow="fold", min_width=least[n], no_wrap=n == id_place)
    for row in cells:
        table.add_row(*map(Text, row[:shown]))
    _print(table, max(room, _line_width(least[:shown])))
    if shown < len(columns):
        print_note(f"No room for {', '.join(columns[shown:])}: widen the terminal, or see --json.")


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _print_plain(lines: Iterable[Sequence[str]], widths: Sequence[int]) -> None:
    """Print each row on one line, for other programs; many rows cost little."""
    for row in lines:
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        typer.echo((" " * _GAP).join(padded).rstrip())


def print_fields(fields: Mapping[str, str]) -> None:
    """Print names and values, one pair a line; a value of several lines keeps them."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        lines = map(escape_text, clean(value).splitlines() or [""])
        table.add_row(name, Text("\n".join(lines)))
    _print(table, terminal_columns() if sys.stdout.isatty() else _PIPED_WIDTH)


def print_json(value: object) -> None:
    """Print one JSON value on one line, in ASCII; dataclasses become objects."""
    data: JsonValue = json.loads(json.dumps(value, default=_fields, allow_nan=False))
    typer.echo(json.dumps(clean_json(data), ensure_ascii=True))


def print_note(text: str) -> None:
    """Say something beside the answer, on standard error."""
    typer.secho(plain(text), err=True, dim=True)


def _print(table: Table, width: int) -> None:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _fields(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not printed")
