"""Read a file whole and replace a file in one step.

Is: bounded reads, digests, and staged writes: a temp file in the same directory, synced, that
takes the target's name at once or not at all. Is not: path rules (`walk.py`), locks or versions.
Above: `run_workspace.py`. Below: descriptors given by `walk.py`.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from toolrail_workers.builtin.roots import TEMP_PREFIX, TEMP_SUFFIX

_CHUNK_BYTES = 1024 * 1024
_PERMISSIONS = 0o777
"""Mode bits that are kept. Set-user-id and the like are not: a model wrote the new content."""
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
"""What file systems without hard links answer to `link`, or across two of them."""
_SYNCERS = 8
"""Threads that sync files; the disk writes its log once for all that wait. Measured: 50 small
files on ext4 take 100 ms one after another, 15 ms by eight."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file held when it was read."""

    sha256: str
    size: int


def read_whole(descriptor: int, *, limit_bytes: int) -> bytes | None:
    """Return the content from the start, or None if it has more than `limit_bytes`."""
    if os.fstat(descriptor).st_size > limit_bytes:
        return None
    read: list[bytes] = []
    size = 0
    for part in parts(descriptor):
        read.append(part)
        size += len(part)
        # A file may grow under the reader; its size was only a first answer.
        if size > limit_bytes:
            return None
    return b"".join(read)


def read_start(descriptor: int, size: int) -> bytes:
    """Return at most the first `size` bytes; the position stays at the start."""
    return os.pread(descriptor, size, 0)


def digest(descriptor: int) -> Digest:
    """Return SHA-256 and size of the content, whatever its size."""
    sha256 = hashlib.sha256()
    size = 0
    for part in parts(descriptor):
        sha256.update(part)
        size += len(part)
    return Digest(sha256.hexdigest(), size)


def parts(descriptor: int) -> Iterator[bytes]:
    """Yield the content from the start, piece by piece."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    while part := os.read(descriptor, _CHUNK_BYTES):
        yield part


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Content that is on disk under a temporary name."""

    parent: int
    temp: str
    durable: bool

    def replace(self, name: str) -> None:
        """Give the content this name; what had it before is gone, other links to it are not."""
        os.rename(self.temp, name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        self._sync()

    def create(self, name: str) -> None:
        """Give the content this name if nothing has it.

        Raises:
            FileExistsError: Something has it, a link included; nothing was changed.
        """
        try:
            os.link(
                self.temp,
                name,
                src_dir_fd=self.parent,
                dst_dir_fd=self.parent,
                follow_symlinks=False,
            )
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            claim_name(self.parent, name)
            self.replace(name)
        else:
            remove(self.parent, self.temp)
            self._sync()

    def _sync(self) -> None:
        if self.durable:
            sync_directory(self.parent)


@contextlib.contextmanager
def staged(
    parent: int,
    key: str,
    content: bytes | Iterable[bytes],
    *,
    mode: int | None,
    durable: bool = True,
) -> Generator[StagedFile]:
    """Give `content` under a temp name in `parent`; the temp name is gone afterwards.

    The caller holds the lock of the path whose `key` names the temp file, so a temp file that a
    killed worker left behind is taken over by the next write to the same path.

    Args:
        parent: Descriptor of the target's directory.
        key: Hex digits, the same for every writer of one path.
        content: What the file shall hold, whole or in pieces.
        mode: Mode of the file it replaces; None for the default of the process.
        durable: Whether it must survive a power loss, which costs two syncs.
    """
    temp = temp_name(key)
    remove(parent, temp)
    try:
        pieces = (content,) if isinstance(content, bytes) else content
        _write(parent, temp, pieces, mode=mode, durable=durable)
        yield StagedFile(parent, temp, durable)
    except BaseException:
        # What went wrong first is what is told.
        with contextlib.suppress(OSError):
            remove(parent, temp)
        raise
    remove(parent, temp)


def temp_name(key: str) -> str:
    """Return the name under which the content for a path is written first."""
    return f"{TEMP_PREFIX}{key[:16]}{TEMP_SUFFIX}"


def preserve(parent: int, name: str, target: int, image: str) -> None:
    """Give a file a second name in another directory, or copy it there where that cannot be.

    Args:
        parent: Descriptor of its directory.
        name: The file; a link is not followed.
        target: Descriptor of the other directory.
        image: Its name there, which nothing has.
    """
    try:
        os.link(name, image, src_dir_fd=parent, dst_dir_fd=target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        source = os.open(name, flags, dir_fd=parent)
        try:
            _write(target, image, parts(source), mode=os.fstat(source).st_mode, durable=True)
        finally:
            os.close(source)


def sync_staged(files: Sequence[StagedFile]) -> None:
    """Make staged content survive a power loss; many files at once take little longer than one."""
    if len(files) <= 1:
        for file in files:
            _sync_content(file)
        return
    with ThreadPoolExecutor(min(_SYNCERS, len(files))) as pool:
        list(pool.map(_sync_content, files))


def _sync_content(file: StagedFile) -> None:
    descriptor = os.open(file.temp, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=file.parent)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def claim_name(parent: int, name: str) -> None:
    """Make an empty file of this name, for file systems where `link` cannot claim it.

    Raises:
        FileExistsError: Something has the name.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    os.close(os.open(name, flags, 0o600, dir_fd=parent))


def sync_directory(descriptor: int) -> None:
    """Make the names in a directory survive a power loss, where the file system can."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot sync a directory and say so; the names are there all the same.
        if error.errno != errno.EINVAL:
            raise


def _write(
    parent: int, temp: str, pieces: Iterable[bytes], *, mode: int | None, durable: bool
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Of a file that nobody else may read the copy is not readable either, not for a moment.
    descriptor = os.open(temp, flags, 0o666 if mode is None else 0o600, dir_fd=parent)
    try:
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        if mode is not None:
            os.fchmod(descriptor, stat.S_IMODE(mode) & _PERMISSIONS)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(parent: int, name: str) -> None:
    """Take a name away, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
