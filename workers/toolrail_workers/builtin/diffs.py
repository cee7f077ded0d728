r"""Write the unified diff of changes down, as git would, and store it.

Is: lines that were kept, hunks, and the headers that `git apply` reads. Is not: needed for
anything; a diff that cannot be made or stored is left out.
Above: `writing.py`, `patches.py`. Below: `matching.py`, the run's blob store.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolrail.errors import ToolrailError
from toolrail.tools import ToolContext
from toolrail_schemas import DiffRefBlock, artifact_ref
from toolrail_workers.builtin.intents import Diff
from toolrail_workers.builtin.matching import Block, matching_blocks
from toolrail_workers.builtin.texts import TextFile, split_lines

_MAX_BYTES = 4 * 1024 * 1024
"""Of both sides of a change; a larger one has no diff."""
_CONTEXT = 3
_FILES_MAX = 50
_NAME_MAX = 256
"""Of a stored diff's files. Source: `DiffRefBlock`."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What became of one file."""

    path: str
    old_path: str | None = None
    """Where it was before it was moved; None: at `path`."""
    before: bytes | None
    """None: there was no file."""
    after: bytes | None
    """None: there is none any more."""


def make_diff(differences: Sequence[Difference]) -> Diff | None:
    """Return the diff of a change, or None if it is too large to be worth it."""
    size = sum(len(one.before or b"") + len(one.after or b"") for one in differences)
    if size > _MAX_BYTES:
        return None
    text: list[str] = []
    lines: list[str] = []
    for one in differences:
        hunks = _hunks_of(one)
        text += _headers(one, has_hunks=bool(hunks))
        text += hunks
        lines += hunks
    return Diff(
        text="".join(text),
        files=tuple(one.path for one in differences),
        added=sum(line.startswith("+") for line in lines),
        removed=sum(line.startswith("-") for line in lines),
    )


def store_diff(context: ToolContext, diff: Diff | None) -> DiffRefBlock | None:
    """Return a block that refers to the stored diff, or None where there is none."""
    if context.keep is None or diff is None:
        return None
    try:
        sha256 = context.keep(diff.text.encode(), "text/x-diff")
    except (ToolrailError, TimeoutError):
        log.warning("workspace.diff_not_stored", exc_info=True, extra={"run_id": context.run_id})
        return None
    return DiffRefBlock(
        ref=artifact_ref(context.run_id, sha256),
        files=tuple(map(_short, diff.files[:_FILES_MAX])),
        added=diff.added,
        removed=diff.removed,
    )


def _short(path: str) -> str:
    return path if len(path) <= _NAME_MAX else "…" + path[1 - _NAME_MAX :]


def _headers(one: Difference, *, has_hunks: bool) -> Iterator[str]:
    old_path = one.old_path or one.path
    old, new = _name("a", old_path), _name("b", one.path)
    yield f"diff --git {old} {new}\n"
    if one.before is None:
        yield "new file mode 100644\n"
    elif one.after is None:
        yield "deleted file mode 100644\n"
    if old_path != one.path:
        yield f"rename from {_name('', old_path)}\nrename to {_name('', one.path)}\n"
    if has_hunks:
        yield f"--- {'/dev/null' if one.before is None else _ended(old)}\n"
        yield f"+++ {'/dev/null' if one.after is None else _ended(new)}\n"
    elif (one.before or b"") != (one.after or b""):
        yield f"Binary files {old} and {new} differ\n"


def _hunks_of(one: Difference) -> list[str]:
    """Return the lines of all hunks of a change of text; none where a side is no text."""
    if one.before == one.after:
        return []
    before, after = TextFile.of(one.before or b""), TextFile.of(one.after or b"")
    if before is None or after is None:
        return []
    old, new = split_lines(before.content.decode()), split_lines(after.content.decode())
    return [line for hunk in _hunks(old, new) for line in hunk]


def _name(side: str, path: str) -> str:
    name = f"{side}/{path}" if side else path
    return name if '"' not in path else '"' + name.replace('"', '\\"') + '"'


def _ended(name: str) -> str:
    """A tab ends a name with a space in it."""
    return f"{name}\t" if " " in name and not name.startswith('"') else name


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[str]]:
    """Yield the hunks, each with its header, of what lies between the lines that stayed."""
    group: list[tuple[int, int, int, int]] = []
    for change in _changes(matching_blocks(old, new), len(old), len(new)):
        if group and change[0] - group[-1][1] > 2 * _CONTEXT:
            yield _hunk(old, new, group)
            group = []
        group.append(change)
    if group:
        yield _hunk(old, new, group)


def _changes(
    blocks: Sequence[Block], old_end: int, new_end: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield what lies between blocks: old start and stop, new start and stop."""
    at, to = 0, 0
    for block in (*blocks, Block(old_end, new_end, 0)):
        if block.old > at or block.new > to:
            yield at, block.old, to, block.new
        at, to = block.old + block.size, block.new + block.size


def _hunk(
    old: Sequence[str], new: Sequence[str], group: Sequence[tuple[int, int, int, int]]
) -> list[str]:
    lead = min(_CONTEXT, group[0][0])
    tail = min(_CONTEXT, len(old) - group[-1][1])
    at, stop = group[0][0] - lead, group[-1][1] + tail
    to, end = group[0][2] - lead, group[-1][3] + tail
    lines = [f"@@ -{_range(at, stop)} +{_range(to, end)} @@\n"]
    for start, behind, first, last in group:
        lines += (_line(" ", line) for line in old[at:start])
        lines += (_line("-", line) for line in old[start:behind])
        lines += (_line("+", line) for line in new[first:last])
        at = behind
    lines += (_line(" ", line) for line in old[at:stop])
    return lines


def _line(prefix: str, line: str) -> str:
    ended = line.endswith("\n")
    return f"{prefix}{line}" if ended else f"{prefix}{line}\n\\ No newline at end of file\n"


def _range(start: int, stop: int) -> str:
    count = stop - start
    first = start + 1 if count else start
    return str(first) if count == 1 else f"{first},{count}"
