"""Keep secrets out of everything that is written down or shown, in three layers.

Is: the one redactor: keys that a tool's schema or a name marks, exact values this process knows to
be secret, patterns of credentials (`toolrail_schemas`). Is not: where it is applied (approval
records, journal, logs, command line). Results go to the model as they are.
Above: those places. Below: `toolrail_schemas`, `schema_marks.py`.

What no layer can know, a secret without a pattern in free text, stays visible.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import quote, unquote, urlsplit

from pydantic import JsonValue

from toolrail.schema_marks import DEPTH_MAX, Marks
from toolrail_schemas import (
    REDACTED,
    JsonObject,
    ToolSpec,
    is_secret_name,
    redact_credentials,
    summarize_arguments,
)

VALUE_MIN_CHARS = 6
"""A shorter value stands in too many words; it would hide more than it protects."""


class Redactor:
    """Replaces known values and credentials in texts; immutable, and never raises."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Know these values.

        Args:
            values: Secret texts; those under 6 characters are ignored.
        """
        self.values = frozenset(value for value in values if _can_be_replaced(value))
        spellings = {spelling for value in self.values for spelling in _spellings(value)}
        # The longest first, or one value that begins another would leave its end behind.
        ordered = sorted(spellings, key=lambda text: (-len(text), text))
        self._spellings = tuple(ordered)
        self._pattern = re.compile("|".join(map(re.escape, (REDACTED, *ordered))))

    def clean(self, text: str) -> str:
        """Return the text without the values and credentials in it."""
        for spelling in self._spellings:
            if spelling in text:
                text = self._pattern.sub(REDACTED, text)
                break
        return redact_credentials(text)

    def clean_json(self, value: JsonValue) -> JsonValue:
        """Return any JSON with its strings cleaned, and without the values of secret keys."""
        return self._clean(value, Marks.none(), 0)

    def arguments(self, spec: ToolSpec, arguments: JsonObject) -> JsonObject:
        """Return a call's arguments as anybody may see them."""
        marks = Marks.of(spec.input_schema)
        return {
            self.clean(key): self._member(key, value, marks, 0) for key, value in arguments.items()
        }

    def summarize(self, spec: ToolSpec, arguments: JsonObject) -> str:
        """Return the summary of a call's arguments that an approver sees, ≤ 1000 characters."""
        marks = Marks.of(spec.input_schema)
        secret = {key for key in arguments if marks.member(key).is_secret}
        return summarize_arguments(arguments, secret_keys=secret, clean=self.clean)

    def _member(self, key: str, value: JsonValue, marks: Marks, depth: int) -> JsonValue:
        inner = marks.member(key)
        if value is not None and (inner.is_secret or is_secret_name(key)):
            return REDACTED
        return self._clean(value, inner, depth + 1)

    def _clean(self, value: JsonValue, marks: Marks, depth: int) -> JsonValue:
        if isinstance(value, str):
            return self.clean(value)
        if not isinstance(value, list | dict):
            return value
        if depth >= DEPTH_MAX:
            return REDACTED
        if isinstance(value, list):
            items = marks.items()
            return [
                REDACTED if items.is_secret else self._clean(v, items, depth + 1) for v in value
            ]
        return {
            self.clean(key): self._member(key, inner, marks, depth) for key, inner in value.items()
        }


class _Process:
    """What this process knows to be secret; grows at its start and is then only read."""

    def __init__(self) -> None:
        self.redactor = Redactor()


_PROCESS = _Process()


def know(values: Iterable[str | None]) -> None:
    """From now on these values are redacted in this process; None and short ones are ignored."""
    more = {value for value in values if value}
    if not more <= _PROCESS.redactor.values:
        _PROCESS.redactor = Redactor({*_PROCESS.redactor.values, *more})


def secrets_of_url(url: str | None) -> list[str]:
    """Return the password of a URL as it stands there, and decoded."""
    try:
        password = urlsplit(url or "").password
    except ValueError:
        return []
    return [] if not password else [password, unquote(password)]


def clean(text: str) -> str:
    """Return the text without what this process knows to be secret and without credentials."""
    return _PROCESS.redactor.clean(text)


def clean_json(value: JsonValue) -> JsonValue:
    """Return any JSON with its strings cleaned, and without the values of secret keys."""
    return _PROCESS.redactor.clean_json(value)


def summarize(spec: ToolSpec, arguments: JsonObject) -> str:
    """Return the summary of a call's arguments that an approver sees.

    At most 1000 characters, one line for each top-level key. What the tool's schema marks with
    `x-secret`, `format: password` or `writeOnly`, and what a key's name announces, is «redacted».
    """
    return _PROCESS.redactor.summarize(spec, arguments)


def redact_arguments(spec: ToolSpec, arguments: JsonObject) -> JsonObject:
    """Return a call's arguments whole, as somebody may see them who does not own the call."""
    return _PROCESS.redactor.arguments(spec, arguments)


def _can_be_replaced(value: str) -> bool:
    # A part of the mark itself would be found in every mark again.
    return len(value) >= VALUE_MIN_CHARS and value not in REDACTED and REDACTED not in value


def _spellings(value: str) -> set[str]:
    """Return the value as it may stand in a text, in JSON, in a `repr` and in a URL."""
    escaped = json.dumps(value)[1:-1]
    found = {value, escaped, json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    with suppress(UnicodeEncodeError):  # half of a surrogate pair stands in no URL
        found.add(quote(value, safe=""))
    return found
