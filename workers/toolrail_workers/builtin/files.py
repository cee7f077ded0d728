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
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from toolrail_workers.builtin.roots import TEMP_PREFIX, TEMP_SUFFIX

_CHUNK_BYTES = 1024 * 1024
_PERMISSIONS = 0o777
"""Mode bits that are kept. Set-user-id and the like are not: a model wrote the new content."""
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What file systems without hard links answer to `link`."""


@dataclass(frozen=True, slots=True)
class Digest:
    """What a file held when it was read."""

    sha256: str
    size: int


def read_whole(descriptor: int, *, limit_bytes: int) -> bytes | None:
    """Return the content from the start, or None if it has more than `limit_bytes`."""
    if os.fstat(descriptor).st_size > limit_bytes:
        return None
    parts: list[bytes] = []
    size = 0
    for part in _parts(descriptor):
        parts.append(part)
        size += len(part)
        # A file may grow under the reader; its size was only a first answer.
        if size > limit_bytes:
            return None
    return b"".join(parts)


def read_start(descriptor: int, size: int) -> bytes:
    """Return at most the first `size` bytes; the position stays at the start."""
    return os.pread(descriptor, size, 0)


def digest(descriptor: int) -> Digest:
    """Return SHA-256 and size of the content, whatever its size."""
    sha256 = hashlib.sha256()
    size = 0
    for part in _parts(descriptor):
        sha256.update(part)
        size += len(part)
    return Digest(sha256.hexdigest(), size)


def _parts(descriptor: int) -> Iterator[bytes]:
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
            self._sync()

    def _sync(self) -> None:
        if self.durable:
            sync_directory(self.parent)


@contextlib.contextmanager
def staged(
    parent: int, key: str, content: bytes, *, mode: int | None, durable: bool = True
) -> Generator[StagedFile]:
    """Give `content` under a temp name in `parent`; the temp name is gone afterwards.

    The caller holds the lock of the path whose `key` names the temp file, so a temp file that a
    killed worker left behind is taken over by the next write to the same path.

    Args:
        parent: Descriptor of the target's directory.
        key: Hex digits, the same for every writer of one path.
        content: What the file shall hold.
        mode: Mode of the file it replaces; None for the default of the process.
        durable: Whether it must survive a power loss, which costs two syncs.
    """
    temp = f"{TEMP_PREFIX}{key[:16]}{TEMP_SUFFIX}"
    _remove(parent, temp)
    try:
        _write(parent, temp, content, mode=mode, durable=durable)
        yield StagedFile(parent, temp, durable)
    finally:
        _remove(parent, temp)


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


def _write(parent: int, temp: str, content: bytes, *, mode: int | None, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    # Of a file that nobody else may read the copy is not readable either, not for a moment.
    descriptor = os.open(temp, flags, 0o666 if mode is None else 0o600, dir_fd=parent)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        if mode is not None:
            os.fchmod(descriptor, stat.S_IMODE(mode) & _PERMISSIONS)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(parent: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=parent)
