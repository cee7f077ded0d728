"""Apply a patch to files in memory, for the tests of the engine.

Is: `MemoryDisk`, and helpers that give the new content or the error. Is not: a workspace.
Above: the patch tests. Below: `toolrail_workers.builtin.patching`.
"""

import pytest

from toolrail_workers.builtin.patching.model import Format
from toolrail_workers.builtin.patching.overlay import NamedOp, Plan, plan
from toolrail_workers.builtin.patching.parsing import parse_patch
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.patching.tiers import Match
from toolrail_workers.builtin.paths import LogicalPath, parse_path

Files = dict[str, bytes]


class MemoryDisk:
    """Files by path."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def load(self, path: LogicalPath) -> bytes | None:
        return self.files.get(str(path))

    def names_near(self, path: LogicalPath) -> list[str]:
        return sorted(self.files)

    def misspelled(self, path: LogicalPath) -> bool:
        return False


def planned(
    patch: str, files: Files, *, match: Match = Match.DEFAULT, form: Format | None = None
) -> Plan:
    """Return what a patch comes to over `files`."""
    parsed = parse_patch(patch, form)
    ops = [
        NamedOp(op, parse_path(op.path), None if op.move_to is None else parse_path(op.move_to))
        for op in parsed.ops
    ]
    return plan(ops, MemoryDisk(files), form=parsed.format, match=match)


def applied(
    patch: str, files: Files, *, match: Match = Match.DEFAULT, form: Format | None = None
) -> Files:
    """Return all files after a patch."""
    after = dict(files)
    for path, change in planned(patch, files, match=match, form=form).changes.items():
        if change.after is None:
            del after[str(path)]
        else:
            after[str(path)] = change.after
    return after


def refused(patch: str, files: Files, *, match: Match = Match.DEFAULT) -> PatchError:
    """Return the error with which a patch is refused."""
    with pytest.raises(PatchError) as caught:
        planned(patch, files, match=match)
    return caught.value


def envelope(*lines: str) -> str:
    """Return a patch in the envelope."""
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch")) + "\n"


def update(*lines: str, path: str = "output/a.txt") -> str:
    """Return a patch that updates one file."""
    return envelope(f"*** Update File: {path}", *lines)


def updated(content: bytes, *lines: str, match: Match = Match.DEFAULT) -> bytes:
    """Return what an update makes of one file."""
    return applied(update(*lines), {"output/a.txt": content}, match=match)["output/a.txt"]


def refusal(content: bytes, *lines: str, match: Match = Match.DEFAULT) -> PatchError:
    """Return the error with which an update of one file is refused."""
    return refused(update(*lines), {"output/a.txt": content}, match=match)
