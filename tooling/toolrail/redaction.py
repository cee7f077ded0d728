"""Keep secrets out of everything that is written down or shown, in three layers.

Is: what this process knows to be secret, and the functions that every place uses: keys that a
tool's schema or a name marks, exact values, patterns. Is not: the replacing itself (`redactor.py`).
Above: approval records, journal, logs, command line. Below: `redactor.py`, `schema_marks.py`.

Results go to the model as they are. What no layer can know, a secret without a pattern in free
text, stays visible.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from toolrail.redactor import Redactor, Values
from toolrail.schema_marks import secret_values
from toolrail_schemas import REDACTED, JsonObject, ToolSpec

REMEMBERED = 256
"""Secret arguments that are still known after their call: what was said of it comes later."""
PAYLOAD_STRING_MAX_CHARS = 1000
"""Source: semantics 2.8."""
_OURS = frozenset(
    {
        "approval_id",
        "args_ref",
        "args_sha256",
        "args_summary",
        "caller",
        "edited_args_sha256",
        "error_class",
        "on_denied",
        "policy_hash",
        "provider_metadata_ref",
        "resource_refs",
        "result_ref",
        "scope",
        "sha256",
        "source",
        "spec_hash",
    }
)
"""Payload keys whose value we made, or made clean before; they are most of the journal."""


class HeldValues:
    """Secret arguments of the calls that run in this process, and of the last ones that did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._ended: deque[str] = deque(maxlen=REMEMBERED)
        self._values: Values | None = Values()

    def hold(self, values: Iterable[str]) -> None:
        """Know them until they are released."""
        with self._lock:
            self._running.update(values)
            self._values = None

    def release(self, values: Iterable[str]) -> None:
        """Remember them among the last ones."""
        with self._lock:
            self._running.subtract(values)
            self._running += Counter()
            self._ended.extend(values)
            self._values = None

    def replaced(self, text: str) -> str:
        """Return the text with «redacted» in their place."""
        values = self._values
        if values is None:
            with self._lock:
                # Made only when something is logged, so that calls cost next to nothing.
                values = self._values = Values({*self._running, *self._ended})
        return values.replaced(text)


class _Process:
    """What this process knows to be secret."""

    def __init__(self) -> None:
        self.redactor = Redactor()
        self.held = HeldValues()
        self.counts: dict[str, int] = dict.fromkeys(("words", "said", "journal", "arguments"), 0)

    def note(self, kind: str, before: object, after: object) -> None:
        """Count what had a secret in it."""
        if after is not before and after != before:
            self.counts[kind] += 1


_PROCESS = _Process()


def know(values: Iterable[str | None]) -> None:
    """From now on these values are redacted in this process; None and short ones are ignored."""
    more = {value for value in values if value}
    if not more <= _PROCESS.redactor.values:
        _PROCESS.redactor = Redactor({*_PROCESS.redactor.values, *more})


class Holding:
    """Inside, and for some time after, `clean_said` hides the secret arguments of one call."""

    __slots__ = ("_values",)

    def __init__(self, spec: ToolSpec, arguments: JsonObject) -> None:
        self._values = secret_values(spec, arguments)

    def __enter__(self) -> None:
        """Know them."""
        if self._values:
            _PROCESS.held.hold(self._values)

    def __exit__(self, *_: object) -> None:
        """Remember them among the last ones."""
        if self._values:
            _PROCESS.held.release(self._values)


def counts() -> Mapping[str, int]:
    """Return how often this process took something secret out, by what it was in.

    `words` of ours, what others `said`, payloads of the `journal`, `arguments` for approvers,
    whole or as a summary.
    """
    return _PROCESS.counts


def clean(text: str) -> str:
    """Return our own words without what this process knows to be secret, and credentials."""
    cleaned = _PROCESS.redactor.clean(text)
    _PROCESS.note("words", text, cleaned)
    return cleaned


def clean_said(text: str) -> str:
    """Return what a tool, a server or a library said, fit for a log.

    As `clean`, and without the secret arguments of calls that run here or just did. A model chose
    those, so they hide nothing in our own words: it could blind a log with them.
    """
    cleaned = _PROCESS.redactor.clean(_PROCESS.held.replaced(text))
    _PROCESS.note("said", text, cleaned)
    return cleaned


def clean_json(value: JsonValue) -> JsonValue:
    """Return JSON with clean strings; under a key that announces a secret is no text at all."""
    return _PROCESS.redactor.clean_json(value)


def without_known(value: JsonValue) -> JsonValue:
    """Return JSON without what this process knows to be secret, and else as it is."""
    return _PROCESS.redactor.without_known(value)


def clean_payload(payload: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    """Return the payload of an event as the journal may keep it; strings stay within 1000."""
    texts: dict[str, JsonValue] = {
        key: value
        for key, value in payload.items()
        if isinstance(value, str | list | dict) and key not in _OURS
    }
    if not texts:
        return payload
    cleaned = clean_json(texts)
    if cleaned == texts or not isinstance(cleaned, dict):
        return payload
    _PROCESS.note("journal", texts, cleaned)
    # A mark may be longer than what it stands for.
    rest = {key: value for key, value in payload.items() if key not in texts}
    return {**rest, **{key: _cut(value) for key, value in cleaned.items()}}


def _cut(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    return value[:PAYLOAD_STRING_MAX_CHARS] if isinstance(value, str) else value


def summarize(spec: ToolSpec, arguments: JsonObject) -> str:
    """Return the summary of a call's arguments that an approver sees.

    At most 1000 characters, one line for each top-level key. What the tool's schema marks with
    `x-secret`, `format: password` or `writeOnly`, and what a key's name announces, is «redacted».
    """
    summary = _PROCESS.redactor.summarize(spec, arguments)
    if REDACTED in summary:
        _PROCESS.counts["arguments"] += 1
    return summary


def redact_arguments(spec: ToolSpec, arguments: JsonObject) -> JsonObject:
    """Return a call's arguments whole, as somebody may see them who does not own the call."""
    cleaned = _PROCESS.redactor.arguments(spec, arguments)
    _PROCESS.note("arguments", arguments, cleaned)
    return cleaned


def secrets_of_url(url: str | None) -> list[str]:
    """Return the password of a URL as it stands there, and decoded."""
    try:
        password = urlsplit(url or "").password
    except ValueError:
        return []
    return [] if not password else [password, unquote(password)]
