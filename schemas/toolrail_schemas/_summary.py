"""Show arguments to a person in one safe line per key.

Is: `args_summary` of semantics 6: short, redacted, escaped, deterministic. Is not: the arguments;
whoever needs them whole follows `args_ref`. Nor which keys a tool's schema marks as secret, or what
a process knows to be secret: `toolrail.redaction` passes those in.
Above: `approval.py`, `toolrail.redaction`. Below: `_base.py`, `_credentials.py`.
"""

import re
import unicodedata
from collections.abc import Callable, Container

from pydantic import JsonValue

from toolrail_schemas._base import JsonObject
from toolrail_schemas._credentials import REDACTED, is_secret_name, redact_credentials

SUMMARY_MAX_CHARS = 1000
STRING_MAX_CHARS = 120
_SHOWN_MAX_CHARS = 360
_KEY_MAX_CHARS = 60
_READ_MAX_CHARS = 4096
"""Of a long string: enough to know every credential that begins in the part that is shown."""
_UNSURE_CHARS = 1024
"""At the end of what was read: a credential may have been cut here, and so not be known."""

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.$-]+")
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


Clean = Callable[[str], str]


def summarize_arguments(
    arguments: JsonObject,
    *,
    secret_keys: Container[str] = (),
    clean: Clean = redact_credentials,
) -> str:
    """Return at most 1000 characters that show each top-level key with its value.

    Keys keep the order of the call, one line each. Strings are cut to 120 characters with their
    full length, nested values become a shape, and characters that could hide or reorder text are
    escaped. The value of a key that announces a secret becomes `«redacted»`; of any other value
    only what `clean` finds, so that nobody can hide a command behind a made-up password.

    Args:
        arguments: Of the call; any JSON.
        secret_keys: Top-level keys whose value is secret whatever they are called.
        clean: Redacts a string; the same text gives the same answer.
    """
    lines: list[str] = []
    room = SUMMARY_MAX_CHARS
    for index, (key, value) in enumerate(arguments.items()):
        shown = (
            REDACTED
            if value is not None and (key in secret_keys or is_secret_name(key))
            else _show(value, clean)
        )
        line = f"{_show_key(key, clean)}: {shown}"
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


def _quote(text: str, limit: int, clean: Clean) -> str:
    """Return the start of `text` in quotes it cannot close, then its length if it was cut."""
    known = clean(text[:_READ_MAX_CHARS])
    if len(text) > _READ_MAX_CHARS:
        known = known[:-_UNSURE_CHARS] or REDACTED
    shown = escape_text(known[:limit]).replace('"', '\\"')
    # An escape is up to ten characters long, so a hostile string could push everything else out.
    if len(text) <= _READ_MAX_CHARS and len(known) <= limit and len(shown) <= _SHOWN_MAX_CHARS:
        return f'"{shown}"'
    return f'"{shown[:_SHOWN_MAX_CHARS]}"… ({len(text)} chars)'


def _show_key(key: str, clean: Clean) -> str:
    plain = len(key) <= _KEY_MAX_CHARS and _PLAIN_KEY.fullmatch(key) and clean(key) == key
    return key if plain else _quote(key, _KEY_MAX_CHARS, clean)


def _show(value: JsonValue, clean: Clean) -> str:
    if isinstance(value, str):
        return _quote(value, STRING_MAX_CHARS, clean)
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
