"""Make a checkpoint of a workspace, after a change or when it is asked for, and go back to one.

Is: what is looked at, what the caller is told, restoring. Is not: how checkpoints are kept
(`checkpoints.py`).
Above: `workspace.py`, `writing.py`, `patches.py`, `finishing.py`. Below: `run_workspace.py`,
`checkpoints.py`, `seen_files.py`.
"""

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from toolrail.errors import SystemFailure
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import EventType, JsonObject, TextBlock
from toolrail_workers.builtin import faults
from toolrail_workers.builtin.checkpoints import FileState, Made, Manifest, over_limit
from toolrail_workers.builtin.files import parts
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.run_workspace import RunWorkspace, stale_file
from toolrail_workers.builtin.seen_files import SeenFiles, Stamp, stamp_of
from toolrail_workers.builtin.survey import Found, survey
from toolrail_workers.builtin.transaction import Edit, Effect

LABEL_MAX_CHARS = 80
PATHS_MAX = 200
_PRUNED_SHOWN = 64
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_GONE = frozenset({errno.ENOENT, errno.ELOOP, errno.ENXIO})
"""What opening says of a file that was removed, or became something else, since it was found."""

Event = tuple[EventType, JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A checkpoint that stands for the present, and what the journal is told of it."""

    made: Made

    @property
    def checkpoint_id(self) -> str:
        """The id of the checkpoint."""
        return self.made.checkpoint.checkpoint_id

    @property
    def events(self) -> tuple[Event, ...]:
        """Its event; none for one that was there before."""
        if self.made.reused:
            return ()
        one = self.made.checkpoint
        payload: JsonObject = {
            "checkpoint_id": one.checkpoint_id,
            "seq": one.seq,
            "files": one.files,
            "bytes": one.bytes,
            "labels": [*one.labels],
        }
        if self.made.pruned:
            payload["pruned_count"] = len(self.made.pruned)
            payload["pruned"] = [*self.made.pruned[-_PRUNED_SHOWN:]]
        return ((EventType.CHECKPOINT_CREATED, payload),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What going back to a checkpoint has done."""

    undo: Taken
    """The checkpoint that was taken before."""
    written: tuple[str, ...]
    removed: tuple[str, ...]
    events: tuple[Event, ...]


def checkpoint_after(workspace: RunWorkspace, call_key: str) -> Taken:
    """Return the checkpoint that holds what a call has changed, made unless there is one.

    The change has happened, so neither a cancel nor a deadline stops this.

    Raises:
        SystemFailure: `checkpoint.create_failed`.
    """
    with _failures(), workspace.holding(None, check_alive=_go_on):
        return _of_earlier_attempt(workspace, call_key) or _take(workspace, call_key=call_key)


def create_checkpoint(
    workspace: RunWorkspace,
    label: str | None,
    raw_paths: Sequence[str] | None,
    context: ToolContext,
) -> ToolOutput:
    """Answer workspace.create_checkpoint.

    Raises:
        ToolError: By the path rules, or `workspace.file_not_found`; nothing was made.
        SystemFailure: `checkpoint.create_failed`.
    """
    paths = None
    if raw_paths is not None:
        paths = [workspace.resolve(raw) for raw in dict.fromkeys(raw_paths)]
    with _failures(), workspace.holding(None):
        key = context.call_key
        taken = _of_earlier_attempt(workspace, key) or _take(
            workspace, call_key=key, label=label, paths=paths
        )
    one = taken.made.checkpoint
    facts: JsonObject = {
        "checkpoint_id": one.checkpoint_id,
        "seq": one.seq,
        "files": one.files,
        "bytes": one.bytes,
        "reused": taken.made.reused,
        "labels": [*one.labels],
    }
    reused = "; nothing has changed since it was made" if taken.made.reused else ""
    text = f"Checkpoint {one.checkpoint_id}: {one.files} files, {one.bytes} bytes{reused}."
    return ToolOutput(content=(TextBlock(text=text),), structured=facts, events=taken.events)


def _of_earlier_attempt(workspace: RunWorkspace, call_key: str) -> Taken | None:
    made = workspace.checkpoints.of_call(call_key)
    # Its event may have died with the worker.
    return None if made is None else Taken(made=Made(checkpoint=made, reused=False))


def restore_checkpoint(workspace: RunWorkspace, checkpoint_id: str) -> Restored:
    """Make every file what it was at a checkpoint; all of it or nothing. For a user, not a model.

    What stands now is kept first, in a checkpoint of its own. A file that was not there then is
    removed, unless the checkpoint holds only named paths.

    Raises:
        ToolError: `workspace.file_not_found`, there is no such checkpoint.
        SystemFailure: From the disk, or a stored content is damaged; nothing was changed.
    """
    with workspace.holding(None):
        every = workspace.checkpoints.every()
        wanted = next((one for one in every if one.checkpoint_id == checkpoint_id), None)
        target = None if wanted is None else workspace.checkpoints.manifest(checkpoint_id)
        if wanted is None or target is None:
            raise faults.file_not_found(f"checkpoint {checkpoint_id}")
        with _failures():
            undo = _take(workspace, label=f"before restoring {checkpoint_id}"[:LABEL_MAX_CHARS])
        now = workspace.checkpoints.manifest(undo.checkpoint_id) or {}
        edits = list(_edits(workspace, now, target, removes=not wanted.partial))
        if edits:
            workspace.changes.apply(
                edits,
                Effect(facts={}),
                check_alive=workspace.check_alive,
                changed=lambda path: stale_file(path, None),
            )
    written = tuple(str(edit.path) for edit in edits if edit.after is not None)
    removed = tuple(str(edit.path) for edit in edits if edit.after is None)
    event: JsonObject = {
        "checkpoint_id": checkpoint_id,
        "undo_checkpoint_id": undo.checkpoint_id,
        "written": len(written),
        "removed": len(removed),
    }
    events = (*undo.events, (EventType.CHECKPOINT_RESTORED, event))
    return Restored(undo=undo, written=written, removed=removed, events=events)


def _edits(
    workspace: RunWorkspace, now: Manifest, target: Manifest, *, removes: bool
) -> Iterator[Edit]:
    for path in sorted(now.keys() | target.keys()):
        old, new = now.get(path), target.get(path)
        if old == new or (new is None and not removes):
            continue
        content = None if new is None else _checked(workspace, new.sha256)
        yield Edit(
            path=LogicalPath(tuple(path.split("/"))),
            before=None if old is None else old.sha256,
            after=None if new is None else new.sha256,
            content=content,
            mode=None if new is None else new.mode,
        )


def _checked(workspace: RunWorkspace, wanted: str) -> Iterator[bytes]:
    """Yield a stored content; it fails at the end if it is not what it is called."""
    sha256 = hashlib.sha256()
    for piece in workspace.checkpoints.store.blob(wanted):
        sha256.update(piece)
        yield piece
    if sha256.hexdigest() != wanted:
        raise SystemFailure("workspace.io_failed", "A stored file of the checkpoint is damaged.")


def _take(
    workspace: RunWorkspace,
    *,
    call_key: str = "",
    label: str | None = None,
    paths: Sequence[LogicalPath] | None = None,
) -> Taken:
    """Make a checkpoint. Needs all locks."""
    look = _Look(workspace)
    if paths is None:
        roots = [root.name for root in workspace.roots.visible if root.writable]
        look.take(survey(workspace.tree, roots))
    else:
        for path in paths:
            with workspace.tree.entry(path) as entry, workspace.tree.file(entry) as descriptor:
                status = os.fstat(descriptor)
                look.take([Found(str(path), entry.parent, entry.name, status)])
    manifest, added = look.manifest()
    made = workspace.checkpoints.make(
        manifest, added_bytes=added, call_key=call_key, label=label, partial=paths is not None
    )
    return Taken(made=made)


@dataclass
class _Look:
    """One look over files, of which only those are read that may have changed."""

    workspace: RunWorkspace
    _files: dict[str, FileState] = field(default_factory=dict[str, FileState])

    def __post_init__(self) -> None:
        self._store = self.workspace.checkpoints.store
        self._seen = SeenFiles.load(self._store)
        self._blobs = set(self._store.blobs())
        self._read: list[tuple[str, Stamp, int, int]] = []
        self._added_bytes = 0

    def take(self, files: Iterable[Found]) -> None:
        """Look at files, and keep the contents that are not kept yet."""
        digests = self._store.add(self._contents(files))
        for (path, stamp, mode, read_at_ns), digest in zip(self._read, digests, strict=True):
            self._files[path] = FileState(digest.sha256, digest.size, mode)
            self._seen.remember(path, stamp, digest.sha256, read_at_ns=read_at_ns)
            if digest.sha256 not in self._blobs:
                self._added_bytes += digest.size
                self._blobs.add(digest.sha256)
        self._read.clear()

    def manifest(self) -> tuple[Manifest, int]:
        """Return all that was seen, and the bytes of new contents."""
        self._seen.store(self._store)
        return self._files, self._added_bytes

    def _contents(self, files: Iterable[Found]) -> Iterator[Iterator[bytes]]:
        """Yield the content of each file that must be read."""
        count = 0
        for file in files:
            count += 1
            if count > self.workspace.checkpoints.limits.files:
                # Before the contents of a million files are kept for nothing.
                raise over_limit(f"more than {self.workspace.checkpoints.limits.files} files")
            stamp = stamp_of(file.status)
            sha256 = self._seen.digest(file.path, stamp)
            if sha256 is not None and sha256 in self._blobs:
                mode = stat.S_IMODE(file.status.st_mode)
                self._files[file.path] = FileState(sha256, stamp[0], mode)
                continue
            read_at_ns = time.time_ns()
            try:
                descriptor = os.open(file.name, _FILE, dir_fd=file.parent)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
                continue
            try:
                status = os.fstat(descriptor)
                mode = stat.S_IMODE(status.st_mode)
                if stat.S_ISREG(status.st_mode):
                    self._read.append((file.path, stamp_of(status), mode, read_at_ns))
                    yield parts(descriptor)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def _failures() -> Generator[None]:
    """Tell every failure of the disk, and of what is kept there, as that of a checkpoint."""
    try:
        yield
    except OSError as error:
        failure = faults.io_failed(error)
        raise SystemFailure("checkpoint.create_failed", failure.message) from error


def _go_on() -> None:
    """Wait on."""
