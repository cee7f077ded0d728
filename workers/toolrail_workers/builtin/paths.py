"""Read a path as a model writes it, and say what is wrong with it before anything is touched.

Is: the path grammar of semantics 5.1, purely on text: what points outside the workspace ends the
run, what is only malformed is told to the model. Is not: visibility (`roots.py`) or the file
system (`walk.py`), where symlinks are judged.
Above: every workspace tool. Below: `faults.py`.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from toolrail.errors import ToolError
from toolrail_workers.builtin.faults import path_escape

PATH_MAX_BYTES = 512
PATH_MAX_SEGMENTS = 32
SEGMENT_MAX_BYTES = 255
ALIAS = "/workspace"
"""What tool descriptions call the top of the workspace; an absolute path under it is explained."""

_DRIVE = re.compile(r"[A-Za-z]:")
_FILE_URL = re.compile(r"file:", re.IGNORECASE)
_DEVICE = re.compile(
    r"(?:CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|COM[0-9¹²³]|LPT[0-9¹²³]) *(?:[.:].*)?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, order=True)
class LogicalPath:
    """A well-formed path below the workspace's top, in NFC. Equal paths name the same file."""

    segments: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(self.segments)

    @property
    def root(self) -> str:
        """The name of the top-level folder."""
        return self.segments[0]

    @property
    def name(self) -> str:
        """The last segment."""
        return self.segments[-1]


def parse_path(raw: str, *, host_roots: Sequence[str] = (), directory: bool = False) -> LogicalPath:
    r"""Return the logical path that `raw` spells.

    Args:
        raw: What the model wrote. `\` counts as `/`.
        host_roots: Absolute host paths of the run's workspace; a path under one of them is a
            mistake that can be corrected, not an escape.
        directory: Whether a trailing `/` is fine, because a directory is meant.

    Raises:
        SystemFailure: `workspace.path_escape`, it points outside the workspace.
        ToolError: `workspace.invalid_path`, malformed but not pointing outside.
    """
    path = unicodedata.normalize("NFC", raw.replace("\\", "/"))
    # Where a path points is judged before how it is spelled: a path that is too long and climbs
    # out is an attempt to get out, and ends the run.
    _refuse_escape(path, host_roots)
    _refuse_characters(path)
    segments = tuple(_parts(path))
    _refuse_spelling(path, segments, directory=directory)
    return LogicalPath(segments)


def is_device_name(segment: str) -> bool:
    """Return whether Windows would open a device instead of a file of this name."""
    return _DEVICE.fullmatch(segment) is not None


def _refuse_escape(path: str, host_roots: Sequence[str]) -> None:
    if _DRIVE.match(path) or _FILE_URL.match(path):
        raise path_escape()
    if not path.startswith("/"):
        if _climbs(path):
            raise path_escape()
        return
    if not _parts(path):
        return  # `/` and `//` name nothing, which is told as such later.
    inside = next((rest for root in (ALIAS, *host_roots) if (rest := _below(path, root))), None)
    if inside is None:
        raise path_escape()
    raise _absolute(inside)


def _below(path: str, root: str) -> str | None:
    """Return the part of `path` under `root` as `./rest`, or None if it is elsewhere."""
    wanted, found = _parts(root), _parts(path)
    if not wanted or found[: len(wanted)] != wanted:
        return None
    rest = "/".join(found[len(wanted) :])
    return None if _climbs(rest) else f"./{rest}"


def _climbs(path: str) -> bool:
    depth = 0
    for part in _parts(path):
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _refuse_characters(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise _invalid(
            "The path is not valid Unicode.", "Send it without lone surrogates."
        ) from None
    if any(unicodedata.category(character) == "Cc" for character in path):
        raise _invalid(
            "The path holds a NUL or another control character.",
            "Leave control characters out; a path is one line of text.",
        )


def _refuse_spelling(path: str, segments: tuple[str, ...], *, directory: bool) -> None:
    if not segments:
        raise _invalid(
            "The path names nothing.", "Give a path such as output/report.md, without a leading /."
        )
    if ".." in segments:
        raise _invalid("The path contains `..`.", "Write the path from the workspace's top down.")
    if _DRIVE.match(segments[0]) or _FILE_URL.match(segments[0]):
        raise _invalid("A path does not start like a drive or a URL.", "Choose another name.")
    if segments[0].startswith("~"):
        raise _invalid("A path does not start with `~`.", "Write it from the workspace's top down.")
    if not directory and path.endswith(("/", "/.")):
        raise _invalid("The path ends like a directory, but a file is needed.", "Name a file.")
    device = next(filter(is_device_name, segments), None)
    if device is not None:
        raise _invalid(f"{device!r} is a device name on some systems.", "Choose another name.")
    _refuse_size(segments)


def _refuse_size(segments: tuple[str, ...]) -> None:
    if len(segments) > PATH_MAX_SEGMENTS:
        raise _invalid(
            f"The path has {len(segments)} parts, the limit is {PATH_MAX_SEGMENTS}.",
            "Use fewer nested directories.",
        )
    if any(len(segment.encode()) > SEGMENT_MAX_BYTES for segment in segments):
        raise _invalid(
            f"A part of the path is longer than {SEGMENT_MAX_BYTES} bytes.", "Use a shorter name."
        )
    size = len("/".join(segments).encode())
    if size > PATH_MAX_BYTES:
        raise _invalid(
            f"The path has {size} bytes, the limit is {PATH_MAX_BYTES}.", "Use shorter names."
        )


def _absolute(inside: str) -> ToolError:
    """Build the answer to an absolute path that stays inside, with the relative one to use."""
    relative = "/".join(_parts(inside))
    if not relative or ".." in relative.split("/"):
        return _invalid("Paths are relative.", "Write the path from the workspace's top down.")
    shown = relative if len(relative) <= PATH_MAX_BYTES else f"{relative[:60]}…"
    return ToolError(
        "workspace.invalid_path",
        "Paths are relative to the workspace's top.",
        next_action=f"Use {shown!r}.",
        structured={"use": shown},
    )


def _invalid(problem: str, fix: str) -> ToolError:
    return ToolError("workspace.invalid_path", problem, next_action=fix)
