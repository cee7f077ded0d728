"""Remember what all files of a run held at one moment, and what each moment was called.

Is: manifests over contents that are kept once, the index, the limits and what is pruned first
(semantics 5.6). Is not: the answer of a tool, or restoring (`checkpointing.py`).
Above: `checkpointing.py`. Below: `checkpoint_store.py`, `seen_files.py`.
"""

import re
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from toolrail.errors import SystemFailure
from toolrail_schemas import sha256_hex
from toolrail_workers.builtin.checkpoint_store import CheckpointStore

_INDEX = "index.json"
_DIGEST = re.compile(rb'"sha256":"([0-9a-f]{64})"')
_PRUNE_TO = 0.75
"""Share of a limit that is left after pruning, so that it is not done at every change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLimits:
    """How much one run may keep. Source: semantics 5.6; the count of automatic ones is ours."""

    files: int = 10_000
    """Of one checkpoint."""
    total_bytes: int = 256 * 1024 * 1024
    """Of all contents and manifests."""
    automatic: int = 500
    """Checkpoints that nobody has named."""


@dataclass(frozen=True, slots=True)
class FileState:
    """One file of a checkpoint."""

    sha256: str
    bytes: int
    mode: int
    """Permission bits."""


Manifest = Mapping[str, FileState]
"""By logical path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One moment, as the index knows it."""

    checkpoint_id: str
    seq: int
    made_at_ms: int
    call_key: str = ""
    """Of the call after which it was made."""
    labels: tuple[str, ...] = ()
    partial: bool = False
    """Whether it holds only paths that were named: then restoring removes nothing."""
    files: int
    bytes: int
    """Of all its files."""
    digest: str
    """SHA-256 of its manifest."""
    manifest_bytes: int

    @property
    def is_automatic(self) -> bool:
        """Whether it may be pruned."""
        return not self.labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A checkpoint that stands for the present."""

    checkpoint: Checkpoint
    reused: bool
    """Whether nothing has changed since it was made."""
    pruned: tuple[str, ...] = ()
    """Ids of those that gave way to it."""


@dataclass(frozen=True, slots=True)
class _Index:
    checkpoints: tuple[Checkpoint, ...] = ()
    next_seq: int = 1
    blob_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Row:
    path: str
    sha256: str
    bytes: int
    mode: int


_INDEX_ADAPTER: TypeAdapter[_Index] = TypeAdapter(_Index)
_ROWS: TypeAdapter[list[_Row]] = TypeAdapter(list[_Row])


