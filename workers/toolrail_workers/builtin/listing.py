"""Answer workspace.list_files: what there is, in one stable order, page by page.

Is: the walk of semantics 5.2 in byte order of whole paths, the cursor, the text tree. Is not: the
tool's declaration (`workspace.py`).
Above: `workspace.py`. Below: `run_workspace.py`, `walk.py`.
"""

import base64
import binascii
import contextlib
import heapq
import os
import stat
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from pydantic import TypeAdapter

from toolrail.errors import SystemFailure, ToolError
from toolrail.tools import ToolOutput
from toolrail_schemas import JsonObject, TextBlock
from toolrail_workers.builtin import faults
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.roots import is_temp_name
from toolrail_workers.builtin.run_workspace import RunWorkspace

DEPTH_MAX = 8
LIMIT_MAX = 500

_CURSOR: TypeAdapter[tuple[str, str]] = TypeAdapter(tuple[str, str])
"""The prefix that was listed, and the last path of the page."""


class Kind(StrEnum):
    """What an entry is."""

    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"
    OTHER = "other"
    """A fifo, socket or device, or a name that no path can spell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What was asked for."""

    prefix: str | None = None
    depth: int = 2
    limit: int = 200
    cursor: str | None = None
    include_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """One entry that was found."""

    shown: tuple[str, ...]
    """Its path in NFC, fit to be printed."""
    disk: tuple[str, ...]
    """Its path on disk, by which it is opened."""
    kind: Kind
    size: int | None
    writable: bool

    @property
    def path(self) -> str:
        return "/".join(self.shown)

    @property
    def order(self) -> bytes:
        return self.path.encode()

    def to_json(self) -> JsonObject:
        facts: JsonObject = {"path": self.path, "kind": self.kind.value}
        if self.size is not None:
            facts["bytes"] = self.size
        facts["writable"] = self.writable
        return facts


def list_entries(workspace: RunWorkspace, query: Query) -> ToolOutput:
    """Return one page of what is visible below a prefix.

    Raises:
        ToolError: By the path rules; `workspace.file_not_found`; `tool.invalid_arguments` for a
            cursor of another listing.
    """
    prefix = None if query.prefix is None else workspace.resolve(query.prefix, directory=True)
    after = _read_cursor(query, prefix)
    page: list[_Item] = []
    more = False
    for item in _walk(workspace, query, prefix, after):
        more = len(page) == query.limit
        if more:
            break
        page.append(item)
    cursor = _write_cursor(prefix, page[-1]) if more else None
    facts: JsonObject = {
        "entries": [item.to_json() for item in page],
        "truncated": more,
        "next_cursor": cursor,
    }
    text = _tree(page, prefix)
    if cursor is not None:
        text += f"\n[more entries; call again with cursor={cursor}]"
    return ToolOutput(content=(TextBlock.model_construct(text=text),), structured=facts)


def _walk(
    workspace: RunWorkspace, query: Query, prefix: LogicalPath | None, after: bytes
) -> Iterator[_Item]:
    """Yield the items after `after` in byte order of their whole paths.

    A directory's entries sort behind itself but not right behind it (`a`, `a-b`, `a/x`), so a heap
    holds what is next; a directory is opened only when its turn comes.
    """
    base_depth = 0 if prefix is None else len(prefix.segments)
    heap = [(item.order, item) for item in _start(workspace, query, prefix)]
    heapq.heapify(heap)
    while heap:
        order, item = heapq.heappop(heap)
        if order > after:
            yield item
        inside = item.kind is Kind.DIR and len(item.shown) - base_depth < query.depth
        # `0` is the byte after `/`: everything below the directory sorts before this.
        if inside and order + b"0" > after:
            for below in _below(workspace, item.shown, item.disk, query):
                heapq.heappush(heap, (below.order, below))


def _start(workspace: RunWorkspace, query: Query, prefix: LogicalPath | None) -> Iterator[_Item]:
    if prefix is None:
        for item in _below(workspace, (), (), query):
            if any(root.name == item.shown[0] for root in workspace.roots.visible):
                yield item
        return
    try:
        with workspace.tree.entry(prefix) as entry:
            status, disk = entry.status, (*entry.above, entry.name)
    except ToolError as error:
        # A visible root that was never made is empty, not missing.
        if error.code == "workspace.file_not_found" and len(prefix.segments) == 1:
            return
        raise
    if status is None:
        if len(prefix.segments) > 1:
            raise faults.file_not_found(str(prefix))
    elif stat.S_ISDIR(status.st_mode):
        yield from _below(workspace, prefix.segments, disk, query)
    else:
        yield _item(workspace, prefix.segments, disk, status)


