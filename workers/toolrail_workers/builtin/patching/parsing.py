"""Parse a patch of either format.

Is: the choice of the format, the limits of a patch. Is not: a grammar.
Above: `overlay.py`, `workspace.apply_patch`. Below: `wrapping.py`, `v4a.py`, `unified.py`.
"""

from collections.abc import Sequence

from toolrail_workers.builtin.patching.hunks import is_file_header
from toolrail_workers.builtin.patching.model import (
    CHUNKS_MAX,
    OPS_MAX,
    PATCH_MAX_BYTES,
    PATCH_MAX_LINES,
    FileOp,
    Format,
    Patch,
)
from toolrail_workers.builtin.patching.problems import PatchError, malformed
from toolrail_workers.builtin.patching.unified import parse_unified
from toolrail_workers.builtin.patching.v4a import BEGIN, END, parse_v4a, truncated
from toolrail_workers.builtin.patching.wrapping import Numbered, trimmed, unwrap


def parse_patch(patch: str, wanted: Format | None = None) -> Patch:
    """Return what a patch asks for.

    Args:
        patch: As the model wrote it.
        wanted: Its format; None finds out.

    Raises:
        PatchError: `patch.malformed`, `truncated`, `empty`, `empty_update`, `too_large`,
            `unsupported` or `out_of_order`.
    """
    _refuse_size(patch)
    marks = {line.strip() for line in patch.split("\n")}
    if wanted is not Format.UNIFIED and BEGIN in marks and END not in marks:
        raise truncated()
    unwrapped = unwrap(patch)
    form = wanted or _format_of(unwrapped.lines)
    ops = (parse_v4a if form is Format.V4A else parse_unified)(unwrapped.lines)
    _refuse_many(ops)
    return Patch(format=form, ops=ops, normalized=unwrapped.normalized)


def _format_of(lines: Sequence[Numbered]) -> Format:
    inside = trimmed(lines, " \t\r")
    if inside and inside[0].text.strip() == BEGIN:
        return Format.V4A
    for at, line in enumerate(lines):
        if line.text.startswith("diff --git ") or is_file_header(lines, at):
            return Format.UNIFIED
        if line.text.strip() == BEGIN:
            raise malformed(
                lines[0].number,
                f"text before `{BEGIN}`.",
                "Send only the patch, without anything around it.",
            )
    if not inside:
        raise PatchError("empty", "The patch is empty.")
    raise malformed(
        lines[0].number,
        "neither a patch envelope nor a unified diff.",
        f"Start with `{BEGIN}`, or with `--- a/path` and `+++ b/path`.",
    )


def _refuse_size(patch: str) -> None:
    size = len(patch.encode("utf-8", "surrogatepass"))
    if size > PATCH_MAX_BYTES:
        raise PatchError(
            "too_large", f"The patch has {size} bytes, the limit is {PATCH_MAX_BYTES}."
        )
    lines = patch.count("\n") + 1
    if lines > PATCH_MAX_LINES:
        raise PatchError(
            "too_large", f"The patch has {lines} lines, the limit is {PATCH_MAX_LINES}."
        )


def _refuse_many(ops: Sequence[FileOp]) -> None:
    if len(ops) > OPS_MAX:
        raise PatchError("too_large", f"The patch has {len(ops)} sections, the limit is {OPS_MAX}.")
    for op in ops:
        if len(op.chunks) > CHUNKS_MAX:
            raise PatchError(
                "too_large",
                f"The section at line {op.number} of the patch has {len(op.chunks)} chunks, "
                f"the limit is {CHUNKS_MAX}.",
                facts={"patch_line": op.number},
            )
