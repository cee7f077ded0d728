"""Read and change the files of one run by the rules of semantics 5.1.

Is: `RunWorkspace`, where path grammar, roots, descriptors, locks and versions meet. Is not: a
tool: it knows nothing of ranges, texts or answers.
Above: the workspace tools; a team's tool through `ToolContext.workspace`. Below: `walk.py`,
`files.py`, `locks.py`, `versions.py`, `transaction.py`.
"""

import contextlib
from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from pathlib import Path

from toolrail.errors import ToolError
from toolrail_schemas import sha256_hex
from toolrail_workers.builtin import faults
from toolrail_workers.builtin.checkpoint_store import DirectoryStore
from toolrail_workers.builtin.checkpoints import CheckpointLimits, Checkpoints
from toolrail_workers.builtin.endings import digest_at
from toolrail_workers.builtin.files import digest, read_whole, staged
from toolrail_workers.builtin.intents import Intents
from toolrail_workers.builtin.locks import PathLocks, ThreadLocks, path_key
from toolrail_workers.builtin.paths import LogicalPath, parse_path
from toolrail_workers.builtin.roots import STATE_DIR, Roots
from toolrail_workers.builtin.transaction import Transactions
from toolrail_workers.builtin.versions import Mutation, VersionMemory
from toolrail_workers.builtin.walk import Entry, Tree

FILE_MAX_BYTES = 32 * 1024 * 1024
"""Largest file that is read into memory. A larger one can be replaced and digested, not read."""
_STATE = ("locks", "versions", "intents", "effects", "blobs", "checkpoints")
"""The run's own directories."""
CHECKPOINT_LIMITS = CheckpointLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """A file while its lock is held: nobody else who keeps to the locks changes it."""

    path: LogicalPath
    entry: Entry | None
    """None: not even its directory is there."""
    sha256: str | None = None
    """None: there is no file."""
    content: bytes | None = None
    """None: there is no file, or it is larger than `FILE_MAX_BYTES`."""