class Checkpoints:
    """The checkpoints of one run. Whoever makes or prunes holds all locks of the workspace."""

    def __init__(self, store: CheckpointStore, limits: CheckpointLimits) -> None:
        self.store = store
        self.limits = limits

    def every(self) -> Sequence[Checkpoint]:
        """Return all that are kept, the oldest first."""
        return self._index().checkpoints

    def of_call(self, call_key: str) -> Checkpoint | None:
        """Return the one that was made after a call, if it is kept."""
        made = (one for one in reversed(self.every()) if one.call_key == call_key)
        return next(made, None)

    def manifest(self, checkpoint_id: str) -> Manifest | None:
        """Return the files of a checkpoint, or None if there is no such one.

        Raises:
            SystemFailure: It cannot be read.
        """
        content = self.store.read(_name(checkpoint_id))
        if content is None:
            return None
        try:
            rows = _ROWS.validate_json(content)
        except ValidationError:
            raise _damaged() from None
        return {row.path: FileState(row.sha256, row.bytes, row.mode) for row in rows}

    def make(
        self,
        manifest: Manifest,
        *,
        added_bytes: int,
        call_key: str = "",
        label: str | None = None,
        partial: bool = False,
    ) -> Made:
        """Keep a moment whose contents are in the store; the last one is used again if it can be.

        Args:
            manifest: All its files.
            added_bytes: Of contents that were added to the store for it.
            call_key: Of the call that it is made after.
            label: Its name; with one it is never pruned.
            partial: Whether only some files were looked at.

        Raises:
            SystemFailure: `checkpoint.create_failed`, it is over the limits.
        """
        content = _document(manifest)
        digest = sha256_hex(content)
        index = self._index()
        last = index.checkpoints[-1] if index.checkpoints else None
        if last is not None and (last.digest, last.partial) == (digest, partial):
            if label is not None and label not in last.labels:
                last = replace(last, labels=(*last.labels, label))
                self._write(replace(index, checkpoints=(*index.checkpoints[:-1], last)))
            return Made(checkpoint=last, reused=True)
        checkpoint = Checkpoint(
            checkpoint_id=f"cp{index.next_seq}",
            seq=index.next_seq,
            made_at_ms=time.time_ns() // 1_000_000,
            call_key=call_key,
            labels=() if label is None else (label,),
            partial=partial,
            files=len(manifest),
            bytes=sum(state.bytes for state in manifest.values()),
            digest=digest,
            manifest_bytes=len(content),
        )
        self._refuse_size(checkpoint)
        self.store.write(_name(checkpoint.checkpoint_id), content, durable=True)
        pruned = self._append(
            _Index(
                (*index.checkpoints, checkpoint), index.next_seq + 1, index.blob_bytes + added_bytes
            )
        )
        return Made(checkpoint=checkpoint, reused=False, pruned=pruned)

    def _append(self, index: _Index) -> tuple[str, ...]:
        """Write an index with a new last one, and return the ids of those that gave way."""
        kept, unused = self._pruned(index)
        self._write(kept)
        gone = [one.checkpoint_id for one in index.checkpoints if one not in kept.checkpoints]
        # Only now: the index must never name what is not there any more.
        for checkpoint_id in gone:
            self.store.remove(_name(checkpoint_id))
        if unused:
            freed = sum(map(self.store.drop, unused))
            self._write(replace(kept, blob_bytes=max(0, kept.blob_bytes - freed)))
        return tuple(gone)

    def _refuse_size(self, checkpoint: Checkpoint) -> None:
        if checkpoint.files > self.limits.files:
            raise over_limit(f"{checkpoint.files} files, the limit is {self.limits.files}")
        size = checkpoint.bytes + checkpoint.manifest_bytes
        if size > self.limits.total_bytes:
            raise over_limit(f"{size} bytes, the limit is {self.limits.total_bytes}")

    def _pruned(self, index: _Index) -> tuple[_Index, Sequence[str]]:
        """Return the index without the oldest that have no label, and the contents left over."""
        used = index.blob_bytes + sum(one.manifest_bytes for one in index.checkpoints)
        # The last one is kept whatever it is.
        automatic = [one for one in index.checkpoints[:-1] if one.is_automatic]
        spare = len(automatic) - int(self.limits.automatic * _PRUNE_TO)
        if len(automatic) < self.limits.automatic:
            spare = 0
        if used <= self.limits.total_bytes and not spare:
            return index, ()
        uses = self._uses(index.checkpoints)
        dropped: list[Checkpoint] = []
        for one in automatic:
            if len(dropped) >= spare and used <= self.limits.total_bytes * _PRUNE_TO:
                break
            dropped.append(one)
            used -= one.manifest_bytes + self._release(one, uses)
        if used > self.limits.total_bytes:
            raise over_limit(f"{used} bytes under labels, the limit is {self.limits.total_bytes}")
        kept = tuple(one for one in index.checkpoints if one not in dropped)
        unused = [sha256 for sha256 in self.store.blobs() if not uses[sha256]]
        return replace(index, checkpoints=kept), unused

    def _uses(self, checkpoints: Collection[Checkpoint]) -> Counter[str]:
        """Return how many checkpoints hold each content."""
        uses: Counter[str] = Counter()
        for one in checkpoints:
            uses.update(self._digests(one))
        return uses

    def _release(self, one: Checkpoint, uses: Counter[str]) -> int:
        """Take a checkpoint's uses away and return the bytes of contents nobody uses now."""
        manifest = self.manifest(one.checkpoint_id) or {}
        sizes = {state.sha256: state.bytes for state in manifest.values()}
        freed = 0
        for sha256, size in sizes.items():
            uses[sha256] -= 1
            freed += size if not uses[sha256] else 0
        return freed

    def _digests(self, one: Checkpoint) -> set[str]:
        # Not parsed: pruning reads every manifest there is.
        content = self.store.read(_name(one.checkpoint_id)) or b""
        return {found.decode() for found in _DIGEST.findall(content)}

    def _index(self) -> _Index:
        content = self.store.read(_INDEX)
        if content is None:
            return _Index()
        try:
            return _INDEX_ADAPTER.validate_json(content)
        except ValidationError:
            raise _damaged() from None

    def _write(self, index: _Index) -> None:
        self.store.write(_INDEX, _INDEX_ADAPTER.dump_json(index), durable=True)


def over_limit(how: str) -> SystemFailure:
    """Return the failure for what is too much to keep."""
    return SystemFailure("checkpoint.create_failed", f"The run's checkpoints would have {how}.")


def _document(manifest: Manifest) -> bytes:
    rows = [
        {"path": path, "sha256": state.sha256, "bytes": state.bytes, "mode": state.mode}
        for path, state in sorted(manifest.items())
    ]
    return to_json(rows)


def _name(checkpoint_id: str) -> str:
    return f"{checkpoint_id}.json"


def _damaged() -> SystemFailure:
    return SystemFailure("checkpoint.create_failed", "The run's checkpoints cannot be read.")
