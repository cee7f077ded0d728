"""Write down what a change of several files is about to do, and what it has done.

Is: `Intent`, and its two lives on disk: an intent until the change is complete, then the call's
effect, which a repeated attempt answers. One rename takes it from one to the other. Is not: the
change itself (`transaction.py`).
Above: `transaction.py`. Below: files in the run's reserved directory.
"""

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from toolrail.errors import SystemFailure
from toolrail_schemas import JsonObject, sha256_hex
from toolrail_workers.builtin.files import (
    parts,
    preserve,
    read_whole,
    remove,
    staged,
    sync_directory,
)
from toolrail_workers.builtin.locks import path_key
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.versions import KnownVersion
from toolrail_workers.builtin.walk import Entry

_MAX_BYTES = 64 * 1024 * 1024
_INTENT = ".json"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """A unified diff of one change."""

    text: str
    files: tuple[str, ...]
    added: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What becomes of one path."""

    path: str
    before: str | None
    """SHA-256; None: there is nothing."""
    after: str | None
    """SHA-256; None: there shall be nothing."""
    old_name: str | None
    """The name on disk, which may be another Unicode form; None with `before` None."""
    new_name: str | None
    """The name on disk afterwards; None with `after` None."""
    known: KnownVersion | None = None
    """What the run knew of the file before."""
    complete: bool = False
    """Whether the run knows all of it afterwards."""

    @property
    def logical(self) -> LogicalPath:
        """The path as such."""
        return LogicalPath(tuple(self.path.split("/")))

    @property
    def respelled(self) -> bool:
        """Whether the file gets a name that differs in its Unicode form alone."""
        return self.before is not None and self.after is not None and self.old_name != self.new_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A change of several files: all of it or nothing."""

    token: str
    """Names its files."""
    call_key: str
    """Of the call that wants it; empty: of no call, so nobody asks for the effect."""
    steps: tuple[Step, ...]
    made: tuple[tuple[str, ...], ...] = ()
    """Directories that are made for it, the outer before the inner."""
    facts: JsonObject
    """What the call answers."""
    diff: Diff | None = None

    @property
    def paths(self) -> tuple[LogicalPath, ...]:
        """All that is changed."""
        return tuple(step.logical for step in self.steps)


_ADAPTER: TypeAdapter[Intent] = TypeAdapter(Intent)


def new_token() -> str:
    """Return a name that no intent has had: what is left of a dead one is never mistaken."""
    return secrets.token_hex(16)


class Intents:
    """The intents and effects of one run, each guarded by the locks of its paths."""

    def __init__(self, intents: int, effects: int) -> None:
        """Use two directories, descriptors that the caller keeps open."""
        self._intents = intents
        self._effects = effects

    def announce(self, intent: Intent) -> None:
        """Write an intent down; `sync` makes it survive a power loss."""
        name = f"{intent.token}{_INTENT}"
        content = _ADAPTER.dump_json(intent)
        # By the call, so that its next attempt takes over what this one may leave.
        key = sha256_hex(intent.call_key.encode()) if intent.call_key else intent.token
        with staged(self._intents, key, content, mode=0o600, durable=False) as file:
            file.replace(name)

    def sync(self, token: str) -> None:
        """Make an intent, and the pre-images beside it, survive a power loss."""
        descriptor = os.open(
            f"{token}{_INTENT}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._intents
        )
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync_directory(self._intents)

    def keep_image(self, intent: Intent, number: int, entry: Entry) -> None:
        """Keep what a file held before, under the number of its step."""
        preserve(entry.parent, entry.name, self._intents, _image(intent, number))

    def restore_image(self, intent: Intent, number: int, entry: Entry, name: str) -> None:
        """Give a file back what it held before, under its old name.

        Raises:
            FileNotFoundError: It is not kept.
        """
        image = _image(intent, number)
        try:
            os.rename(image, name, src_dir_fd=self._intents, dst_dir_fd=entry.parent)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            self._copy_back(image, entry, name)

    def _copy_back(self, image: str, entry: Entry, name: str) -> None:
        source = os.open(image, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._intents)
        try:
            mode = os.fstat(source).st_mode
            with staged(entry.parent, path_key(entry.path), parts(source), mode=mode) as file:
                file.replace(name)
        finally:
            os.close(source)

    def has_image(self, intent: Intent, number: int) -> bool:
        """Return whether what a file held before is kept."""
        return _exists(self._intents, _image(intent, number))

    def commit(self, intent: Intent) -> None:
        """Make the intent the effect of its call. This one step says that it has happened."""
        name = f"{intent.token}{_INTENT}"
        if not intent.call_key:
            self.drop(intent)
            return
        os.rename(
            name,
            _effect_name(intent.call_key),
            src_dir_fd=self._intents,
            dst_dir_fd=self._effects,
        )
        # It has happened: what fails from here on must not look as if it had not.
        with contextlib.suppress(OSError):
            sync_directory(self._effects)
            self._drop_images(intent)

    def drop(self, intent: Intent) -> None:
        """Forget an intent; its files are as they were, or it belongs to no call and is done."""
        remove(self._intents, f"{intent.token}{_INTENT}")
        self._drop_images(intent)

    def read(self, token: str) -> Intent | None:
        """Return an intent, or None if it is settled.

        Raises:
            SystemFailure: `workspace.rollback_failed`, it cannot be read.
        """
        content = _read(self._intents, f"{token}{_INTENT}")
        return None if content is None else _checked(content)

    def effect(self, call_key: str) -> Intent | None:
        """Return what a call has done, or None if it has done nothing."""
        content = _read(self._effects, _effect_name(call_key))
        return None if content is None else _checked(content)

    def pending(self) -> Sequence[str]:
        """Return the tokens of all intents, and take away the images of settled ones."""
        names = os.listdir(self._intents)
        if not names:
            return ()
        tokens = sorted(name.removesuffix(_INTENT) for name in names if name.endswith(_INTENT))
        for name in names:
            token, _, number = name.partition(".")
            # An intent is there before its images and goes before them, so look for it last.
            if number.isdigit() and not _exists(self._intents, f"{token}{_INTENT}"):
                remove(self._intents, name)
        return tokens

    def _drop_images(self, intent: Intent) -> None:
        for number in range(len(intent.steps)):
            remove(self._intents, _image(intent, number))


def _image(intent: Intent, number: int) -> str:
    return f"{intent.token}.{number}"


def _effect_name(call_key: str) -> str:
    return f"{sha256_hex(call_key.encode())[:32]}{_INTENT}"


def _exists(directory: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _read(directory: int, name: str) -> bytes | None:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return None
    try:
        return read_whole(descriptor, limit_bytes=_MAX_BYTES) or b""
    finally:
        os.close(descriptor)


def _checked(content: bytes) -> Intent:
    try:
        return _ADAPTER.validate_json(content)
    except ValidationError as error:
        log.error("workspace.intent_unreadable", extra={"errors": error.error_count()})
        raise SystemFailure(
            "workspace.rollback_failed", "What a change was about to do cannot be read."
        ) from None
