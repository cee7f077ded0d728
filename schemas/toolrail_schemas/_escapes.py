"""Look for something in a text as a terminal shows it: through its escape sequences.

Is: ANSI escapes, as they are and as JSON or a `repr` spells them, seen as nothing. Is not: making
text safe for a terminal (`_summary.escape_text`).
Above: `_credentials.py`, `toolrail.redactor`. Below: the standard library.

Only what starts and ends an escape is nothing; the title or address in one is text. A program that
colours its output, `grep --color` for one, puts escapes before and into what it shows.
"""

import re
from collections.abc import Callable

_HINTS = ("\x1b", "\x9b", "\x9d", "\\x1b", "\\u001b", "\\033", "\\e")
_ESCAPE = re.compile(
    r"(?:(?:\x1b|\\{1,4}+(?:x1b|u001b|033|e))\[|\x9b)[0-?]{0,64}+[ -/]{0,8}+[@-~]"  # colour, cursor
    r"|(?:\x1b|\\{1,4}+(?:x1b|u001b|033|e))[\]\\]|[\x07\x9c\x9d]"  # around a title or address
    r"|\x1b[ -/]{0,8}+[0-~]|\x1b",
    re.IGNORECASE | re.ASCII,
)


def has_escapes(text: str) -> bool:
    """Return whether there may be escapes in the text; quick."""
    return any(hint in text for hint in _HINTS)


def without_escapes(text: str) -> str:
    """Return the text as it is shown."""
    return _ESCAPE.sub("", text)


def replace_shown(
    pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str], text: str
) -> str:
    """Return the text with each match replaced that stands in what is shown.

    Escapes inside a match go with it; all others stay, so that nobody can make text disappear by
    writing something to be replaced beside it.
    """
    shown: list[str] = []
    starts: list[int] = []
    at = 0
    for escape in [*_ESCAPE.finditer(text), None]:
        end = len(text) if escape is None else escape.start()
        shown.append(text[at:end])
        starts.extend(range(at, end))
        at = end if escape is None else escape.end()
    parts: list[str] = []
    done = 0
    for match in pattern.finditer("".join(shown)):
        if match.end() > match.start():
            parts += (text[done : starts[match.start()]], replace(match))
            done = starts[match.end() - 1] + 1
    return "".join((*parts, text[done:]))
