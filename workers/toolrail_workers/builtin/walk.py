"""Get from the top of a workspace to an entry by descriptors alone, following no link.

Is: `Tree`, which opens each component of a path relative to the descriptor of the one before,
with O_NOFOLLOW; what is opened is what is used, so swapping a directory for a link in between
reaches nothing outside. Is not: the grammar of paths (`paths.py`), visibility (`roots.py`), or
what is done with a file (`files.py`).
Above: `files.py`, `listing.py`. Below: the operating system.
"""

import contextlib
import errno
import os
import stat
import unicodedata
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Self

from toolrail_workers.builtin import faults
from toolrail_workers.builtin.files import sync_directory
from toolrail_workers.builtin.paths import LogicalPath

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the open of a fifo would wait for a writer, for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SWAPPED = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What opening says of an entry that stopped being a directory since it was looked at."""
_RACES = 16
"""How often an entry may change its kind between two looks before we give up on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A place in an open directory, with what was there when it was looked at."""

    parent: int
    """Descriptor of the directory; open as long as the `with` that gave this entry."""
    name: str
    """The name on disk, which may be another Unicode form of the logical one."""
    path: LogicalPath
    above: tuple[str, ...]
    """The names on disk of the directories above it."""
    status: os.stat_result | None
    """None: nothing is there."""


class Tree:
    """The directory below which one run's paths are resolved. Owns its descriptor."""

    def __init__(self, descriptor: int, host_paths: tuple[str, ...], *, is_new: bool) -> None:
        self.descriptor = descriptor
        self.is_new = is_new
        """Whether the directory did not exist before."""
        self.host_paths = host_paths
        """The absolute paths of the top: as configured, and as the system resolves it."""

    @classmethod
    def open(cls, place: Path) -> Self:
        """Return the tree of the directory `place`, which exists afterwards.

        Links above `place` are the operator's choice; `place` itself is no link.

        Raises:
            OSError: It cannot be made or opened, or it is a link.
        """
        parent = place.parent
        parent.mkdir(parents=True, exist_ok=True)
        with _opened(os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as above:
            is_new = True
            try:
                os.mkdir(place.name, dir_fd=above)
            except FileExistsError:
                is_new = False
            descriptor = os.open(place.name, _DIRECTORY, dir_fd=above)
        plain = os.path.abspath(place)
        paths = tuple(dict.fromkeys((plain, os.path.realpath(plain))))
        return cls(descriptor, paths, is_new=is_new)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_top(self, path: LogicalPath) -> None:
        """Refuse a link at the top level, whatever may be said about the root of that name.

        Raises:
            SystemFailure: `workspace.path_escape`.
            ToolError: `workspace.symlink_refused`.
        """
        name, status = _look(self.descriptor, path.root)
        if status is not None and stat.S_ISLNK(status.st_mode):
            self._refuse_link((), name, path.segments[1:])

    @contextlib.contextmanager
    def directory(self, segments: Sequence[str]) -> Generator[int]:
        """Give a descriptor of the directory at `segments`.

        Raises:
            SystemFailure: `workspace.path_escape`, a component links to the outside.
            ToolError: `workspace.file_not_found`, `not_a_directory` or `symlink_refused`.
        """
        with self.descend(segments) as (descriptor, _):
            yield descriptor

    @contextlib.contextmanager
    def entry(self, path: LogicalPath, *, create_parents: bool = False) -> Generator[Entry]:
        """Give the place of `path`: its directory, opened, and what is there. Never a link.

        Raises:
            SystemFailure: `workspace.path_escape`, a component links to the outside.
            ToolError: As `directory`, for the components above the last.
        """
        with self.descend(path.segments[:-1], create=create_parents) as opened:
            yield self.look(opened, path)

    def look(self, opened: tuple[int, tuple[str, ...]], path: LogicalPath) -> Entry:
        """Return the place of `path` in its directory, which `descend` has given. Never a link."""
        parent, above = opened
        name, status = _look(parent, path.name)
        if status is not None and stat.S_ISLNK(status.st_mode):
            self._refuse_link(above, name, ())
        return Entry(parent=parent, name=name, path=path, above=above, status=status)

    def ensure(self, segments: Sequence[str]) -> None:
        """Make the directory at `segments` if it is missing; not synced, it can be made again."""
        for index, segment in enumerate(segments):
            with self.directory(segments[:index]) as parent, contextlib.suppress(FileExistsError):
                os.mkdir(segment, dir_fd=parent)

    def again(self, entry: Entry) -> Entry:
        """Return the same place with what is there now. Never a link."""
        return self.look((entry.parent, entry.above), entry.path)

    @contextlib.contextmanager
    def file(self, entry: Entry) -> Generator[int]:
        """Give a descriptor for reading the regular file at `entry`.

        Raises:
            ToolError: `workspace.file_not_found`, `path_is_directory`, `not_regular_file`, or
                `symlink_refused`, when it became a link since it was looked at.
        """
        _refuse_irregular(entry.path, entry.status)
        try:
            descriptor = os.open(entry.name, _FILE, dir_fd=entry.parent)
        except OSError as error:
            if error.errno == errno.ELOOP:
                self._refuse_link(entry.above, entry.name, ())
            if error.errno == errno.ENOENT:
                raise faults.file_not_found(str(entry.path)) from None
            raise
        with _opened(descriptor):
            # What was looked at may have been replaced; what was opened cannot be.
            _refuse_irregular(entry.path, os.fstat(descriptor))
            yield descriptor

    @contextlib.contextmanager
    def descend(
        self, segments: Sequence[str], *, create: bool = False
    ) -> Generator[tuple[int, tuple[str, ...]]]:
        """Give a descriptor of a directory, and the names on disk that lead to it.

        Raises:
            SystemFailure: `workspace.path_escape`, a component links to the outside.
            ToolError: As `directory`; without `file_not_found` when they are made.
        """
        current = os.dup(self.descriptor)
        done: tuple[str, ...] = ()
        try:
            for index in range(len(segments)):
                name, below = self._step(current, done, segments[index:], create=create)
                os.close(current)
                current = below
                done = (*done, name)
            yield current, done
        finally:
            os.close(current)

    def _step(
        self, current: int, done: tuple[str, ...], rest: Sequence[str], *, create: bool
    ) -> tuple[str, int]:
        shown = "/".join((*done, rest[0]))
        for _ in range(_RACES):
            name, status = _look(current, rest[0])
            if status is None:
                if not create:
                    raise faults.file_not_found("/".join((*done, *rest)))
                _make_directory(current, name)
            elif stat.S_ISLNK(status.st_mode):
                self._refuse_link(done, name, rest[1:])
            elif not stat.S_ISDIR(status.st_mode):
                raise faults.not_a_directory(shown)
            else:
                try:
                    return name, os.open(name, _DIRECTORY, dir_fd=current)
                except OSError as error:
                    if error.errno not in _SWAPPED:
                        raise
        # Somebody keeps swapping it; whatever it is at this moment, it is not a plain directory.
        raise faults.symlink_refused(shown)

    def _refuse_link(self, done: Sequence[str], name: str, rest: Sequence[str]) -> NoReturn:
        """Raise for a link: outside ends the run, inside is told to the model.

        Only the choice between the two errors looks at the path as text; nothing is opened by it.
        """
        top = self.host_paths[-1]
        link = os.path.join(top, *done, name)
        for target in (link, os.path.join(link, *rest)):
            # A link that stopped being one while it was read points nowhere any more.
            with contextlib.suppress(OSError):
                real = os.path.realpath(target)
                if real != top and not real.startswith(top + os.sep):
                    raise faults.path_escape()
        raise faults.symlink_refused("/".join((*done, name)), loop=_is_loop(link))


def _look(directory: int, segment: str) -> tuple[str, os.stat_result | None]:
    """Return the name on disk of `segment` and its status; the segment itself if nothing is there.

    A name that misses exactly is found when exactly one name there is the same in NFC.
    """
    with contextlib.suppress(FileNotFoundError):
        return segment, os.stat(segment, dir_fd=directory, follow_symlinks=False)
    same = [name for name in os.listdir(directory) if unicodedata.normalize("NFC", name) == segment]
    if len(same) == 1:
        with contextlib.suppress(FileNotFoundError):
            return same[0], os.stat(same[0], dir_fd=directory, follow_symlinks=False)
    return segment, None


def _is_loop(link: str) -> bool:
    try:
        os.stat(link)
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def _make_directory(parent: int, name: str) -> None:
    """Make a directory that stays after a power loss, unless the name is taken."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        sync_directory(parent)


def _refuse_irregular(path: LogicalPath, status: os.stat_result | None) -> None:
    if status is None:
        raise faults.file_not_found(str(path))
    if stat.S_ISDIR(status.st_mode):
        raise faults.path_is_directory(str(path))
    if not stat.S_ISREG(status.st_mode):
        raise faults.not_regular_file(str(path))


@contextlib.contextmanager
def _opened(descriptor: int) -> Generator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
