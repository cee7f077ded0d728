"""Answer workspace.write_file: create, replace or append in one step, never over unseen content.

Is: the three modes of semantics 5.4 and their versions. Is not: how a file is replaced
(`run_workspace.py`) or the tool's declaration (`workspace.py`).
Above: `workspace.py`. Below: `run_workspace.py`, `versions.py`, `texts.py`, `diffs.py`.

A change is decided on the version that was known when the call began: of two calls that know the
same version, the second to get the lock is told that its version is stale.
"""

from dataclasses import dataclass
from enum import StrEnum

from toolrail.errors import ToolError
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import Block, EventType, JsonObject, TextBlock, sha256_hex, workspace_ref
from toolrail_workers.builtin.checkpointing import checkpoint_after
from toolrail_workers.builtin.diffs import Difference, make_diff, store_diff
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.run_workspace import (
    HeldFile,
    RunWorkspace,
    stale_file,
    too_large,
)
from toolrail_workers.builtin.texts import TextFile, count_lines, not_text
from toolrail_workers.builtin.versions import Mutation

CONTENT_MAX_BYTES = 512 * 1024


class WriteMode(StrEnum):
    """What happens to what is there."""

    CREATE = "create"
    REPLACE = "replace"
    APPEND = "append"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a call wants written."""

    content: str
    mode: WriteMode
    expected_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """What became of it."""

    facts: JsonObject
    before: bytes | None = None
    after: bytes | None = None
    """None: nothing was changed by this attempt."""


def write_text(
    workspace: RunWorkspace, raw_path: str, wanted: Wanted, context: ToolContext
) -> ToolOutput:
    """Write a text file and return its new version.

    Raises:
        ToolError: By the path rules; `workspace.already_exists`, `write_requires_read`,
            `stale_file`, `read_too_large`; `tool.invalid_arguments`.
        SystemFailure: `checkpoint.create_failed`; the file was written.
    """
    path = workspace.resolve(raw_path, writing=True)
    content = _checked(wanted)
    expected = wanted.expected_sha256
    if expected is None and wanted.mode is WriteMode.REPLACE:
        # Looked up before the lock: a call that ran at the same time must not lend us its version.
        known = workspace.versions.known(path)
        expected = None if known is None else known.sha256
    with workspace.held(path) as held:
        written = _write(workspace, held, wanted, _Call(content, expected, context.call_key))
    if isinstance(written, ToolOutput):
        return written
    return _output(workspace, path, written, context)


@dataclass(frozen=True, slots=True)
class _Call:
    """What a call brings besides its wish."""

    content: bytes
    expected: str | None
    """The version that it may replace."""
    key: str


def _write(
    workspace: RunWorkspace, held: HeldFile, wanted: Wanted, call: _Call
) -> _Written | ToolOutput:
    """Write the file under its lock; an output is the answer that it is no text."""
    path, content = held.path, call.content
    done = workspace.versions.applied(path, call.key, held.sha256)
    if done is not None:
        return _Written(facts=done.facts)
    _refuse_state(held, path, wanted, call.expected)
    if wanted.mode is WriteMode.APPEND and held.sha256 is not None:
        before = held.content
        if before is None:
            raise too_large(path)
        if TextFile.of(before) is None:
            size = len(before)
            return not_text(path, sha256=held.sha256, size=size, start=before[:64])
        content = before + content
    return _apply(workspace, held, wanted.mode, content, call.key)


def _checked(wanted: Wanted) -> bytes:
    try:
        content = wanted.content.encode()
    except UnicodeEncodeError:
        raise ToolError(
            "tool.invalid_arguments",
            "content is not valid Unicode.",
            next_action="Send it without lone surrogates.",
        ) from None
    if wanted.mode is WriteMode.CREATE and wanted.expected_sha256 is not None:
        raise ToolError(
            "tool.invalid_arguments",
            "A file that is created has no expected_sha256.",
            next_action="Leave it out, or use mode replace.",
        )
    if len(content) > CONTENT_MAX_BYTES:
        raise ToolError(
            "tool.invalid_arguments",
            f"content has {len(content)} bytes, the limit is {CONTENT_MAX_BYTES}.",
            next_action="Write the first part, then append the rest.",
        )
    return content


def _refuse_state(held: HeldFile, path: LogicalPath, wanted: Wanted, expected: str | None) -> None:
    if wanted.mode is WriteMode.CREATE and held.sha256 is not None:
        raise _already_exists(path)
    if held.sha256 == sha256_hex(wanted.content.encode()) and wanted.mode is WriteMode.REPLACE:
        # The file is what it shall be; whether its version was known changes nothing.
        return
    if expected is None:
        if wanted.mode is WriteMode.REPLACE and held.sha256 is not None:
            raise ToolError(
                "workspace.write_requires_read",
                f"{str(path)!r} exists and this run has not read it.",
                next_action="Read it first, or pass the expected_sha256 you know it by.",
                structured={"path": str(path)},
            )
        return
    if held.sha256 is None and wanted.expected_sha256 is None:
        # Only remembered, not asked for: the file is gone, so nothing unseen is overwritten.
        return
    if held.sha256 != expected:
        raise stale_file(path, held.sha256)


def _apply(
    workspace: RunWorkspace, held: HeldFile, mode: WriteMode, content: bytes, call_key: str
) -> _Written:
    path = held.path
    after = sha256_hex(content)
    facts: JsonObject = {
        "path": str(path),
        "mode": mode.value,
        "created": held.sha256 is None,
        "bytes": len(content),
        "total_lines": count_lines(content),
        "sha256": after,
        "old_sha256": held.sha256,
        # Made when the change is; see `_output`.
        "checkpoint_id": None,
        "no_change": after == held.sha256,
    }
    whole = mode is not WriteMode.APPEND
    if after == held.sha256:
        if whole:
            workspace.versions.know(path, after)
        return _Written(facts=facts)
    mutation = Mutation(call_key, held.sha256, after, whole=whole, facts=facts)
    changed = _already_exists(path) if mode is WriteMode.CREATE else stale_file(path, None)
    workspace.publish(held, content, mutation, changed=changed)
    return _Written(facts=facts, before=held.content, after=content)


def _output(
    workspace: RunWorkspace, path: LogicalPath, written: _Written, context: ToolContext
) -> ToolOutput:
    facts = written.facts
    sha256 = str(facts["sha256"])
    if facts["no_change"]:
        text = f"{path} already has this content; nothing was written. sha256 {sha256[:12]}"
        return ToolOutput(content=(TextBlock(text=text),), structured=facts)
    verb = "Created" if facts["created"] else _VERBS[str(facts["mode"])]
    text = (
        f"{verb} {path}: {facts['bytes']} bytes, {facts['total_lines']} lines, sha256 {sha256[:12]}"
    )
    blocks: list[Block] = [TextBlock(text=text)]
    refs = [workspace_ref(str(path), sha256=sha256)]
    if written.after is not None:
        change = Difference(path=str(path), before=written.before, after=written.after)
        # An unread file, too large for memory, has no diff; one that was not there has.
        known = written.before is not None or bool(facts["created"])
        diff = store_diff(context, make_diff([change]) if known else None)
        if diff is not None:
            blocks.append(diff)
            refs.append(diff.ref)
    event: JsonObject = {
        "path": str(path),
        "sha256": sha256,
        "bytes": facts["bytes"],
        "old_sha256": facts["old_sha256"],
    }
    taken = checkpoint_after(workspace, context.call_key)
    return ToolOutput(
        content=tuple(blocks),
        structured={**facts, "checkpoint_id": taken.checkpoint_id},
        resource_refs=tuple(refs),
        events=((EventType.WORKSPACE_FILE_WRITTEN, event), *taken.events),
    )


_VERBS = {
    WriteMode.CREATE.value: "Created",
    WriteMode.REPLACE.value: "Replaced",
    WriteMode.APPEND.value: "Appended to",
}


def _already_exists(path: LogicalPath) -> ToolError:
    return ToolError(
        "workspace.already_exists",
        f"{str(path)!r} exists.",
        next_action="Use mode replace after reading it, or choose another path.",
    )
