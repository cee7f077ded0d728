"""Read the file names of a diff: timestamps, C quotes, `/dev/null` and the `a/` `b/` prefixes.

Is: names as written, decoded. Is not: the path rules of the workspace.
Above: `unified.py`. Below: `problems.py`.
"""

import re

from toolrail_workers.builtin.patching.problems import malformed
from toolrail_workers.builtin.patching.wrapping import Numbered

_ESCAPE = re.compile(rb'\\(?:([0-7]{1,3})|([abfnrtv"\\]))')
_LETTERS = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b'"': b'"',
    b"\\": b"\\",
}
_NOTHING = "/dev/null"


def header_name(line: Numbered) -> str | None:
    """Return the name in a `---` or `+++` line, or None for `/dev/null`.

    Raises:
        PatchError: `patch.malformed`.
    """
    text = line.text[4:].rstrip("\r")
    if text.startswith('"'):
        # A quoted name is a name, whatever it spells: whoever looks for deletions without reading
        # the whole grammar (`toolrail.policy.dynamic`) must find them all.
        return _unquoted(text.strip(), line.number).rstrip()
    name = text.split("\t")[0].rstrip()
    return None if name == _NOTHING else name


def git_names(text: str, number: int) -> tuple[str | None, str | None]:
    """Return both names of a `diff --git` line, without their prefixes.

    Only believed where no other line names the files: unquoted names with spaces are ambiguous,
    unless both are the same, which they are in a section without a rename.
    """
    if text.startswith('"'):
        old, _, rest = text[1:].partition('" ')
        return strip_prefixes(_unquoted(f'"{old}"', number), _unquoted(rest.strip(), number))
    middle = len(text) // 2
    old, new = text[:middle], text[middle + 1 :]
    same = len(text) % 2 == 1 and old.removeprefix("a/") == new.removeprefix("b/")
    return strip_prefixes(old, new) if same else (None, None)


def strip_prefixes(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Return both names without `a/` and `b/`, if all that are given have theirs."""
    if (old is None or old.startswith("a/")) and (new is None or new.startswith("b/")):
        return (old and old[2:]), (new and new[2:])
    return old, new


def _unquoted(text: str, number: int) -> str:
    """Decode a name in C quotes; a name without them is returned as it is."""
    if not text.startswith('"'):
        return text
    if len(text) < 2 or not text.endswith('"'):
        raise malformed(number, "the quoted file name is not closed.")
    raw = text[1:-1].encode()
    try:
        return _ESCAPE.sub(_byte, raw).decode()
    except (UnicodeDecodeError, ValueError):
        raise malformed(number, "the quoted file name is not UTF-8.") from None


def _byte(found: re.Match[bytes]) -> bytes:
    octal, letter = found.groups()
    return bytes([int(octal, 8)]) if octal is not None else _LETTERS[letter]
