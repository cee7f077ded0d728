"""Show what an edit changes, without showing what is secret.

Is: old and new arguments as lines of a diff. Is not: the redaction itself (`Approvals.redacted`).
Above: `approvals_edit.py`. Below: `plain.py`.

A secret that was changed looks the same before and after; it is marked, or a person would approve
a change that nobody saw.
"""

from collections.abc import Iterator, Mapping
from difflib import unified_diff

import typer
from pydantic import JsonValue

from toolrail.cli.plain import barred, json_lines
from toolrail_schemas import canonical_json

CONTEXT_LINES = 2
CHANGED = "(changed)"
_HEAD_LINES = 2
_COLOUR = {"+": typer.colors.GREEN, "-": typer.colors.RED}

Arguments = Mapping[str, JsonValue]


def same(left: JsonValue | Arguments, right: JsonValue | Arguments) -> bool:
    """Return whether two JSON values say the same; 1 and 1.0 and true do not."""
    return canonical_json(left) == canonical_json(right)


def diff_lines(
    old: Arguments, new: Arguments, *, shown_old: Arguments, shown_new: Arguments, width: int
) -> Iterator[str]:
    """Yield the lines of a diff, behind a bar.

    Args:
        old: The arguments as they are.
        new: The arguments as they shall be.
        shown_old: `old`, redacted.
        shown_new: `new`, redacted.
        width: Columns.
    """
    marked = marked_where_hidden(dict(old), dict(new), dict(shown_old), dict(shown_new))
    before, after = json_lines(dict(shown_old)), json_lines(marked)
    lines = list(unified_diff(before, after, n=CONTEXT_LINES, lineterm=""))[_HEAD_LINES:]
    for line in lines:
        if line.startswith("@@"):
            continue
        yield from barred([line], indent=2, width=width, colour=_COLOUR.get(line[0]))


def marked_where_hidden(
    old: JsonValue, new: JsonValue, shown_old: JsonValue, shown_new: JsonValue
) -> JsonValue:
    """Return `shown_new`, with a mark at each value that differs though it looks the same."""
    if same(old, new):
        return shown_new
    match old, new, shown_old, shown_new:
        case dict(), dict(), dict(), dict() if len(new) == len(shown_new):
            return _marked_object(old, new, shown_old, shown_new)
        case list(), list(), list(), list() if len(old) == len(new):
            rows = zip(old, new, shown_old, shown_new, strict=True)
            return [marked_where_hidden(*row) for row in rows]
        case _ if same(shown_old, shown_new):
            return f"{shown_new} {CHANGED}"
        case _:
            return shown_new


def _marked_object(
    old: dict[str, JsonValue],
    new: dict[str, JsonValue],
    shown_old: dict[str, JsonValue],
    shown_new: dict[str, JsonValue],
) -> JsonValue:
    # A key may be redacted as well, so that values are found by their place.
    before = dict(zip(old, shown_old.values(), strict=False))
    return {
        shown_key: marked_where_hidden(old[key], value, before[key], shown)
        if key in before
        else shown
        for (key, value), (shown_key, shown) in zip(new.items(), shown_new.items(), strict=True)
    }