class RunWorkspace:
    """The files of one run, opened for one call. Made by `open_workspace`."""

    def __init__(
        self,
        tree: Tree,
        *,
        roots: Roots,
        locks: PathLocks,
        versions: VersionMemory,
        changes: Transactions,
        checkpoints: Checkpoints,
        check_alive: Callable[[], None],
    ) -> None:
        self.tree = tree
        self.roots = roots
        self.versions = versions
        self.changes = changes
        self.checkpoints = checkpoints
        self.check_alive = check_alive
        self._locks = locks

    def resolve(self, raw: str, *, directory: bool = False, writing: bool = False) -> LogicalPath:
        """Return the logical path that a model's spelling means, if this run may use it.

        Args:
            raw: As the model wrote it.
            directory: Whether a directory may be meant.
            writing: Whether it is going to be changed.

        Raises:
            SystemFailure: `workspace.path_escape`.
            ToolError: `workspace.invalid_path`, `path_not_visible`, `path_not_writable` or
                `symlink_refused`.
        """
        path = parse_path(raw, host_roots=self.tree.host_paths, directory=directory)
        # Before visibility: a link to the outside ends the run even under a name nobody may use.
        self.tree.check_top(path)
        if writing:
            self.roots.check_writable(path)
        else:
            self.roots.check_visible(path)
        return path

    @contextlib.contextmanager
    def opened(self, path: LogicalPath) -> Generator[int]:
        """Give a descriptor for reading a resolved path."""
        with self.tree.entry(path) as entry, self.tree.file(entry) as descriptor:
            yield descriptor

    def observe(
        self, path: LogicalPath, sha256: str, *, total_lines: int, lines: tuple[int, int] | None
    ) -> None:
        """Remember what was delivered of a file; see `VersionMemory.observe`."""
        with self._locks.hold([path], self.check_alive):
            self.versions.observe(path, sha256, total_lines=total_lines, lines=lines)

    @contextlib.contextmanager
    def holding(
        self,
        paths: Collection[LogicalPath] | None,
        *,
        check_alive: Callable[[], None] | None = None,
    ) -> Generator[None]:
        """Hold the locks of resolved paths, with no change of them left half done.

        Args:
            paths: Which; None for all there are.
            check_alive: Asked while waiting, instead of the call.

        Raises:
            SystemFailure: `workspace.rollback_failed`.
            ToolError: `tool.cancelled` or `tool.timeout` while waiting.
        """
        check_alive = check_alive or self.check_alive
        while True:
            with self._hold(paths, check_alive):
                # Its owner may have died while we waited for him.
                left = self.changes.abandoned(paths)
                if not left:
                    yield
                    return
            self.changes.settle(left, check_alive)

    def _hold(
        self, paths: Collection[LogicalPath] | None, check_alive: Callable[[], None]
    ) -> contextlib.AbstractContextManager[None]:
        if paths is None:
            return self._locks.hold_all(check_alive)
        return self._locks.hold(paths, check_alive)

    @contextlib.contextmanager
    def held(self, path: LogicalPath) -> Generator[HeldFile]:
        """Give a resolved path under its lock, its content digested. Makes nothing.

        Raises:
            ToolError: `workspace.path_is_directory`, `not_regular_file`, `not_a_directory`,
                `symlink_refused`; `tool.cancelled` or `tool.timeout` while waiting.
        """
        with self.holding([path]), contextlib.ExitStack() as stack:
            try:
                entry = stack.enter_context(self.tree.entry(path))
            except ToolError as error:
                if error.code != "workspace.file_not_found":
                    raise
                yield HeldFile(path=path, entry=None)
            else:
                yield self.look_into(entry)

    def publish(
        self, held: HeldFile, content: bytes, mutation: Mutation, *, changed: ToolError
    ) -> None:
        """Give the file its new content in one step, if it is still what `mutation` says.

        Missing directories are made on the way.

        Args:
            held: The file, under its lock.
            content: What it shall hold.
            mutation: Its versions before and after; written down first.
            changed: Raised when somebody who takes no locks changed or made the file meanwhile.

        Raises:
            ToolError: `changed`, or `tool.cancelled` or `tool.timeout`; nothing was changed.
        """
        with contextlib.ExitStack() as stack:
            entry = held.entry or stack.enter_context(
                self.tree.entry(held.path, create_parents=True)
            )
            mode = None if entry.status is None else entry.status.st_mode
            file = stack.enter_context(
                staged(entry.parent, path_key(held.path), content, mode=mode)
            )
            if digest_at(self.tree, self.tree.again(entry)) != mutation.before:
                raise changed
            self.check_alive()
            self.versions.announce(held.path, mutation)
            if mutation.before is not None:
                file.replace(entry.name)
            else:
                try:
                    file.create(entry.name)
                except FileExistsError:
                    raise changed from None
        self.versions.confirm(held.path)

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one file, for a team's own tool.

        Raises:
            ToolError: By the path rules, or `workspace.read_too_large`.
        """
        resolved = self.resolve(path)
        with self.opened(resolved) as descriptor:
            content = read_whole(descriptor, limit_bytes=FILE_MAX_BYTES)
        if content is None:
            raise too_large(resolved)
        return content

    def write_bytes(self, path: str, content: bytes, *, expected_sha256: str | None) -> str:
        """Replace one file in one step and return its new SHA-256, for a team's own tool.

        Raises:
            ToolError: By the path rules; `workspace.stale_file` when the file is not the expected
                version (None: must be new).
        """
        resolved = self.resolve(path, writing=True)
        with self.held(resolved) as held:
            if held.sha256 != expected_sha256:
                raise stale_file(resolved, held.sha256)
            after = sha256_hex(content)
            mutation = Mutation("", held.sha256, after)
            self.publish(held, content, mutation, changed=stale_file(resolved, None))
        return after

    def look_into(self, entry: Entry) -> HeldFile:
        """Return what is at a place whose lock is held.

        Raises:
            ToolError: There is something that is no regular file.
        """
        if entry.status is None:
            return HeldFile(path=entry.path, entry=entry)
        with self.tree.file(entry) as descriptor:
            content = read_whole(descriptor, limit_bytes=FILE_MAX_BYTES)
            sha256 = digest(descriptor).sha256 if content is None else sha256_hex(content)
        return HeldFile(path=entry.path, entry=entry, sha256=sha256, content=content)


@contextlib.contextmanager
def open_workspace(
    place: Path,
    *,
    roots: Roots,
    threads: ThreadLocks,
    check_alive: Callable[[], None],
    limits: CheckpointLimits = CHECKPOINT_LIMITS,
) -> Generator[RunWorkspace]:
    """Give the workspace at `place`, which is made with all its roots if it does not exist.

    Raises:
        SystemFailure: `workspace.io_failed`, for whatever the disk refuses while it is open.
    """
    with faults.io_failures(), Tree.open(place) as tree:
        if tree.is_new:
            for root in roots:
                tree.ensure((root.name,))
        with contextlib.ExitStack() as stack:
            state = {name: _state(tree, name, stack) for name in _STATE}
            locks = PathLocks(state["locks"], threads)
            versions = VersionMemory(state["versions"])
            intents = Intents(state["intents"], state["effects"])
            store = DirectoryStore(state["blobs"], state["checkpoints"])
            changes = Transactions(tree, locks=locks, versions=versions, intents=intents)
            # Whoever died here last may have left a change half done.
            changes.recover()
            yield RunWorkspace(
                tree,
                roots=roots,
                locks=locks,
                versions=versions,
                changes=changes,
                checkpoints=Checkpoints(store, limits),
                check_alive=check_alive,
            )


def _state(tree: Tree, name: str, stack: contextlib.ExitStack) -> int:
    """Return a descriptor of one of the run's own directories, made if it is missing."""
    segments = (STATE_DIR, name)
    try:
        return stack.enter_context(tree.directory(segments))
    except ToolError:
        tree.ensure(segments)
        return stack.enter_context(tree.directory(segments))


def stale_file(path: LogicalPath, current: str | None) -> ToolError:
    """Return the error for a file that is not the version a change was made for.

    Args:
        path: Which file.
        current: SHA-256 of what is there now; None when it is missing or not known.
    """
    return ToolError(
        "workspace.stale_file",
        f"{str(path)!r} is not the version you know"
        + (f"; it is {current[:12]}… now." if current else "; it changed or is gone."),
        next_action="Read it again, then repeat the change on its present content.",
        structured={"path": str(path), "current_sha256": current},
    )


def too_large(path: LogicalPath) -> ToolError:
    """Return the error for a file that is not read into memory."""
    return ToolError(
        "workspace.read_too_large",
        f"{str(path)!r} has more than {FILE_MAX_BYTES} bytes.",
        next_action="Work without its content, or ask for a smaller file.",
    )
