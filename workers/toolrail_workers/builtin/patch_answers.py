"""Say what a patch has done, or why it has done nothing.

Is: the facts, the text, the events and the words of an error, with what repairs the call (semantics
5.5, 5.5.6). Is not: the patch itself (`patches.py`).
Above: `patches.py`. Below: `patching/`, `diffs.py`, the schemas.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from pydantic import JsonValue
from pydantic_core import to_json

from toolrail.tools import ToolOutput
from toolrail_schemas import (
    Block,
    DiffRefBlock,
    EventType,
    JsonObject,
    TextBlock,
    error_info,
    workspace_ref,
)
from toolrail_workers.builtin.diffs import Difference
from toolrail_workers.builtin.patching.overlay import FileReport, Plan
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.patching.rebuilding import ChunkReport
from toolrail_workers.builtin.patching.tiers import Tier

_TEXT_MAX_CHARS = 2000
"""Of an error. Source: semantics 7."""
_EVENT_FILES_MAX_BYTES = 6 * 1024
"""Of the files that one event names; an event has 8 KiB in all."""
_LETTERS = {"add": "A", "update": "M", "delete": "D", "move": "R"}

Event = tuple[EventType, JsonObject]


def facts_of(plan: Plan, normalized: Sequence[str], *, dry_run: bool) -> JsonObject:
    """Return the structured part of the answer, in the order of the patch."""
    return {
        "files": [_file_facts(file) for file in plan.files],
        "checkpoint_id": None,
        "normalized": [*normalized],
        "dry_run": dry_run,
    }


def differences_of(plan: Plan) -> list[Difference]:
    """Return what became of each file; a file that was only moved is told as moved."""
    moved = {
        file.new_path: file.path
        for file in plan.files
        if file.op == "move" and file.new_path is not None and file.new_path != file.path
    }
    changes = plan.changes
    pairs = {
        target: source
        for target, source in moved.items()
        if source in changes
        and target in changes
        and changes[source].after is None
        and changes[target].before is None
        and changes[target].mode_from == source
    }
    found: list[Difference] = []
    for path, change in changes.items():
        source = pairs.get(path)
        if path in pairs.values() or change.before == change.after:
            continue
        found.append(
            Difference(
                path=str(path),
                old_path=None if source is None else str(source),
                before=change.before if source is None else changes[source].before,
                after=change.after,
            )
        )
    return found


def answer(facts: JsonObject, diff: DiffRefBlock | None, events: Sequence[Event]) -> ToolOutput:
    """Return the answer of a patch that was applied, or tried.

    Args:
        facts: From `facts_of`.
        diff: Where the whole diff is stored.
        events: Of what followed, such as a checkpoint.
    """
    files = cast("list[JsonObject]", facts["files"])
    tolerated = cast("list[str]", facts["normalized"])
    lines = [*map(_line, files), *(f"Tolerated in the patch: {what}." for what in tolerated)]
    if facts["dry_run"]:
        lines.append("Dry run: nothing was changed.")
    blocks: list[Block] = [TextBlock.model_construct(text="\n".join(lines))]
    refs: list[str] = []
    if not facts["dry_run"]:
        refs = [*dict.fromkeys(_refs(files))]
        events = [*_applied(files), *events]
    if diff is not None:
        blocks.append(diff)
        refs.append(diff.ref)
    return ToolOutput(
        content=tuple(blocks), structured=facts, resource_refs=tuple(refs), events=tuple(events)
    )


def told(error: PatchError, *, dry_run: bool) -> PatchError:
    """Return the error with the lines of the file in its text, and the event of the failure."""
    advice = error.next_action or error_info(error.code).remedy
    room = _TEXT_MAX_CHARS - len(advice) - len(error.message) - 2
    lines = _fitting(cast("list[str]", error.facts.get("excerpt") or []), room)
    words = "\n".join((error.message, *lines, advice)) if lines else error.message
    whole = PatchError(
        error.code.removeprefix("patch."),
        words,
        next_action=error.next_action,
        facts=error.facts,
    )
    if not dry_run:
        kept: JsonObject = {
            key: value
            for key, value in error.facts.items()
            if key in ("op", "path", "chunk", "patch_line", "current_sha256")
        }
        whole.events = ((EventType.WORKSPACE_PATCH_FAILED, {"error_code": error.code, **kept}),)
    return whole


def _fitting(lines: Sequence[str], room: int) -> Sequence[str]:
    """Return the middle lines that fit: the place that matters is in the middle."""
    first, last = 0, len(lines)
    while first < last and sum(len(line) + 1 for line in lines[first:last]) > room:
        if (last - first) % 2:
            last -= 1
        else:
            first += 1
    return lines[first:last]


def _file_facts(file: FileReport) -> JsonObject:
    facts: JsonObject = {"op": file.op, "path": str(file.path)}
    if file.new_path is not None:
        facts["new_path"] = str(file.new_path)
    if file.old_sha256 is not None:
        facts["old_sha256"] = file.old_sha256
    if file.new_sha256 is not None:
        facts["new_sha256"] = file.new_sha256
    chunks: list[JsonValue] = [_chunk_facts(chunk) for chunk in file.chunks]
    return {
        **facts,
        "added": file.added,
        "removed": file.removed,
        "eol": file.eol.value,
        "chunks": chunks,
    }


def _chunk_facts(chunk: ChunkReport) -> JsonObject:
    return {
        "index": chunk.index,
        "at_line": chunk.at_line,
        "matched_with": chunk.matched_with.value,
    }


def _line(file: JsonObject) -> str:
    moved = f" -> {file['new_path']}" if "new_path" in file else ""
    line = (
        f"{_LETTERS[str(file['op'])]} {file['path']}{moved} "
        f"(+{file['added']} \N{MINUS SIGN}{file['removed']})"
    )
    loose = [
        f"chunk {chunk['index']} at line {chunk['at_line']} by {chunk['matched_with']}"
        for chunk in cast("list[JsonObject]", file["chunks"])
        if chunk["matched_with"] != Tier.EXACT.value
    ]
    return f"{line}; matched {', '.join(loose)}" if loose else line


def _refs(files: Sequence[JsonObject]) -> Iterator[str]:
    """Yield a ref to each file as the last section of it left it."""
    last: dict[str, str | None] = {}
    for file in files:
        path, sha256 = str(file["path"]), file.get("new_sha256")
        if "new_path" in file:
            last[path] = None
            path = str(file["new_path"])
        last[path] = None if sha256 is None else str(sha256)
    for path, sha256 in last.items():
        if sha256 is not None:
            yield workspace_ref(path, sha256=sha256)


def _applied(files: Sequence[JsonObject]) -> Iterator[Event]:
    """Yield the event of the patch; several, where one could not name all the files."""
    part: list[JsonValue] = []
    size = 0
    for file in files:
        item: JsonObject = {
            key: file[key]
            for key in ("op", "path", "new_path", "old_sha256", "new_sha256", "added", "removed")
            if key in file
        }
        size += len(to_json(item)) + 1
        if part and size > _EVENT_FILES_MAX_BYTES:
            yield EventType.WORKSPACE_PATCH_APPLIED, {"files": part}
            part, size = [], len(to_json(item))
        part.append(item)
    yield EventType.WORKSPACE_PATCH_APPLIED, {"files": part}
