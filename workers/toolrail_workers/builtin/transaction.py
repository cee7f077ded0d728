"""Change several files of a workspace at once: all of them or none, whoever dies in between.

Is: stage, verify, rename, and back again (semantics 5.5.5). Is not: what is changed (a plan), or
the record of it (`intents.py`).
Above: `run_workspace.py`. Below: `endings.py`, `intents.py`, `files.py`, `versions.py`.

The order: the intent is written; the new contents lie beside their targets under temp names, what
was there lies in the run's reserved directory; all of it is synced; every file is digested once
more; then names change, removals first. The step that turns the intent into the call's effect is
the one that counts: whoever finds an intent whose owner is gone takes the change back, or, when all
of it is in place, makes the step.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolrail.errors import ToolError
from toolrail_schemas import JsonObject
from toolrail_workers.builtin.endings import Ending, Places, digest_at
from toolrail_workers.builtin.files import StagedFile, staged, sync_staged
from toolrail_workers.builtin.intents import Diff, Intent, Intents, Step, new_token
from toolrail_workers.builtin.locks import Busy, PathLocks, path_key, stripe_of
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.versions import VersionMemory
from toolrail_workers.builtin.walk import Tree

log = logging.getLogger(__name__)

Changed = Callable[[LogicalPath], ToolError]
"""Returns the error for a file that somebody who takes no locks has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What one path shall become."""

    path: LogicalPath
    before: str | None
    """SHA-256 of what it is made from; None: there must be nothing."""
    after: str | None
    """SHA-256; None: there shall be nothing."""
    content: bytes | Iterable[bytes] | None = None
    """What it shall hold, whole or in pieces; None with `after` None."""
    mode: int | None = None
    """Mode bits of a new content; None for the default of the process."""
    complete: bool = False
    """Whether the run knows all of it afterwards."""
    respell: bool = False
    """Whether the name on disk becomes the logical one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What a call has done, as a repeated attempt answers it."""

    call_key: str = ""
    facts: JsonObject
    diff: Diff | None = None


class Transactions:
    """The changes of one workspace."""

    def __init__(
        self, tree: Tree, *, locks: PathLocks, versions: VersionMemory, intents: Intents
    ) -> None:
        self._tree = tree
        self._locks = locks
        self._versions = versions
        self._intents = intents

    def effect(self, call_key: str) -> Effect | None:
        """Return what an earlier attempt of this call has done, or None. Needs its locks."""
        done = self._intents.effect(call_key)
        if done is None:
            return None
        return Effect(call_key=call_key, facts=done.facts, diff=done.diff)

    def apply(
        self,
        edits: Sequence[Edit],
        effect: Effect,
        *,
        check_alive: Callable[[], None],
        changed: Changed,
    ) -> None:
        """Make all the edits, or none. Needs the locks of all their paths.

        Args:
            edits: One per path.
            effect: What is remembered of it.
            check_alive: Called before the first file changes; raises when it is too late.
            changed: Returns the error for a file that somebody who takes no locks has changed.

        Raises:
            ToolError: From `changed` or `check_alive`; every file is as before.
            SystemFailure: `workspace.rollback_failed`; some are not.
            OSError: From the disk; every file is as before.
        """
        with contextlib.ExitStack() as stack:
            places = Places(self._tree, stack)
            intent = self._intent(edits, effect, places)
            ending = Ending(self._tree, self._intents, self._versions, intent, places)
            ending.renamed = False
            try:
                self._intents.announce(intent)
                files = self._stage(edits, intent, places, stack, changed)
                _verify(intent, places, self._tree, changed)
                check_alive()
                ending.renamed = True
                _rename(intent, files, places, changed)
                ending.learn()
                self._intents.commit(intent)
            except BaseException:
                ending.take_back()
                raise

    def _intent(self, edits: Sequence[Edit], effect: Effect, places: Places) -> Intent:
        steps: list[Step] = []
        made: dict[tuple[str, ...], None] = {}
        memory = self._versions.settled({edit.path: edit.before for edit in edits})
        for edit in edits:
            entry = places.find(edit.path)
            name = None if entry is None or entry.status is None else entry.name
            if entry is None:
                made.update(dict.fromkeys(self._missing(edit.path)))
            kept = edit.path.name if edit.respell or name is None else name
            steps.append(
                Step(
                    path=str(edit.path),
                    before=edit.before,
                    after=edit.after,
                    old_name=None if edit.before is None else name,
                    new_name=None if edit.after is None else kept,
                    known=memory[edit.path].version,
                    complete=edit.complete,
                )
            )
        return Intent(
            token=new_token(),
            call_key=effect.call_key,
            steps=tuple(steps),
            made=tuple(made),
            facts=effect.facts,
            diff=effect.diff,
        )

    def _missing(self, path: LogicalPath) -> list[tuple[str, ...]]:
        """Return the directories above `path` that are not there, the outer before the inner."""
        above = [path.segments[:depth] for depth in range(1, len(path.segments))]
        for index, segments in enumerate(above):
            try:
                with self._tree.directory(segments):
                    pass
            except ToolError as error:
                if error.code != "workspace.file_not_found":
                    raise
                return above[index:]
        return []

    def _stage(
        self,
        edits: Sequence[Edit],
        intent: Intent,
        places: Places,
        stack: contextlib.ExitStack,
        changed: Changed,
    ) -> Mapping[str, StagedFile]:
        """Write the new contents beside their targets and keep the old ones, all synced."""
        files: dict[str, StagedFile] = {}
        for number, (edit, step) in enumerate(zip(edits, intent.steps, strict=True)):
            if step.old_name is not None:
                entry = places.get(edit.path)
                if entry.status is None or not stat.S_ISREG(entry.status.st_mode):
                    raise changed(edit.path)
                try:
                    self._intents.keep_image(intent, number, entry)
                except FileNotFoundError:
                    raise changed(edit.path) from None
            if edit.content is not None:
                parent = places.get(edit.path, create=True).parent
                file = staged(
                    parent, path_key(edit.path), edit.content, mode=edit.mode, durable=False
                )
                files[step.path] = stack.enter_context(file)
        sync_staged(list(files.values()))
        self._intents.sync(intent.token)
        return files

    def recover(self) -> None:
        """Settle every intent whose owner is gone; one whose owner lives is left alone.

        Raises:
            SystemFailure: `workspace.rollback_failed`.
        """
        for token in self._intents.pending():
            intent = self._intents.read(token)
            if intent is not None:
                with contextlib.suppress(Busy), self._locks.try_hold(intent.paths):
                    self._settle(token)

    def abandoned(self, paths: Iterable[LogicalPath] | None) -> Sequence[Intent]:
        """Return the intents that wait for their end though their owners are gone.

        Args:
            paths: Whose locks the caller holds; None: all locks. An intent that shares one of
                them has no owner any more.
        """
        stripes = None if paths is None else {stripe_of(path) for path in paths}
        found: list[Intent] = []
        for token in self._intents.pending():
            intent = self._intents.read(token)
            if intent is not None and (
                stripes is None or not stripes.isdisjoint(map(stripe_of, intent.paths))
            ):
                found.append(intent)
        return found

    def settle(self, intents: Iterable[Intent], check_alive: Callable[[], None]) -> None:
        """Settle intents, each under its locks; the caller holds none."""
        for intent in intents:
            with self._locks.hold(intent.paths, check_alive):
                self._settle(intent.token)

    def _settle(self, token: str) -> None:
        intent = self._intents.read(token)
        if intent is None:
            return
        with contextlib.ExitStack() as stack:
            places = Places(self._tree, stack)
            ending = Ending(self._tree, self._intents, self._versions, intent, places)
            done = ending.is_complete()
            log.warning(
                "workspace.change_recovered", extra={"call_key": intent.call_key, "completed": done}
            )
            if done:
                ending.learn()
                ending.clean()
                self._intents.commit(intent)
            else:
                ending.take_back()


def _verify(intent: Intent, places: Places, tree: Tree, changed: Changed) -> None:
    """Look once more, at everything, before anything changes."""
    for step in intent.steps:
        entry = places.get(step.logical)
        if digest_at(tree, tree.again(entry)) != step.before:
            raise changed(step.logical)


def _rename(
    intent: Intent,
    files: Mapping[str, StagedFile],
    places: Places,
    changed: Changed,
) -> None:
    for step in intent.steps:
        # First, so that a name is free before another spelling of it is taken.
        if step.old_name is not None and (step.after is None or step.respelled):
            os.unlink(step.old_name, dir_fd=places.get(step.logical).parent)
    for step in intent.steps:
        if step.new_name is None:
            continue
        file = files[step.path]
        if step.before is not None and not step.respelled:
            file.replace(step.new_name)
            continue
        try:
            file.create(step.new_name)
        except FileExistsError:
            raise changed(step.logical) from None
    places.sync()
