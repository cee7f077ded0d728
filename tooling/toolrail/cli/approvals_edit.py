"""Edit a call's arguments and approve it with them.

Is: the way from the arguments as they stand over `--set`, a file or an editor to a difference that
a person confirms. Is not: the check of the edit by schema and policy (`toolrail.approvals`).
Above: `approvals.py`. Below: `editor.py`, `approvals_diff.py`, `approvals_decide.py`.

What was typed in the editor is not lost: a refusal is told, and the same text can be edited again.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import typer
from pydantic import JsonValue

from toolrail import exit_codes
from toolrail.approvals import Decision, conflict_with
from toolrail.cli.approvals_decide import Deciding, approve, confirm, nothing, tell
from toolrail.cli.approvals_diff import diff_lines, same
from toolrail.cli.approvals_words import left_words, name_words
from toolrail.cli.editor import edit_text
from toolrail.cli.options import UsageError
from toolrail.cli.plain import columns, json_lines, plain, said
from toolrail.errors import (
    AdmissionClosed,
    ApprovalRefused,
    InvalidArguments,
    RedisError,
    RedisUnavailable,
)
from toolrail.validation import parse_arguments
from toolrail_schemas import ApprovalRecord, ApprovalScope, ApprovalState

FILE_NAME = "arguments.json"
_COMMENT = "#"
_UNCONFIRMED = "Not confirmed."
_REPAIRABLE = (ApprovalRefused, InvalidArguments, RedisUnavailable, AdmissionClosed)
"""What another edit, or only another try, may pass."""

Arguments = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """What the command line says of the new arguments; without either they are typed."""

    sets: Mapping[str, JsonValue]
    text: str | None
    is_confirmed: bool
    scope: ApprovalScope = ApprovalScope.ONCE

    @property
    def is_typed(self) -> bool:
        """Whether a person types the arguments in an editor."""
        return self.text is None and not self.sets


def parse_sets(given: Sequence[str]) -> dict[str, JsonValue]:
    """Return the values of `--set key=json`.

    Raises:
        UsageError: No `=`, no key, a key twice, or no JSON after it.
    """
    out: dict[str, JsonValue] = {}
    for item in given:
        key, equals, text = item.partition("=")
        if not key or not equals or key in out:
            fix = "Write --set KEY=JSON, each key once."
            raise UsageError(f"{plain(item[:80])!r} sets nothing.", fix=fix, key="--set")
        try:
            out[key] = json.loads(text)
        except (ValueError, RecursionError):
            fix = f"Text needs its quotes too, such as --set '{plain(key)}=\"…\"'."
            raise UsageError(
                f"the value of {plain(key)!r} is no JSON.", fix=fix, key="--set"
            ) from None
    return out


def edit(world: Deciding, record: ApprovalRecord, wanted: Edit) -> Decision:
    """The call is queued with the person's arguments.

    Raises:
        CommandExit: The person gave up, or changed nothing.
        ToolrailError: As `Approvals.approve`.
    """
    if wanted.is_typed:
        if record.state is not ApprovalState.PENDING:
            raise conflict_with(record)
        world.approvals.check_decider(record.approval_id, by=world.by)
    old = world.approvals.arguments(record.approval_id)
    if wanted.is_typed:
        return _typed(world, record, old, wanted)
    new = parse_arguments({**old, **wanted.sets} if wanted.text is None else wanted.text)
    decision = _confirmed(world, record, old, new, wanted)
    if decision is None:
        raise nothing(_UNCONFIRMED)
    return decision


def _typed(world: Deciding, record: ApprovalRecord, old: Arguments, wanted: Edit) -> Decision:
    """Edit, confirm and approve, again and again until it is through or the person gives up."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise nothing(
            "There is no terminal to edit on; use --set or --file, and --yes.",
            code=exit_codes.USAGE,
        )
    body, why = "\n".join(json_lines(dict(old))), ""
    while True:
        head = _header(record, left=_left(world, record), why=why)
        body = _without_comments(edit_text(f"{head}\n{body}\n", name=FILE_NAME))
        if not body.strip():
            raise nothing("The text is empty.")
        try:
            decision = _confirmed(world, record, old, parse_arguments(body), wanted)
            if decision is not None:
                return decision
            why = ""
        except _REPAIRABLE as error:
            tell(world.named(record), error)
            why = error.message
        if not confirm("Edit again?", default=bool(why)):
            raise nothing(_UNCONFIRMED)


def _confirmed(
    world: Deciding, record: ApprovalRecord, old: Arguments, new: Arguments, wanted: Edit
) -> Decision | None:
    """Show what changes and approve; None when the person says no."""
    if record.state is ApprovalState.PENDING:
        if same(old, new):
            raise nothing("The arguments are unchanged; `approve` takes them as they are.")
        if not world.as_json:
            _show_difference(world, record, old, new)
        if not wanted.is_confirmed and not _says_yes(world):
            return None
    text = json.dumps(dict(new), ensure_ascii=False)
    return approve(world, record, wanted.scope, text)


def _show_difference(
    world: Deciding, record: ApprovalRecord, old: Arguments, new: Arguments
) -> None:
    typer.echo(f"{world.named(record)}  with these changes:")
    try:
        shown_old = world.approvals.redacted(record.approval_id, dict(old))
        shown_new = world.approvals.redacted(record.approval_id, dict(new))
    except ApprovalRefused as error:
        # Without the definition nobody knows what is secret: only keys are safe to show.
        typer.echo(f"  {plain(error.message)}")
        changed = [key for key in {**old, **new} if not same(_member(old, key), _member(new, key))]
        typer.echo(f"  changed: {', '.join(said(key) for key in changed)}")
        return
    lines = diff_lines(old, new, shown_old=shown_old, shown_new=shown_new, width=columns())
    for line in lines:
        typer.echo(line)


def _member(arguments: Arguments, key: str) -> dict[str, JsonValue]:
    return {key: arguments[key]} if key in arguments else {}


def _says_yes(world: Deciding) -> bool:
    if not sys.stdin.isatty():
        raise nothing("Say --yes where nobody can be asked.", code=exit_codes.USAGE)
    return confirm(f"Approve with these arguments as {plain(world.by)}?")


def _header(record: ApprovalRecord, *, left: str, why: str) -> str:
    lines = [
        f"The arguments of {name_words(record)}, {said(record.title)}, as JSON.",
        plain(record.policy_reason),
        f"The question stands for {left} more.",
        "Change them, save and leave. An empty text changes and decides nothing.",
    ]
    if why:
        lines += ["", "It was refused like this:", *map(plain, why.splitlines())]
    return "\n".join(f"{_COMMENT} {line}".rstrip() for line in lines)


def _without_comments(text: str) -> str:
    """Return the text without lines that begin with #, which no line of JSON does."""
    # Not `splitlines`, which also ends a line at characters that may stand in a string.
    kept = [line for line in text.split("\n") if not line.lstrip().startswith(_COMMENT)]
    return "\n".join(kept)


def _left(world: Deciding, record: ApprovalRecord) -> str:
    try:
        return left_words(record, now_ms=world.approvals.now_ms())
    except RedisError:  # no reason to lose what was typed
        return "some time"