def _below(
    workspace: RunWorkspace, shown: tuple[str, ...], disk: tuple[str, ...], query: Query
) -> Iterator[_Item]:
    """Yield the entries of one directory; none if it went away or became a link meanwhile."""
    try:
        with workspace.tree.directory(disk) as descriptor:
            for name, on_disk in _names(os.listdir(descriptor)):
                if is_temp_name(name) or (name.startswith(".") and not query.include_hidden):
                    continue
                path = (*shown, name)
                if on_disk is None:
                    yield _item(workspace, path, disk, None)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(on_disk, dir_fd=descriptor, follow_symlinks=False)
                    yield _item(workspace, path, (*disk, on_disk), status)
    except (ToolError, SystemFailure) as error:
        if error.code == "workspace.io_failed":
            raise


def _names(names: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield each name as it is shown, with its name on disk, or None if no path can spell it.

    Names that are the same in NFC give one entry, as they are one path: the exact one, or, when
    none is exact and a path would find several, one that cannot be opened.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_printable(name), []).append(name)
    for shown, same in groups.items():
        chosen = shown if shown in same else same[0] if len(same) == 1 else None
        if chosen is not None and unicodedata.normalize("NFC", chosen) != shown:
            chosen = None
        yield shown, chosen


def _printable(name: str) -> str:
    """Return the name in NFC, with a replacement for what has no place in a path."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return "".join(
        "\ufffd" if char == "\\" or unicodedata.category(char) == "Cc" else char
        for char in unicodedata.normalize("NFC", text)
    )


def _item(
    workspace: RunWorkspace,
    shown: tuple[str, ...],
    disk: tuple[str, ...],
    status: os.stat_result | None,
) -> _Item:
    kind = Kind.OTHER if status is None else _kind_of(status.st_mode)
    size = status.st_size if status is not None and kind is Kind.FILE else None
    writable = kind in (Kind.FILE, Kind.DIR) and workspace.roots.is_writable(shown[0])
    return _Item(shown=shown, disk=disk, kind=kind, size=size, writable=writable)


def _kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    if stat.S_ISDIR(mode):
        return Kind.DIR
    return Kind.SYMLINK if stat.S_ISLNK(mode) else Kind.OTHER


def _tree(page: list[_Item], prefix: LogicalPath | None) -> str:
    """Return the page as a tree; an entry whose parent is on another page has its whole path."""
    top = 0 if prefix is None else len(prefix.segments)
    printed: set[tuple[str, ...]] = set()
    lines: list[str] = []
    for item in sorted(page, key=lambda item: item.shown):
        parent = item.shown[:-1]
        nested = parent in printed
        name = item.shown[-1] if nested else item.path
        indent = "  " * (len(item.shown) - top - 1) if nested else ""
        lines.append(f"{indent}{name}{_SUFFIX[item.kind]}")
        printed.add(item.shown)
    return "\n".join(lines) or "(no entries)"


_SUFFIX = {Kind.FILE: "", Kind.DIR: "/", Kind.SYMLINK: " (symlink)", Kind.OTHER: " (not a file)"}


def _write_cursor(prefix: LogicalPath | None, last: _Item) -> str:
    told = _CURSOR.dump_json((str(prefix or ""), last.path))
    return base64.urlsafe_b64encode(told).decode("ascii").rstrip("=")


def _read_cursor(query: Query, prefix: LogicalPath | None) -> bytes:
    """Return the path after which the page begins. It only skips, so it needs no signature."""
    if query.cursor is None:
        return b""
    padded = query.cursor + "=" * (-len(query.cursor) % 4)
    with contextlib.suppress(binascii.Error, ValueError):
        told_prefix, after = _CURSOR.validate_json(base64.urlsafe_b64decode(padded))
        if told_prefix == str(prefix or ""):
            return after.encode()
    raise ToolError(
        "tool.invalid_arguments",
        "The cursor is not one of this listing.",
        next_action="Repeat the call with the same prefix and the next_cursor it gave, or none.",
    )
