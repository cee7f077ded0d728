"""Remember, per file, what this run has seen of it and what its calls have done to it.

Is: the session's version memory (semantics 5.1 "Versions"), and a small write-ahead record that
lets a repeated attempt of a call find out that its effect already happened. Is not: the content
or its history (checkpoints).
Above: `run_workspace.py`. Below: JSON files in the run's reserved directory, one per lock stripe,
so that the lock of a path also guards its record, and every worker on this file system sees it;
and one per effect, which stays as long as the run does: an attempt may come late.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from toolrail.errors import SystemFailure
from toolrail_schemas import JsonObject, sha256_hex
from toolrail_workers.builtin.files import read_whole, staged
from toolrail_workers.builtin.locks import stripe_of
from toolrail_workers.builtin.paths import LogicalPath

_MAX_BYTES = 64 * 1024 * 1024

log = logging.getLogger(__name__)
T = TypeVar("T")


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
class FileMemory:
    """What is remembered of a file with which nothing is going on."""

    version: KnownVersion | None
    failures: int
    """How many calls in a row could not patch it, since it was last read whole."""


@dataclass(frozen=True, slots=True)
class _Record:
    version: KnownVersion | None = None
    pending: Mutation | None = None
    failed: tuple[str, ...] = ()
    """Keys of the last calls, in a row, that could not patch the file."""


_RECORDS: TypeAdapter[dict[str, _Record]] = TypeAdapter(dict[str, _Record])
_EFFECT: TypeAdapter[Mutation] = TypeAdapter(Mutation)


class VersionMemory:
    """The records of one run. All but `known` need the lock of the path.

    A record that cannot be read is `workspace.io_failed`, never an empty one: what a call has done
    would be done again.
    """

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
        failed = () if complete else record.failed
        if version != before or failed != record.failed:
            self._store(path, replace(record, version=version, failed=failed))

    def know(self, path: LogicalPath, sha256: str) -> None:
        """Remember that the run knows this version whole, because it gave the content itself."""
        version = KnownVersion(sha256, complete=True)
        record = self._record(path)
        if record.version != version or record.failed:
            self._store(path, replace(record, version=version, failed=()))

    def applied(self, path: LogicalPath, call_key: str, current: str | None) -> Mutation | None:
        """Return what an earlier attempt of this call did to the file, or None if it did nothing.

        Settles a change that was announced and not confirmed, because its worker died in between:
        with the new content in place it happened, otherwise it did not.

        Args:
            path: Which file.
            call_key: Of the call that asks.
            current: SHA-256 of the file now; None when it is missing.
        """
        self.settle(path, current)
        content = self._read(_effect_name(path, call_key))
        return None if content is None else _checked(_EFFECT, content)

    def announce(self, path: LogicalPath, mutation: Mutation) -> None:
        """Write down what is about to happen to the file.

        Of a whole content a second attempt sees that it is there already; an addition must be
        remembered even over a power loss, or it would be made twice.
        """
        # Of a call whose worker died, when the one who changes the file now never asked for it.
        self.settle(path, mutation.before)
        record = replace(self._record(path), pending=mutation)
        self._store(path, record, durable=not mutation.whole)

    def confirm(self, path: LogicalPath) -> None:
        """Write down that what was announced has happened; the run now knows the new version."""
        record = self._record(path)
        done = record.pending
        if done is None:
            return
        if done.call_key:
            self._keep(path, done)
        # Only now: until the effect is written down, what was announced stands for it.
        self._store(path, _Record(version=_version_after(record.version, done)))

    def settle(self, path: LogicalPath, current: str | None) -> None:
        """Decide by the file whether what was announced and not confirmed has happened."""
        record = self._record(path)
        if record.pending is None:
            return
        if record.pending.after == current:
            self.confirm(path)
        else:
            self._store(path, replace(record, pending=None))

    def remembered(self, paths: Iterable[LogicalPath]) -> dict[LogicalPath, FileMemory]:
        """Return what the run knows of files, as it is."""
        found: dict[LogicalPath, FileMemory] = {}
        for stripe, same in _by_stripe(paths).items():
            records = self._load(stripe)
            for path in same:
                record = records.get(str(path), _Record())
                found[path] = FileMemory(record.version, len(record.failed))
        return found

    def settled(self, files: Mapping[LogicalPath, str | None]) -> dict[LogicalPath, FileMemory]:
        """Return what the run knows of files, with nothing left open that was announced.

        Args:
            files: The SHA-256 of each file now; None when it is missing.
        """
        for stripe, paths in _by_stripe(files).items():
            records = self._load(stripe)
            if any(records.get(str(path), _Record()).pending is not None for path in paths):
                for path in paths:
                    self.settle(path, files[path])
        return self.remembered(files)

    def replace(self, versions: Mapping[LogicalPath, KnownVersion | None]) -> None:
        """Remember versions, or that there is none, for a change that settles itself."""
        for stripe, paths in _by_stripe(versions).items():
            before = self._load(stripe)
            after = {**before, **{str(path): _Record(versions[path]) for path in paths}}
            if after != before:
                self._save(stripe, after)

    def failed(self, path: LogicalPath, call_key: str, *, most: int) -> None:
        """Count a call that could not patch the file; with `most` of them it must be read anew."""
        record = self._record(path)
        if call_key in record.failed or len(record.failed) >= most:
            return
        failed = (*record.failed, call_key)
        version = record.version
        if len(failed) == most and version is not None:
            version = KnownVersion(version.sha256)
        self._store(path, replace(record, version=version, failed=failed))

    def _keep(self, path: LogicalPath, done: Mutation) -> None:
        name = _effect_name(path, done.call_key)
        content = _EFFECT.dump_json(done)
        with staged(self._directory, name, content, mode=0o600, durable=not done.whole) as file:
            file.replace(name)

    def _record(self, path: LogicalPath) -> _Record:
        return self._load(stripe_of(path)).get(str(path), _Record())

    def _load(self, stripe: str) -> dict[str, _Record]:
        content = self._read(f"{stripe}.json")
        return {} if content is None else _checked(_RECORDS, content)

    def _read(self, name: str) -> bytes | None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=self._directory)
        except FileNotFoundError:
            return None
        try:
            return read_whole(descriptor, limit_bytes=_MAX_BYTES) or b""
        finally:
            os.close(descriptor)

    def _store(self, path: LogicalPath, record: _Record, *, durable: bool = False) -> None:
        stripe = stripe_of(path)
        self._save(stripe, {**self._load(stripe), str(path): record}, durable=durable)

    def _save(self, stripe: str, records: dict[str, _Record], *, durable: bool = False) -> None:
        content = _RECORDS.dump_json(records)
        with staged(self._directory, stripe, content, mode=0o600, durable=durable) as file:
            file.replace(f"{stripe}.json")


def _version_after(known: KnownVersion | None, done: Mutation) -> KnownVersion | None:
    if done.after is None:
        return None
    saw_all = known is not None and known.sha256 == done.before and known.complete
    return KnownVersion(done.after, complete=done.whole or saw_all)


def _effect_name(path: LogicalPath, call_key: str) -> str:
    return sha256_hex(f"{call_key} {path}".encode())[:32]


def _by_stripe(paths: Iterable[LogicalPath]) -> dict[str, list[LogicalPath]]:
    """Return the paths by the file that remembers them, each of which is read once."""
    found: dict[str, list[LogicalPath]] = {}
    for path in paths:
        found.setdefault(stripe_of(path), []).append(path)
    return found


def _checked(adapter: TypeAdapter[T], content: bytes) -> T:
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        log.error("workspace.memory_unreadable", extra={"errors": error.error_count()})
        raise SystemFailure(
            "workspace.io_failed", "What the workspace remembers of its files cannot be read."
        ) from None


def _merge(ranges: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
