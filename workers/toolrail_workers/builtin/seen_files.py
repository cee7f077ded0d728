"""Know the digest of a file that has not changed without reading it.

Is: a cache by size, times and inode, and the one rule that makes it safe. Is not: a record that
anything depends on: without it files are read again.
Above: `checkpointing.py`. Below: `checkpoint_store.py`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import TypeAdapter, ValidationError

from toolrail_workers.builtin.checkpoint_store import CheckpointStore

_NAME = "seen.json"
_SETTLED_NS = 100_000_000
"""How old a change must be before a look at the clock can tell it from a later one. File systems
stamp changes by the kernel's tick, at most 10 ms apart."""

Stamp = tuple[int, int, int, int]
"""Size in bytes, time of change of the content and of the inode in ns, number of the inode."""

_ADAPTER: TypeAdapter[dict[str, tuple[int, int, int, int, str]]] = TypeAdapter(
    dict[str, tuple[int, int, int, int, str]]
)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what changes whenever the file does. Nobody can set the third back."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


@dataclass
class SeenFiles:
    """The digests of files as they were last seen, by path."""

    _known: Mapping[str, tuple[int, int, int, int, str]]
    _seen: dict[str, tuple[int, int, int, int, str]] = field(
        default_factory=dict[str, tuple[int, int, int, int, str]]
    )

    @classmethod
    def load(cls, store: CheckpointStore) -> "SeenFiles":
        """Return what is remembered; nothing, if that cannot be read."""
        content = store.read(_NAME)
        try:
            return cls({} if content is None else _ADAPTER.validate_json(content))
        except ValidationError:
            return cls({})

    def digest(self, path: str, stamp: Stamp) -> str | None:
        """Return the digest of a file with this stamp, or None if it must be read."""
        known = self._known.get(path)
        if known is None or known[:4] != stamp:
            return None
        self._seen[path] = known
        return known[4]

    def remember(self, path: str, stamp: Stamp, sha256: str, *, read_at_ns: int) -> None:
        """Remember a digest, unless the file might change again under the same stamp.

        Args:
            path: Which file.
            stamp: Taken before it was read.
            sha256: Of what was read.
            read_at_ns: When the reading began, by the clock of the wall.
        """
        if stamp[2] + _SETTLED_NS < read_at_ns:
            self._seen[path] = (*stamp, sha256)

    def store(self, store: CheckpointStore) -> None:
        """Write down what was seen, if it is anything new."""
        if self._seen != self._known:
            store.write(_NAME, _ADAPTER.dump_json(self._seen), durable=False)
