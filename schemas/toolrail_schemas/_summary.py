"""Show arguments to a person in one safe line per key.

Is: `args_summary` of semantics 6: short, redacted, escaped, deterministic. Is not: the arguments;
whoever needs them whole follows `args_ref`.
Above: `approval.py`. Below: `_base.py`.
"""

import re
import unicodedata

from pydantic import JsonValue

from toolrail_schemas._base import JsonObject

SUMMARY_MAX_CHARS = 1000
STRING_MAX_CHARS = 120
_SHOWN_MAX_CHARS = 360
_KEY_MAX_CHARS = 60
REDACTED = "«redacted»"

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.$-]+")
_SECRET_KEY = re.compile(r"pass|secret|token|api[_-]?key|authorization|cookie", re.IGNORECASE)
_SECRET_VALUE = re.compile(
    r"(?i:\b(?:bearer|basic)\s+[a-z0-9+/=_.-]{8,})"
    r"|\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}"
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}"
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|://[^/\s:@]+:[^/\s@]+@"
)
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def summarize_arguments(arguments: JsonObject) -> str:
    """Return at most 1000 characters that show each top-level key with its value.

    Keys keep the order of the call. Strings are cut to 120 characters with their full length,
    nested values become a shape, secrets become `«redacted»`, and characters that could hide or
    reorder text are escaped.
    """
    lines: list[str] = []
    room = SUMMARY_MAX_CHARS
    for index, (key, value) in enumerate(arguments.items()):
        line = f"{_show_key(key)}: {_show(key, value)}"
        more = f"… {len(arguments) - index} more keys"
        # Every line but the last leaves room for saying how many keys are not shown.
        reserve = 0 if index == len(arguments) - 1 else len(more) + 1
        if len(line) + reserve > room:
            lines.append(more[:room])
            break
        lines.append(line)
        room -= len(line) + 1
    return "\n".join(lines)


def escape_text(text: str) -> str:
    """Return `text` with control, format, bidi and unassigned characters written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) for char in text)


def _escape(char: str) -> str:
    if unicodedata.category(char) not in _ESCAPED_CATEGORIES:
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _quote(text: str, limit: int) -> str:
    """Return the start of `text` in quotes it cannot close, then its length if it was cut."""
    shown = escape_text(text[:limit]).replace('"', '\\"')
    # An escape is up to ten characters long, so a hostile string could push everything else out.
    if len(text) <= limit and len(shown) <= _SHOWN_MAX_CHARS:
        return f'"{shown}"'
    return f'"{shown[:_SHOWN_MAX_CHARS]}"… ({len(text)} chars)'


def _show_key(key: str) -> str:
    plain = len(key) <= _KEY_MAX_CHARS and _PLAIN_KEY.fullmatch(key)
    return key if plain else _quote(key, _KEY_MAX_CHARS)


def _show(key: str, value: JsonValue) -> str:
    if _SECRET_KEY.search(key) and value is not None:
        return REDACTED
    if isinstance(value, str):
        return REDACTED if _SECRET_VALUE.search(value) else _quote(value, STRING_MAX_CHARS)
    if isinstance(value, dict):
        return f"{{{len(value)} keys}}"
    if isinstance(value, list):
        return f"[{len(value)} items]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _show_number(value)


def _show_number(value: float) -> str:
    # Python refuses to print an integer of more than 4300 digits.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"(number of {value.bit_length()} bits)"
    return repr(value)
