"""Work a whole patch out in memory: what each file holds afterwards, or why nothing is done.

Is: sections in order over what earlier sections left (semantics 5.5.4). Is not: a write; the
caller stages and commits what `Plan.changes` says, all of it or nothing.
Above: `workspace.apply_patch`. Below: `rebuilding.py`, `texts.py`; a `Disk` that the caller gives.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from toolrail.errors import ToolError
from toolrail_schemas import sha256_hex
from toolrail_workers.builtin.patching.model import FileOp, Format, OpKind
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.patching.rebuilding import ChunkReport, Rebuilt, new_file, rebuild
from toolrail_workers.builtin.patching.target import Target
from toolrail_workers.builtin.patching.tiers import Match
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.texts import Eol, TextFile

_NAMES_SHOWN = 3
_OCCUPIED = frozenset({"workspace.path_is_directory", "workspace.symlink_refused"})
"""What a disk says of a path that no file can be added at, because something else is there."""


class Disk(Protocol):
    """What a plan reads of the workspace. Each file is asked for once."""

    def load(self, path: LogicalPath) -> bytes | None:
        """Return a file's content; None if there is nothing.

        Raises:
            ToolError: What is there is no regular file, or is too large.
        """
        ...

    def names_near(self, path: LogicalPath) -> Sequence[str]:
        """Return paths of files that exist, for advice on a wrong one."""
        ...

    def misspelled(self, path: LogicalPath) -> bool:
        """Return whether the name on disk is another spelling (NFD) of an existing path."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What becomes of one path."""

    before: bytes | None
    """None: there is nothing."""
    after: bytes | None
    """None: there shall be nothing."""
    before_sha256: str | None
    after_sha256: str | None
    mode_from: LogicalPath | None = None
    """The file whose mode bits the new one takes; None: a new file."""
    respelled: bool = False
    """Whether only the spelling of the name changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReport:
    """What one section did."""

    op: str
    """`add`, `update`, `delete` or `move`."""
    path: LogicalPath
    new_path: LogicalPath | None = None
    old_sha256: str | None = None
    new_sha256: str | None = None
    added: int = 0
    removed: int = 0
    eol: Eol = Eol.NONE
    chunks: tuple[ChunkReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a patch comes to."""

    files: tuple[FileReport, ...]
    """In the order of the patch."""
    changes: Mapping[LogicalPath, Change]


class NotText(Exception):
    """A section would change the lines of a file that has none; nothing was changed."""

    def __init__(self, path: LogicalPath, content: bytes) -> None:
        super().__init__(str(path))
        self.path = path
        self.content = content


@dataclass(frozen=True, slots=True)
class NamedOp:
    """A section with its paths resolved."""

    op: FileOp
    path: LogicalPath
    move_to: LogicalPath | None = None


@dataclass
class _State:
    """A path, while sections are worked out."""

    before: bytes | None
    now: bytes | None
    mode_from: LogicalPath | None
    respelled: bool = False


@dataclass
class _Overlay:
    """The workspace as the sections so far leave it."""

    disk: Disk
    states: dict[LogicalPath, _State] = field(default_factory=dict[LogicalPath, _State])
    digests: dict[bytes, str] = field(default_factory=dict[bytes, str])
    """Each content is digested once, however many sections pass it on."""

    def at(self, path: LogicalPath) -> _State:
        if path not in self.states:
            content = self.disk.load(path)
            self.states[path] = _State(content, content, None if content is None else path)
        return self.states[path]

    def digest(self, content: bytes | None) -> str | None:
        if content is not None and content not in self.digests:
            self.digests[content] = sha256_hex(content)
        return None if content is None else self.digests[content]


def plan(ops: Sequence[NamedOp], disk: Disk, *, form: Format, match: Match) -> Plan:
    """Return what the sections of a patch come to, in order.

    Args:
        ops: The sections, all their paths checked.
        disk: The files, under their locks.
        form: Of the patch.
        match: How lenient chunks are matched.

    Raises:
        PatchError: Located at its section; nothing is to be changed.
        NotText: Lines of a file that is no text.
        ToolError: From `disk`.
    """
    overlay = _Overlay(disk)
    files: list[FileReport] = []
    for number, named in enumerate(ops, 1):
        try:
            files.append(_Section(overlay, named, form, match).work_out())
        except PatchError as error:
            state = overlay.states.get(named.path)
            raise error.located(
                op=number,
                path=str(named.path),
                current_sha256=None if state is None else overlay.digest(state.before),
            ) from None
    changes = {
        path: Change(
            before=state.before,
            after=state.now,
            before_sha256=overlay.digest(state.before),
            after_sha256=overlay.digest(state.now),
            mode_from=state.mode_from,
            respelled=state.respelled,
        )
        for path, state in overlay.states.items()
        if state.before != state.now or state.respelled
    }
    if not changes:
        raise _no_change()
    return Plan(files=tuple(files), changes=changes)


