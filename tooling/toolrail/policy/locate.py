"""Find the line of a TOML file where a key stands.

Is: a scan of the source text, because `tomllib` keeps no positions. It knows headers, arrays of
tables, dotted and quoted keys, and looks for list elements by their text; inside multi-line strings
it may be fooled, and then a message has a line that is near. Is not: a parser; the file was parsed
before.
Above: `load.py`. Below: the standard library.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

KeyPath = tuple[str | int, ...]

_PART: Final = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_DOTTED: Final = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER: Final = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_KEY: Final = re.compile(rf"\s*({_DOTTED})\s*=")
_PARTS: Final = re.compile(_PART)


@dataclass(frozen=True, slots=True)
class _Entry:
    path: KeyPath
    line: int


def find_line(text: str, path: Sequence[str | int], *, element: str | None = None) -> int | None:
    """Return the 1-based line of a key, or of the nearest key around it.

    Args:
        text: The file.
        path: The key; integers count the tables of an array, or the elements of a list.
        element: The text of the list element that is meant, when the path ends in one.
    """
    entries = list(_entries(text))
    nearest = _nearest(entries, tuple(path))
    if nearest is None:
        return None
    if nearest.path == tuple(path) or element is None:
        return nearest.line
    following = [entry.line for entry in entries if entry.line > nearest.line]
    return _line_of_element(text, element, first=nearest.line, before=min(following, default=None))


def _nearest(entries: list[_Entry], path: KeyPath) -> _Entry | None:
    """Return the first entry of the longest part of the path that has one."""
    for length in range(len(path), 0, -1):
        for entry in entries:
            if entry.path == path[:length]:
                return entry
    return None


def _line_of_element(text: str, element: str, *, first: int, before: int | None) -> int:
    spellings = (json.dumps(element, ensure_ascii=False), f"'{element}'")
    lines = text.splitlines()[first - 1 : None if before is None else before - 1]
    for offset, line in enumerate(lines):
        if any(spelling in line for spelling in spellings):
            return first + offset
    return first


def _entries(text: str) -> Iterator[_Entry]:
    table: KeyPath = ()
    counts: dict[KeyPath, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        header = _HEADER.match(line)
        if header is not None:
            table = _resolve(_split(header[2]), counts)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield _Entry(table, number)
            continue
        key = _KEY.match(line)
        if key is not None:
            yield _Entry((*table, *_split(key[1])), number)


def _resolve(parts: KeyPath, counts: dict[KeyPath, int]) -> KeyPath:
    """Insert the index of the latest table into a header that goes through an array of tables."""
    path: KeyPath = ()
    for index, part in enumerate(parts):
        path = (*path, part)
        if index < len(parts) - 1 and path in counts:
            path = (*path, counts[path])
    return path


def _split(dotted: str) -> KeyPath:
    return tuple(_plain(part) for part in _PARTS.findall(dotted))


def _plain(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1]
    if not part.startswith('"'):
        return part
    try:
        return str(json.loads(part))
    except ValueError:
        return part[1:-1]
