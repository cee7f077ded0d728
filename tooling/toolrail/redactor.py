"""Replace secrets in texts and JSON: known values, marked keys, patterns.

Is: the pure part of redaction; a `Redactor` never changes, never raises and gives the same answer
each time. Is not: what this process knows (`redaction.py`). Above: `redaction.py`. Below:
`schema_marks.py`, `toolrail_schemas`.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import quote

from pydantic import JsonValue

from toolrail.schema_marks import DEPTH_MAX, Marks
from toolrail_schemas import (
    REDACTED,
    JsonObject,
    ToolSpec,
    has_escapes,
    is_secret_name,
    redact_credentials,
    replace_shown,
    summarize_arguments,
    without_escapes,
)

VALUE_MIN_CHARS = 6
"""A shorter value stands in too many words; it would hide more than it protects."""
LINE_MIN_CHARS = 16
"""Of a value of several lines: a line of at least so much is a secret of its own."""


class Values:
    """Exact texts to be replaced."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.values = frozenset(value for value in values if _can_be_replaced(value))
        spellings = {spelling for value in self.values for spelling in spellings_of(value)}
        # The longest first, or one value that begins another would leave its end behind.
        self._ordered = tuple(sorted(spellings, key=lambda text: (-len(text), text)))
        self._pattern = re.compile("|".join(map(re.escape, (REDACTED, *self._ordered))))

    def replaced(self, text: str) -> str:
        """Return the text with «redacted» in their place, also where escapes colour a part."""
        if has_escapes(text) and self._are_in(without_escapes(text)):
            # First, or a short value would be taken out of a long one with an escape in it.
            text = replace_shown(self._pattern, lambda _: REDACTED, text)
        return self._pattern.sub(REDACTED, text) if self._are_in(text) else text

    def _are_in(self, text: str) -> bool:
        return any(spelling in text for spelling in self._ordered)


class Redactor:
    """Replaces known values and credentials."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """Know these values.

        Args:
            values: Secret texts; those under 6 characters are ignored.
        """
        self._values = Values(values)

    @property
    def values(self) -> frozenset[str]:
        """What it knows."""
        return self._values.values

    def clean(self, text: str) -> str:
        """Return the text without the values and credentials in it."""
        return redact_credentials(self._values.replaced(text))

    def clean_json(self, value: JsonValue) -> JsonValue:
        """Return JSON with clean strings; under a key that announces a secret is no text at all.

        Numbers and booleans stay: `output_tokens: 12` is no secret.
        """
        return self._clean(value, 0)

    def without_known(self, value: JsonValue) -> JsonValue:
        """Return JSON without the values, and else as it is."""
        if not self.values or value is None or isinstance(value, int | float):
            return value
        if isinstance(value, str):
            return self._values.replaced(value)
        if isinstance(value, list):
            return [self.without_known(item) for item in value]
        replaced = self._values.replaced
        return {replaced(key): self.without_known(inner) for key, inner in value.items()}

    def arguments(self, spec: ToolSpec, arguments: JsonObject) -> JsonObject:
        """Return a call's arguments as somebody may see them who does not own the call."""
        marks = Marks.of(spec.input_schema)
        return {
            self.clean(key): self._argument(key, value, marks, 0)
            for key, value in arguments.items()
        }

    def summarize(self, spec: ToolSpec, arguments: JsonObject) -> str:
        """Return the summary of a call's arguments that an approver sees, ≤ 1000 characters."""
        marks = Marks.of(spec.input_schema)
        secret = {key for key in arguments if marks.member(key).is_secret}
        return summarize_arguments(arguments, secret_keys=secret, clean=self.clean)

    def _clean(self, value: JsonValue, depth: int) -> JsonValue:
        if isinstance(value, str):
            return self.clean(value)
        if not isinstance(value, list | dict):
            return value
        if depth >= DEPTH_MAX:
            return REDACTED
        if isinstance(value, list):
            return [self._clean(item, depth + 1) for item in value]
        return {
            self.clean(key): REDACTED
            if isinstance(inner, str | list | dict) and is_secret_name(key)
            else self._clean(inner, depth + 1)
            for key, inner in value.items()
        }

    def _argument(self, key: str, value: JsonValue, marks: Marks, depth: int) -> JsonValue:
        inner = marks.member(key)
        if value is not None and (inner.is_secret or is_secret_name(key)):
            return REDACTED
        return self._inside(value, inner, depth + 1)

    def _inside(self, value: JsonValue, marks: Marks, depth: int) -> JsonValue:
        if isinstance(value, str):
            return self.clean(value)
        if not isinstance(value, list | dict):
            return value
        if depth >= DEPTH_MAX:
            return REDACTED
        if isinstance(value, dict):
            return {
                self.clean(key): self._argument(key, inner, marks, depth)
                for key, inner in value.items()
            }
        items = marks.items()
        if items.is_secret:
            return [REDACTED for _ in value]
        return [self._inside(item, items, depth + 1) for item in value]


def spellings_of(value: str) -> set[str]:
    """Return the value as it may stand in a text, in JSON, in a `repr`, in a URL; and its lines."""
    found = {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        repr(value)[1:-1],
    }
    with suppress(UnicodeEncodeError):  # half of a surrogate pair stands in no URL
        found.add(quote(value, safe=""))
    if "\n" in value:
        found.update(line for line in value.splitlines() if len(line) >= LINE_MIN_CHARS)
    return found


def _can_be_replaced(value: str) -> bool:
    # A part of the mark itself would be found in every mark again.
    return len(value) >= VALUE_MIN_CHARS and value not in REDACTED and REDACTED not in value
