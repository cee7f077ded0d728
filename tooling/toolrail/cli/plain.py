"""Show foreign words on a terminal: as plain text that can neither act nor pass for ours.

Is: one line of it, many lines behind a bar, JSON that says in escapes what cannot be seen. Is not:
which words are shown. Above: `approvals_words.py`, `approvals_page.py`, `approvals_edit.py`.
Below: rich's table of character widths, `toolrail.redaction`.

Titles, descriptions and arguments are written by models, servers and strangers. Control, format and
bidi characters are escaped, known secrets and credentials removed, and nothing is read as markup.
A terminal breaks long lines at its width, where a padded text could begin a line of its own that
looks like one of ours; so we break them, and each line of theirs stands behind a bar.
"""

import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator

import typer
from pydantic import JsonValue
from rich.cells import cell_len, chop_cells, set_cell_size

from toolrail.redaction import clean
from toolrail_schemas import escape_text

BAR = "│ "
PIPED_COLUMNS = 120
"""Where a line is cut when nobody's terminal says so."""
COLUMNS_MIN = 40
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def plain(text: str) -> str:
    """Return foreign words as one harmless line, without secrets."""
    return escape_text(clean(text))


def said(text: str) -> str:
    """Return foreign words in quotes that they cannot close."""
    return '"' + plain(text).replace('"', '\\"') + '"'


def columns() -> int:
    """Return the width of the terminal, or of a line that goes elsewhere."""
    if not sys.stdout.isatty():
        return PIPED_COLUMNS
    return max(COLUMNS_MIN, shutil.get_terminal_size().columns)


def cut(line: str, width: int) -> str:
    """Return one line in at most so many columns, with … where something is missing."""
    if cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + "…"


def joined(*parts: str) -> str:
    """Return the parts that are not empty, two spaces between them."""
    return "  ".join(part for part in parts if part)


def shown_width(line: str) -> int:
    """Return how many columns a line takes, its colours left out."""
    return cell_len(_STYLE.sub("", line))


def barred(
    lines: Iterable[str], *, indent: int, width: int, colour: str | None = None
) -> Iterator[str]:
    """Yield harmless lines behind a bar, broken at the width."""
    head = " " * indent + typer.style(BAR, dim=True)
    room = max(20, width - indent - len(BAR))
    for line in lines:
        for part in _broken(line, room):
            yield head + (part if colour is None else typer.style(part, fg=colour))


def wrapped(text: str, *, indent: int, width: int) -> list[str]:
    """Return our own words, broken between words; further lines are indented."""
    return textwrap.wrap(text, width, subsequent_indent=" " * indent, break_on_hyphens=False)


def filled(parts: Iterable[str], *, indent: int, width: int) -> list[str]:
    """Return short pieces, perhaps styled, with a dot between them and broken only there."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines else part
        if lines and shown_width(longer) > width:
            lines.append(" " * indent + part)
        else:
            lines[-1:] = [longer]
    return lines


def json_lines(value: JsonValue) -> list[str]:
    """Return JSON for a person, whole; what could act on a terminal or hide is a JSON escape."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return [_escaped(line) for line in text.split("\n")]


def ascii_json(value: object) -> str:
    """Return JSON for a program, in one line of ASCII."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def _broken(line: str, room: int) -> list[str]:
    # Between words where there are any; a wide word, or wide characters, at the column.
    parts = textwrap.wrap(line, room, drop_whitespace=False, replace_whitespace=False) or [""]
    return [piece for part in parts for piece in (chop_cells(part, room) or [""])]


def _escaped(line: str) -> str:
    # Not `escape_text`, whose escapes beyond U+FFFF are not those of JSON.
    return "".join(c if c.isprintable() else _json_escape(c) for c in line)


def _json_escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code < 0x80 else json.dumps(char)[1:-1]
