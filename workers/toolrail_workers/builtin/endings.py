"""Bring a change of several files to an end, by whoever makes it or by whoever finds it.

Is: what each path shows now, taking a change back, and what the run knows afterwards. Is not: the
way forward (`transaction.py`).
Above: `transaction.py`. Below: `intents.py`, `walk.py`, `versions.py`.
"""

import contextlib
import logging
import os
from dataclasses import dataclass

from toolrail.errors import ToolError, ToolrailError
from toolrail_workers.builtin import faults
from toolrail_workers.builtin.files import digest, remove, sync_directory, temp_name
from toolrail_workers.builtin.intents import Intent, Intents, Step
from toolrail_workers.builtin.locks import path_key
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.versions import KnownVersion, VersionMemory
from toolrail_workers.builtin.walk import Entry, Tree

log = logging.getLogger(__name__)


class Places:
    """The directories of a change, each opened once and until the end.

    Who swaps one of them for a link meanwhile changes nothing about where we write.
    """

    def __init__(self, tree: Tree, stack: contextlib.ExitStack) -> None:
        self._tree = tree
        self._stack = stack
        self._opened: dict[tuple[str, ...], tuple[int, tuple[str, ...]]] = {}

    def find(self, path: LogicalPath) -> Entry | None:
        """Return the place of a path as it is now; None if its directory is not there."""
        try:
            return self.get(path)
        except ToolError as error:
            if error.code != "workspace.file_not_found":
                raise
            return None

    def get(self, path: LogicalPath, *, create: bool = False) -> Entry:
        """Return the place of a path as it is now, its directories made if need be.

        Raises:
            SystemFailure: `workspace.path_escape`.
            ToolError: As `Tree.entry`.
        """
        above = path.segments[:-1]
        if above not in self._opened:
            opened = self._tree.descend(above, create=create)
            self._opened[above] = self._stack.enter_context(opened)
        return self._tree.look(self._opened[above], path)

    def sync(self) -> None:
        """Make the names in all the directories survive a power loss."""
        for descriptor, _ in self._opened.values():
            sync_directory(descriptor)


def digest_at(tree: Tree, entry: Entry) -> str | None:
    """Return the SHA-256 of the regular file at a place, None if there is nothing.

    Raises:
        ToolError: There is something else.
    """
    if entry.status is None:
        return None
    with tree.file(entry) as descriptor:
        return digest(descriptor).sha256


@dataclass(frozen=True, slots=True)
class _Now:
    """What a path shows."""

    entry: Entry
    sha256: str | None
    """None: nothing, or nothing that is a file."""
    is_other: bool = False
    """Whether there is something that is no file."""

    def is_new(self, step: Step) -> bool:
        """Whether the step has been made."""
        if self.is_other or self.sha256 != step.after:
            return False
        return step.after is None or not step.respelled or self.entry.name == step.new_name


class Ending:
    """The end of one change. Needs the locks of its paths."""

    def __init__(
        self,
        tree: Tree,
        intents: Intents,
        versions: VersionMemory,
        intent: Intent,
        places: Places,
    ) -> None:
        self._tree = tree
        self._intents = intents
        self._versions = versions
        self._intent = intent
        self._places = places
        self.renamed = True
        """Whether names may have changed; only who makes the change can know that none has."""

    def is_complete(self) -> bool:
        """Return whether every path shows what it shall become."""
        for step in self._intent.steps:
            try:
                if not self._now(self._places.get(step.logical)).is_new(step):
                    return False
            except ToolError as error:
                if error.code != "workspace.file_not_found" or step.after is not None:
                    return False
        return True

    def learn(self) -> None:
        """Let the run know the new versions."""
        known: dict[LogicalPath, KnownVersion | None] = {}
        for step in self._intent.steps:
            after = step.after
            known[step.logical] = (
                None if after is None else KnownVersion(after, complete=step.complete)
            )
        self._versions.replace(known)

    def take_back(self) -> None:
        """Restore every path and leave no trace of the change.

        A file that holds neither the old nor the new content was changed by somebody who takes no
        locks; his content stays.

        Raises:
            SystemFailure: `workspace.rollback_failed`; the intent stays for the next one to try.
        """
        if self.renamed:
            self._restore_all()
            # Without it the run is told that its version is stale, which costs it one reading.
            with contextlib.suppress(ToolrailError, OSError):
                self._forget()
            self._places.sync()
        self.clean()
        self._intents.drop(self._intent)

    def clean(self) -> None:
        """Remove temp files, and directories that were made for nothing."""
        for step in self._intent.steps:
            with contextlib.suppress(ToolrailError):
                remove(self._places.get(step.logical).parent, temp_name(path_key(step.logical)))
        for segments in reversed(self._intent.made):
            with (
                contextlib.suppress(ToolrailError, OSError),
                self._tree.directory(segments[:-1]) as parent,
            ):
                # It refuses one that is not empty: somebody else has use for it.
                os.rmdir(segments[-1], dir_fd=parent)

    def _restore_all(self) -> None:
        broken: list[str] = []
        for number, step in enumerate(self._intent.steps):
            try:
                self._restore(number, step)
            except (OSError, ToolrailError) as error:
                log.exception(
                    "workspace.rollback_failed", extra={"call_key": self._intent.call_key}
                )
                broken.append(f"{step.path!r} ({_reason(error)})")
        if broken:
            raise faults.rollback_failed(", ".join(broken[:3]))

    def _restore(self, number: int, step: Step) -> None:
        has_image = self._intents.has_image(self._intent, number)
        entry = self._places.find(step.logical)
        if entry is None and not has_image:
            return
        now = self._now(entry or self._places.get(step.logical, create=True))
        if step.old_name is None:
            if now.is_new(step):
                os.unlink(now.entry.name, dir_fd=now.entry.parent)
            return
        gone = now.sha256 is None and not now.is_other
        if not has_image or not (gone or now.is_new(step)):
            return
        if step.respelled and not gone:
            os.unlink(now.entry.name, dir_fd=now.entry.parent)
        self._intents.restore_image(self._intent, number, now.entry, step.old_name)

    def _forget(self) -> None:
        """Let the run know the old versions again."""
        for step in self._intent.steps:
            known = self._versions.known(step.logical)
            sha256 = None if known is None else known.sha256
            if known != step.known and sha256 == step.after:
                self._versions.replace({step.logical: step.known})

    def _now(self, entry: Entry) -> _Now:
        try:
            return _Now(entry, digest_at(self._tree, entry))
        except ToolError as error:
            if error.code in ("workspace.path_is_directory", "workspace.not_regular_file"):
                return _Now(entry, None, is_other=True)
            raise


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return os.strerror(error.errno or 0)
    return str(error)
