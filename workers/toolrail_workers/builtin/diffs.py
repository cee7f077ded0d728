"""Make the unified diff of one change, when that is cheap, and store it.

Is: a convenience for people who look at a run. Is not: needed for anything; a diff that cannot be
made or stored is left out.
Above: `writing.py`. Below: difflib, the run's blob store.
"""

import difflib
import logging

from toolrail.errors import ToolrailError
from toolrail.tools import ToolContext
from toolrail_schemas import DiffRefBlock, artifact_ref
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.texts import TextFile

_MAX_BYTES = 64 * 1024
_MAX_LINES = 1000
"""difflib compares every line with every other in the worst case."""

log = logging.getLogger(__name__)


def store_diff(
    context: ToolContext, path: LogicalPath, before: bytes | None, after: bytes
) -> DiffRefBlock | None:
    """Return a block that refers to the stored diff, or None where there is none."""
    if context.keep is None or max(len(before or b""), len(after)) > _MAX_BYTES:
        return None
    old, new = TextFile.of(before or b""), TextFile.of(after)
    if old is None or new is None or max(len(old.lines), len(new.lines)) > _MAX_LINES:
        return None
    lines = list(
        difflib.unified_diff(
            old.lines,
            new.lines,
            "/dev/null" if before is None else f"a/{path}",
            f"b/{path}",
            lineterm="",
        )
    )
    try:
        sha256 = context.keep("\n".join(lines).encode() + b"\n", "text/x-diff")
    except (ToolrailError, TimeoutError):
        log.warning("workspace.diff_not_stored", exc_info=True, extra={"run_id": context.run_id})
        return None
    return DiffRefBlock(
        ref=artifact_ref(context.run_id, sha256),
        files=(str(path),),
        added=sum(line.startswith("+") for line in lines[2:]),
        removed=sum(line.startswith("-") for line in lines[2:]),
    )
