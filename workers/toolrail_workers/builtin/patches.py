"""Answer workspace.apply_patch: understand, check every path, work it out, change all or nothing.

Is: the order of semantics 5.5.5, the memory of files that could not be patched again and again.
Is not: the grammar and the matching (`patching/`), the change itself (`transaction.py`) or the
words of the answer (`patch_answers.py`).
Above: `workspace.py`. Below: those three, `run_workspace.py`.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from toolrail.errors import ToolError
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import JsonObject, sha256_hex
from toolrail_workers.builtin.checkpointing import checkpoint_after
from toolrail_workers.builtin.diffs import make_diff, store_diff
from toolrail_workers.builtin.files import read_whole
from toolrail_workers.builtin.intents import Diff
from toolrail_workers.builtin.patch_answers import answer, differences_of, facts_of, told
from toolrail_workers.builtin.patching.model import FileOp, Format, OpKind
from toolrail_workers.builtin.patching.overlay import NamedOp, NotText, Plan, plan
from toolrail_workers.builtin.patching.parsing import parse_patch
from toolrail_workers.builtin.patching.problems import PatchError
from toolrail_workers.builtin.patching.tiers import Match
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.run_workspace import (
    FILE_MAX_BYTES,
    RunWorkspace,
    stale_file,
    too_large,
)
from toolrail_workers.builtin.survey import survey
from toolrail_workers.builtin.texts import not_text
from toolrail_workers.builtin.transaction import Edit, Effect
from toolrail_workers.builtin.versions import FileMemory

FAILURES_MAX = 3
"""Calls in a row that may fail to patch a file before it must be read again. Source: semantics
5.5.6."""
_NAMES_MAX = 2_000
"""Files among which a similar name is looked for."""
_DIFF_KEPT_MAX = 256 * 1024
"""Characters of a diff that a repeated attempt can store again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a call wants."""

    patch: str
    form: Format | None
    """None: to be found out."""
    match: Match
    dry_run: bool


def apply_patch(workspace: RunWorkspace, request: Request, context: ToolContext) -> ToolOutput:
    """Apply a patch to the files of the workspace, all of it or nothing.

    Raises:
        PatchError: With repair data; nothing was changed.
        ToolError: By the path rules, or `workspace.stale_file`; nothing was changed.
        SystemFailure: `workspace.path_escape`, `rollback_failed`; `checkpoint.create_failed`.
    """
    try:
        return _Call(workspace, request, context).run()
    except PatchError as error:
        raise told(error, dry_run=request.dry_run) from None


class _Call:
    """One call, from its patch to its answer."""

    def __init__(self, workspace: RunWorkspace, request: Request, context: ToolContext) -> None:
        self._workspace = workspace
        self._request = request
        self._context = context
        self._disk = _WorkspaceDisk(workspace)
        self._memory: Mapping[LogicalPath, FileMemory] = {}

    def run(self) -> ToolOutput:
        patch = parse_patch(self._request.patch, self._request.form)
        ops = _named(self._workspace, patch.ops)
        paths = {path for op in ops for path in (op.path, op.move_to) if path is not None}
        with self._workspace.holding(paths):
            done = self._workspace.changes.effect(self._context.call_key)
            if done is None:
                try:
                    planned = self._plan(ops, patch.format)
                except NotText as found:
                    return _not_text(found)
                facts = facts_of(planned, patch.normalized, dry_run=self._request.dry_run)
                diff = make_diff(differences_of(planned))
                if not self._request.dry_run:
                    self._change(planned, facts, diff)
            else:
                facts, diff = done.facts, done.diff
        # Only without the locks: a checkpoint takes all of them.
        return self._answer(facts, diff)

    def _plan(self, ops: Sequence[NamedOp], form: Format) -> Plan:
        versions = self._workspace.versions
        self._memory = versions.remembered([op.path for op in ops])
        for number, op in enumerate(ops, 1):
            failures = self._memory[op.path].failures
            if op.op.kind is OpKind.UPDATE and failures >= FAILURES_MAX:
                raise _requires_full_read(number, op.path)
        try:
            return plan(ops, self._disk, form=form, match=self._request.match)
        except PatchError as error:
            path = error.facts.get("path")
            # What is not there cannot be read, so it is not asked for.
            if isinstance(path, str) and error.facts.get("current_sha256"):
                where = LogicalPath(tuple(path.split("/")))
                versions.failed(where, self._context.call_key, most=FAILURES_MAX)
            raise

    def _change(self, planned: Plan, facts: JsonObject, diff: Diff | None) -> None:
        kept = diff if diff is not None and len(diff.text) <= _DIFF_KEPT_MAX else None
        self._workspace.changes.apply(
            self._edits(planned),
            Effect(call_key=self._context.call_key, facts=facts, diff=kept),
            check_alive=self._context.check_alive,
            changed=lambda path: stale_file(path, None),
        )

    def _edits(self, planned: Plan) -> list[Edit]:
        edits: list[Edit] = []
        for path, change in planned.changes.items():
            source = change.mode_from
            edits.append(
                Edit(
                    path=path,
                    before=change.before_sha256,
                    after=change.after_sha256,
                    content=change.after,
                    mode=None if source is None else self._disk.modes[source],
                    complete=source is None or self._knows(source, planned),
                    respell=change.respelled,
                )
            )
        return edits

    def _knows(self, path: LogicalPath, planned: Plan) -> bool:
        """Return whether the run knows the present version of a file whole."""
        known = self._memory[path].version if path in self._memory else None
        change = planned.changes.get(path)
        before = None if change is None else change.before_sha256
        return known is not None and known.complete and known.sha256 == before

    def _answer(self, facts: JsonObject, diff: Diff | None) -> ToolOutput:
        stored = store_diff(self._context, diff)
        if self._request.dry_run:
            return answer(facts, stored, ())
        taken = checkpoint_after(self._workspace, self._context.call_key)
        return answer({**facts, "checkpoint_id": taken.checkpoint_id}, stored, taken.events)


def _named(workspace: RunWorkspace, ops: Sequence[FileOp]) -> list[NamedOp]:
    """Return the sections with their paths resolved, each looked at before any is used.

    A path to the outside ends the run wherever it stands, so it is looked for in all of them
    before one that is only wrong is told.
    """
    named: list[NamedOp] = []
    wrong: list[ToolError] = []
    for op in ops:
        resolved: list[LogicalPath] = []
        for raw in (op.path, op.move_to):
            if raw is not None:
                try:
                    resolved.append(_resolved(workspace, raw))
                except ToolError as error:
                    wrong.append(error)
        if not wrong:
            named.append(NamedOp(op, resolved[0], resolved[1] if op.move_to is not None else None))
    if wrong:
        raise wrong[0]
    return named


def _resolved(workspace: RunWorkspace, raw: str) -> LogicalPath:
    path = workspace.resolve(raw, writing=True)
    try:
        with workspace.tree.entry(path):
            return path
    except ToolError as error:
        if error.code == "workspace.file_not_found":
            return path
        # A link at the very path is something that is there; the plan says so in its own words.
        if error.code == "workspace.symlink_refused" and not _is_above(error, path):
            return path
        raise


def _is_above(error: ToolError, path: LogicalPath) -> bool:
    """Return whether a link is above the path, or leads to itself."""
    facts = cast("JsonObject", error.structured)
    return bool(facts["loop"]) or str(facts["path"]).count("/") + 1 < len(path.segments)


def _requires_full_read(number: int, path: LogicalPath) -> PatchError:
    return PatchError(
        "requires_full_read",
        f"{FAILURES_MAX} patches in a row did not fit {str(path)!r}.",
        next_action=f"Read all of {str(path)!r} with workspace.read_file, then build the patch "
        "from the lines that are there.",
        facts={"op": number, "path": str(path)},
    )


def _not_text(found: NotText) -> ToolOutput:
    content = found.content
    return not_text(found.path, sha256=sha256_hex(content), size=len(content), start=content[:64])


class _WorkspaceDisk:
    """The files of a workspace, whose locks are held, as a plan reads them."""

    def __init__(self, workspace: RunWorkspace) -> None:
        self._workspace = workspace
        self.modes: dict[LogicalPath, int] = {}
        """Mode of each file that was loaded."""
        self._names: dict[LogicalPath, str] = {}

    def load(self, path: LogicalPath) -> bytes | None:
        tree = self._workspace.tree
        try:
            with tree.entry(path) as entry:
                if entry.status is None:
                    return None
                with tree.file(entry) as descriptor:
                    content = read_whole(descriptor, limit_bytes=FILE_MAX_BYTES)
                self.modes[path] = entry.status.st_mode
                self._names[path] = entry.name
        except ToolError as error:
            if error.code == "workspace.file_not_found":
                return None
            raise
        if content is None:
            raise too_large(path)
        return content

    def names_near(self, path: LogicalPath) -> list[str]:
        roots = [root.name for root in self._workspace.roots.visible]
        roots.sort(key=lambda name: name != path.root)
        found = itertools.islice(survey(self._workspace.tree, roots), _NAMES_MAX)
        return sorted(file.path for file in found)

    def misspelled(self, path: LogicalPath) -> bool:
        return self._names.get(path, path.name) != path.name