class _Section:
    """One section, worked out over the overlay."""

    def __init__(self, overlay: _Overlay, named: NamedOp, form: Format, match: Match) -> None:
        self._overlay = overlay
        self._op, self._path, self._move_to = named.op, named.path, named.move_to
        self._form, self._match = form, match

    def work_out(self) -> FileReport:
        if self._op.kind is OpKind.ADD:
            return self._add()
        if self._op.kind is OpKind.DELETE:
            return self._delete()
        if self._move_to is None or self._move_to == self._path:
            return self._update()
        return self._move(self._move_to)

    def _add(self) -> FileReport:
        state = self._vacant(self._path)
        content = new_file(self._op.content).encode()
        state.now = content
        return self._report("add", None, content, added=len(self._op.content))

    def _delete(self) -> FileReport:
        state = self._existing()
        before = state.now or b""
        removed = before.count(b"\n") + (not before.endswith(b"\n") and bool(before))
        if self._op.chunks:
            rebuilt = self._rebuilt(before)
            if rebuilt.target.lines:
                raise PatchError(
                    "context_mismatch",
                    f"The diff deletes {str(self._path)!r}, but the file has "
                    f"{len(rebuilt.target.lines)} lines that the diff does not remove.",
                )
        state.now, state.mode_from = None, None
        return self._report("delete", before, None, removed=removed)

    def _update(self) -> FileReport:
        state = self._existing()
        before = state.now or b""
        respelled = self._move_to is not None and self._overlay.disk.misspelled(self._path)
        if not self._op.chunks:
            if not respelled:
                raise _no_change()
            state.respelled = True
            return self._report("move", before, before, new_path=self._path)
        rebuilt = self._rebuilt(before)
        after = rebuilt.target.encode()
        if after == before and not respelled:
            raise _no_change()
        state.now, state.respelled = after, state.respelled or respelled
        return self._report("update", before, after, rebuilt=rebuilt)

    def _move(self, target: LogicalPath) -> FileReport:
        state = self._existing()
        there = self._vacant(target)
        before = state.now or b""
        rebuilt = self._rebuilt(before) if self._op.chunks else None
        after = before if rebuilt is None else rebuilt.target.encode()
        there.now, there.mode_from = after, state.mode_from
        state.now, state.mode_from = None, None
        return self._report("move", before, after, new_path=target, rebuilt=rebuilt)

    def _vacant(self, path: LogicalPath) -> _State:
        """Return the state of a path at which nothing is."""
        try:
            state = self._overlay.at(path)
        except ToolError as error:
            if error.code in _OCCUPIED:
                raise _target_exists(path) from None
            raise
        if state.now is not None:
            raise _target_exists(path)
        return state

    def _existing(self) -> _State:
        state = self._overlay.at(self._path)
        if state.now is None:
            raise self._not_found()
        return state

    def _rebuilt(self, before: bytes) -> Rebuilt:
        text = TextFile.of(before)
        if text is None:
            raise NotText(self._path, before)
        return rebuild(Target.of(text), self._op, self._form, self._match)

    def _not_found(self) -> PatchError:
        near = difflib.get_close_matches(
            str(self._path), self._overlay.disk.names_near(self._path), n=_NAMES_SHOWN, cutoff=0.5
        )
        advice = f"Did you mean {' or '.join(map(repr, near))}?" if near else None
        first, _, rest = str(self._path).partition("/")
        if first in ("a", "b") and rest in near:
            advice = f"Leave the {first}/ before the path out: {rest!r} exists."
        return PatchError(
            "file_not_found",
            f"There is no {str(self._path)!r} to {self._op.kind.value}.",
            next_action=advice,
            facts={"nearest": [*near]},
        )

    def _report(
        self,
        op: str,
        before: bytes | None,
        after: bytes | None,
        *,
        new_path: LogicalPath | None = None,
        rebuilt: Rebuilt | None = None,
        added: int = 0,
        removed: int = 0,
    ) -> FileReport:
        text = None if after is None else TextFile.of(after)
        return FileReport(
            op=op,
            path=self._path,
            new_path=new_path,
            old_sha256=self._overlay.digest(before),
            new_sha256=self._overlay.digest(after),
            added=added if rebuilt is None else rebuilt.added,
            removed=removed if rebuilt is None else rebuilt.removed,
            eol=Eol.NONE if text is None else text.eol,
            chunks=() if rebuilt is None else rebuilt.chunks,
        )


def _no_change() -> PatchError:
    return PatchError("no_change", "The file already is what the patch makes of it.")


def _target_exists(path: LogicalPath) -> PatchError:
    return PatchError(
        "target_exists",
        f"{str(path)!r} exists, and a patch does not write over it.",
        next_action="Use an Update section for an existing file, or choose another path.",
    )
