"""Remember, per file, what this run has seen of it and what its calls have done to it.

Is: the session's version memory (semantics 5.1 "Versions"), and a small write-ahead record that
lets a repeated attempt of a call find out that its effect already happened. Is not: the content
or its history (checkpoints).
Above: `run_workspace.py`. Below: JSON files in the run's reserved directory, one per lock stripe,
so that the lock of a path also guards its record, and every worker on this file system sees it.
"""

import contextlib
import logging
import os
from dataclasses import dataclass, field, replace

from pydantic import JsonValue, TypeAdapter, ValidationError

from toolrail_schemas import JsonObject
from toolrail_workers.builtin.files import read_whole, staged
from toolrail_workers.builtin.locks import stripe_of
from toolrail_workers.builtin.paths import LogicalPath

_APPLIED_KEPT = 32
"""Effects per path that a late second attempt can still recognise as its own."""
_MAX_BYTES = 64 * 1024 * 1024

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """The version of a file that the run has last read or written."""

    sha256: str
    lines: tuple[tuple[int, int], ...] = ()
    """Ranges of lines that were delivered, from 1, both ends included, sorted and disjoint."""
    complete: bool = False
    """Every line was delivered, or the run wrote the file itself."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change of one file by one call, on either side of its rename."""

    call_key: str
    before: str | None
    """SHA-256 before; None when there was no file."""
    after: str | None
    """SHA-256 after; None when the file is gone."""
    whole: bool = True
    """Whether the call gave the whole content, and not only what was added to it."""
    facts: JsonObject = field(default_factory=dict[str, JsonValue])
    """What the call answers; a repeated attempt answers the same."""


@dataclass(frozen=True, slots=True)
class _Record:
    version: KnownVersion | None = None
    pending: Mutation | None = None
    applied: tuple[Mutation, ...] = ()


_RECORDS: TypeAdapter[dict[str, _Record]] = TypeAdapter(dict[str, _Record])


class VersionMemory:
    """The records of one run. All but `known` need the lock of the path."""

    def __init__(self, directory: int) -> None:
        """Use the files in `directory`, a descriptor the caller keeps open."""
        self._directory = directory

    def version_of(self, path: str) -> str | None:
        """Return the SHA-256 this run knows a logical path by, or None."""
        known = self.known(LogicalPath(tuple(path.split("/"))))
        return None if known is None else known.sha256

    def known(self, path: LogicalPath) -> KnownVersion | None:
        """Return what the run knows of a path. Needs no lock: records are replaced whole."""
        return self._record(path).version

    def observe(
        self, path: LogicalPath, sha256: str, *, total_lines: int, lines: tuple[int, int] | None
    ) -> None:
        """Remember that these lines of this version were delivered.

        Args:
            path: Which file.
            sha256: Its version.
            total_lines: How many lines it has; with all of them delivered it counts as complete.
            lines: First and last line delivered; None when no whole line was.
        """
        record = self._record(path)
        before = record.version
        ranges = before.lines if before is not None and before.sha256 == sha256 else ()
        complete = before is not None and before.sha256 == sha256 and before.complete
        if lines is not None:
            ranges = _merge((*ranges, lines))
        complete = complete or total_lines == 0 or ranges == ((1, total_lines),)
        version = KnownVersion(sha256, ranges, complete)
        if version != before:
            self._store(path, replace(record, version=version))

    def know(self, path: LogicalPath, sha256: str) -> None:
        """Remember that the run knows this version whole, because it gave the content itself."""
        version = KnownVersion(sha256, complete=True)
        record = self._record(path)
        if record.version != version:
            self._store(path, replace(record, version=version))

    def applied(self, path: LogicalPath, call_key: str, current: str | None) -> Mutation | None:
        """Return what an earlier attempt of this call did to the file, or None if it did nothing.

        Settles a change that was announced and not confirmed, because its worker died in between:
        with the new content in place it happened, otherwise it did not.

        Args:
            path: Which file.
            call_key: Of the call that asks.
            current: SHA-256 of the file now; None when it is missing.
        """
        record = self._record(path)
        if record.pending is not None:
            happened = record.pending.after == current
            record = _confirmed(record) if happened else replace(record, pending=None)
            self._store(path, record)
        return next((done for done in record.applied if done.call_key == call_key), None)

    def announce(self, path: LogicalPath, mutation: Mutation) -> None:
        """Write down what is about to happen to the file.

        Of a whole content a second attempt sees that it is there already; an addition must be
        remembered even over a power loss, or it would be made twice.
        """
        record = replace(self._record(path), pending=mutation)
        self._store(path, record, durable=not mutation.whole)

    def confirm(self, path: LogicalPath) -> None:
        """Write down that what was announced has happened; the run now knows the new version."""
        self._store(path, _confirmed(self._record(path)))

    def _record(self, path: LogicalPath) -> _Record:
        return self._load(stripe_of(path)).get(str(path), _Record())

    def _load(self, stripe: str) -> dict[str, _Record]:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(f"{stripe}.json", flags, dir_fd=self._directory)
        except FileNotFoundError:
            return {}
        try:
            content = read_whole(descriptor, limit_bytes=_MAX_BYTES)
        finally:
            os.close(descriptor)
        with contextlib.suppress(ValidationError):
            return _RECORDS.validate_json(content or b"")
        # Nothing known is the safe answer: a model has to read again before it may overwrite.
        log.warning("workspace.versions_unreadable", extra={"stripe": stripe})
        return {}

    def _store(self, path: LogicalPath, record: _Record, *, durable: bool = False) -> None:
        stripe = stripe_of(path)
        records = {**self._load(stripe), str(path): record}
        content = _RECORDS.dump_json(records)
        with staged(self._directory, stripe, content, mode=0o600, durable=durable) as file:
            file.replace(f"{stripe}.json")


def _confirmed(record: _Record) -> _Record:
    done = record.pending
    if done is None:
        return record
    known = record.version
    complete = done.whole or (known is not None and known.sha256 == done.before and known.complete)
    version = None if done.after is None else KnownVersion(done.after, complete=complete)
    applied = (*record.applied, done)[-_APPLIED_KEPT:]
    return _Record(version=version, pending=None, applied=applied)


def _merge(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
