"""Keep the bytes of checkpoints: contents by their digest, manifests and the index by name.

Is: the port, and a directory of the workspace behind it. Is not: what a checkpoint is
(`checkpoints.py`). Another store, such as one behind an fsspec URL, is another `CheckpointStore`.
Above: `checkpoints.py`. Below: `files.py`.
"""

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from toolrail_workers.builtin.files import (
    Digest,
    StagedFile,
    parts,
    read_whole,
    remove,
    staged,
    sync_directory,
    sync_staged,
)

_DOCUMENT_MAX_BYTES = 64 * 1024 * 1024
_BATCH = 64
"""Contents that are synced together, and whose descriptors are open together."""


class CheckpointStore(Protocol):
    """Where the checkpoints of one run are kept. One caller at a time."""

    def blobs(self) -> Collection[str]:
        """Return the digests of all contents."""
        ...

    def add(self, contents: Iterable[Iterable[bytes]]) -> list[Digest]:
        """Keep contents, each given in pieces; one that is kept already stays."""
        ...

    def blob(self, sha256: str) -> Iterator[bytes]:
        """Yield a content in pieces.

        Raises:
            FileNotFoundError: It is not kept.
        """
        ...

    def drop(self, sha256: str) -> int:
        """Remove a content and return how many bytes it had."""
        ...

    def read(self, name: str) -> bytes | None:
        """Return a document, or None."""
        ...

    def write(self, name: str, content: bytes, *, durable: bool) -> None:
        """Replace a document in one step.

        Args:
            name: A file name.
            content: All of it.
            durable: Whether it must survive a power loss.
        """
        ...

    def remove(self, name: str) -> None:
        """Remove a document, if it is there."""
        ...


class DirectoryStore:
    """A store in two directories: one of contents, one of documents."""

    def __init__(self, blobs: int, documents: int) -> None:
        """Use the directories, descriptors that the caller keeps open."""
        self._blobs = blobs
        self._documents = documents

    def blobs(self) -> Collection[str]:
        """Return the digests of all contents."""
        return frozenset(os.listdir(self._blobs))

    def add(self, contents: Iterable[Iterable[bytes]]) -> list[Digest]:
        """Keep contents, many at a time: the disk syncs them together."""
        found: list[Digest] = []
        every = iter(contents)
        while True:
            batch = self._add(every)
            found += batch
            if len(batch) < _BATCH:
                return found

    def _add(self, contents: Iterator[Iterable[bytes]]) -> list[Digest]:
        with contextlib.ExitStack() as stack:
            files: list[tuple[StagedFile, Digest]] = []
            for pieces in contents:
                hashed = _Hashed(pieces)
                key = f"{len(files):016x}"
                temp = staged(self._blobs, key, hashed, mode=0o600, durable=False)
                files.append((stack.enter_context(temp), hashed.digest()))
                if len(files) == _BATCH:
                    break
            sync_staged([file for file, _ in files])
            for file, digest in files:
                file.replace(digest.sha256)
            if files:
                sync_directory(self._blobs)
            return [digest for _, digest in files]

    def blob(self, sha256: str) -> Iterator[bytes]:
        """Yield a content in pieces."""
        descriptor = os.open(sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._blobs)
        try:
            yield from parts(descriptor)
        finally:
            os.close(descriptor)

    def drop(self, sha256: str) -> int:
        """Remove a content and return how many bytes it had."""
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(sha256, dir_fd=self._blobs, follow_symlinks=False).st_size
            os.unlink(sha256, dir_fd=self._blobs)
            return size
        return 0

    def read(self, name: str) -> bytes | None:
        """Return a document, or None."""
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=self._documents)
        except FileNotFoundError:
            return None
        try:
            return read_whole(descriptor, limit_bytes=_DOCUMENT_MAX_BYTES) or b""
        finally:
            os.close(descriptor)

    def write(self, name: str, content: bytes, *, durable: bool) -> None:
        """Replace a document in one step."""
        key = hashlib.sha256(name.encode()).hexdigest()
        with staged(self._documents, key, content, mode=0o600, durable=durable) as file:
            file.replace(name)

    def remove(self, name: str) -> None:
        """Remove a document, if it is there."""
        remove(self._documents, name)


class _Hashed:
    """Pieces on their way through; digested once they have all passed."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._sha256 = hashlib.sha256()
        self._size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._sha256.update(piece)
            self._size += len(piece)
            yield piece

    def digest(self) -> Digest:
        return Digest(self._sha256.hexdigest(), self._size)
