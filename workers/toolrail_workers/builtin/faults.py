"""Say what went wrong with a file, in the codes of semantics 7 and without host paths.

Is: the errors that several modules of this package raise, spelled once. Is not: a decision when
to raise them.
Above: everything here that touches the disk. Below: `toolrail.errors`.
"""

import contextlib
import errno
import os
from collections.abc import Generator

from toolrail.errors import SystemFailure, ToolError


def path_escape() -> SystemFailure:
    """Return the failure for a path or link that points outside the workspace."""
    return SystemFailure("workspace.path_escape", "The path points outside the workspace.")


def symlink_refused(path: str, *, loop: bool = False) -> ToolError:
    """Return the error for a symlink that stays inside; it is never followed.

    Args:
        path: Where it is.
        loop: Whether it leads to itself.
    """
    return ToolError(
        "workspace.symlink_refused",
        f"{path!r} is a symlink{' to itself' if loop else ''}, and symlinks are not followed.",
        next_action="Use the real path; list_files shows links as such.",
        structured={"path": path, "loop": loop},
    )


def file_not_found(path: str) -> ToolError:
    """Return the error for a path at which there is nothing."""
    return ToolError(
        "workspace.file_not_found",
        f"There is no {path!r}.",
        next_action="Call workspace.list_files to see what there is.",
    )


def path_is_directory(path: str) -> ToolError:
    """Return the error for a directory where a file is needed."""
    return ToolError(
        "workspace.path_is_directory",
        f"{path!r} is a directory.",
        next_action="Name a file, or call workspace.list_files with this prefix.",
    )


def not_a_directory(path: str) -> ToolError:
    """Return the error for a file in the place of a directory."""
    return ToolError(
        "workspace.not_a_directory",
        f"{path!r} is a file, so nothing can be below it.",
        next_action="Correct the path, or choose another directory.",
    )


def not_regular_file(path: str) -> ToolError:
    """Return the error for a fifo, socket or device."""
    return ToolError(
        "workspace.not_regular_file",
        f"{path!r} is not a regular file.",
        next_action="Use another file; this one cannot be read or written.",
    )


def io_failed(error: OSError) -> SystemFailure:
    """Return the failure for what the operating system refused: disk full, EIO, permission."""
    name = errno.errorcode.get(error.errno or 0, "unknown")
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return SystemFailure("workspace.io_failed", f"The workspace's disk failed: {reason} ({name}).")


@contextlib.contextmanager
def io_failures() -> Generator[None]:
    """Turn every `OSError` that nobody understood into `workspace.io_failed`."""
    try:
        yield
    except OSError as error:
        raise io_failed(error) from error


def rollback_failed(why: str) -> SystemFailure:
    """Return the failure for a change that stopped midway and could not be taken back."""
    return SystemFailure(
        "workspace.rollback_failed",
        f"A change of several files stopped midway and could not be taken back: {why}. What the "
        "files held before is kept.",
    )
