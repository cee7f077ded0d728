"""Go over all files of a workspace quickly, following no link.

Is: one pass by descriptors over regular files that a path can name. Is not: the listing a model
sees (`listing.py`), which is ordered, paged and shows what is no file.
Above: `patches.py`, `checkpoints.py`. Below: `walk.py`.
"""

import contextlib
import os
import unicodedata
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

from toolrail.errors import SystemFailure, ToolError
from toolrail_workers.builtin.paths import PATH_MAX_SEGMENTS
from toolrail_workers.builtin.roots import is_temp_name
from toolrail_workers.builtin.walk import Tree

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file."""

    path: str
    """Its logical path, in NFC."""
    parent: int
    """Descriptor of its directory, open until the next file is asked for."""
    name: str
    """Its name on disk."""
    status: os.stat_result


def survey(tree: Tree, roots: Iterable[str]) -> Iterator[Found]:
    """Yield every file below these top-level folders, in no order."""
    for root in roots:
        with contextlib.ExitStack() as stack:
            try:
                descriptor = stack.enter_context(tree.directory((root,)))
            except (ToolError, SystemFailure) as error:
                if error.code == "workspace.io_failed":
                    raise
                # Not made yet, or a link: what no tool can reach is no part of the workspace.
                continue
            yield from _below(descriptor, root, 1)


def _below(directory: int, above: str, depth: int) -> Generator[Found]:
    with os.scandir(directory) as entries:
        for entry in entries:
            name = _spelled(entry.name)
            if name is None or depth >= PATH_MAX_SEGMENTS:
                continue
            path = f"{above}/{name}"
            # Whatever goes away while it is looked at was not there.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if entry.is_file(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    yield Found(path, directory, entry.name, status)
                elif entry.is_dir(follow_symlinks=False):
                    yield from _inside(entry.name, directory, path, depth)


def _inside(name: str, directory: int, path: str, depth: int) -> Generator[Found]:
    try:
        below = os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError:
        # It became something else since the directory was read.
        return
    try:
        yield from _below(below, path, depth + 1)
    finally:
        os.close(below)


def _spelled(name: str) -> str | None:
    """Return the segment that names an entry, or None if no path can."""
    if is_temp_name(name):
        return None
    if name.isascii():
        return name if name.isprintable() and "\\" not in name else None
    try:
        name.encode()
    except UnicodeEncodeError:
        return None
    segment = unicodedata.normalize("NFC", name)
    controls = any(unicodedata.category(char) == "Cc" for char in segment)
    return None if controls or "\\" in segment else segment
