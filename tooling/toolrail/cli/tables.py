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

from toolrail.cli.plain import plain
from toolrail.redaction import clean, clean_json
from toolrail_schemas import escape_text

_PIPED_WIDTH = 2000
"""Columns when nobody looks: no cell is cut or folded."""


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows under their heads; on a terminal cells are folded to its width."""
    if not sys.stdout.isatty():
        _print_plain(columns, rows)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    _print(table)


def _print_plain(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print each row on one line, for other programs; many rows cost little."""
    cells = [list(columns), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        )
        typer.echo("  ".join(padded).rstrip())


def print_fields(fields: Mapping[str, str]) -> None:
    """Print names and values, one pair a line; a value of several lines keeps them."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        lines = map(escape_text, clean(value).splitlines() or [""])
        table.add_row(name, Text("\n".join(lines)))
    _print(table)


def print_json(value: object) -> None:
    """Print one JSON value on one line, in ASCII; dataclasses become objects."""
    data: JsonValue = json.loads(json.dumps(value, default=_fields, allow_nan=False))
    typer.echo(json.dumps(clean_json(data), ensure_ascii=True))


def print_note(text: str) -> None:
    """Say something beside the answer, on standard error."""
    typer.secho(plain(text), err=True, dim=True)


def _print(table: Table) -> None:
    is_seen = sys.stdout.isatty()
    console = Console(width=None if is_seen else _PIPED_WIDTH)
    with console.capture() as captured:
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _fields(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} is not printed")
