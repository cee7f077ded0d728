"""`toolrail approvals …`: what waits for a person, and their decisions.

Is: the options and what each command does first. Is not: how a question looks
(`approvals_page.py`), is found (`approvals_ids.py`) or decided (`approvals_decide.py`).
Above: `main.py`. Below: those, `toolrail.sync`.
"""

import asyncio
import sys
from collections.abc import Iterator
from typing import Annotated

import typer
from pydantic import JsonValue

from toolrail import exit_codes
from toolrail.approvals import ApprovalPage, Decision
from toolrail.cli import approvals_decide as decisions
from toolrail.cli import approvals_watch
from toolrail.cli.approvals_decide import Deciding, deciding, nothing
from toolrail.cli.approvals_edit import Edit, parse_sets
from toolrail.cli.approvals_edit import edit as edit_arguments
from toolrail.cli.approvals_ids import Finder
from toolrail.cli.approvals_page import Shown, list_head, list_lines, page_lines, record_data
from toolrail.cli.arguments import read_arguments
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.plain import ascii_json, columns, plain
from toolrail.cli.reading import place
from toolrail.cli.start import start
from toolrail.errors import ApprovalRefused
from toolrail.sync import Approvals, Toolrail
from toolrail_schemas import ApprovalRecord, ApprovalScope

LIST_LIMIT = 50
PAGE = 1000
REASON_MAX_CHARS = 500
"""The API would cut a longer one, and the person not know."""

app = typer.Typer(help="Decide about calls that wait for a person.", no_args_is_help=True)

Id = Annotated[
    str, typer.Argument(metavar="ID", help="As `list` shows it, or any beginning that is unique.")
]
By = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Who decides; taken at their word. Default: the login."),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
Remember = Annotated[
    bool, typer.Option("--remember", help="Answer the same question for the rest of the run too.")
]

EffectMayRepeat = Annotated[
    bool,
    typer.Option(
        "--effect-may-repeat",
        help="Approve although an equal call may have taken effect; you have checked.",
    ),
]


@app.command("list")
def list_(
    context: typer.Context,
    *,
    run: Annotated[str, typer.Option(metavar="RUN", help="Only calls of this run.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="Show so many at most.")] = LIST_LIMIT,
    as_json: AsJson = False,
) -> None:
    """List the calls that wait for a person, the first to expire first.

    Each with its tool, what it may do, whose it is, who asks, the arguments in short, and the
    time left by the clock of Redis.
    """
    settings = start(context)
    with Toolrail(settings) as rail:
        page = _pending(rail.approvals, run_id=run, limit=limit)
        if not page.records and run:
            rail.run(run)  # a run that does not exist is no run where nothing waits
        finder = Finder(rail.approvals)
        lines = _as_json(page) if as_json else _as_list(page, finder)
        for line in lines:
            typer.echo(line)
    if not page.records:
        _note(f"Nothing waits for a person under {place(settings)}.")
    elif page.total > len(page.records):
        _note(f"{len(page.records)} of {page.total} that wait are shown; more with --limit.")


@app.command()
def watch(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Print what waits, then each question as it comes and ends.

    Ctrl-C stops it, with exit code 130. Waits for a Redis that goes away and says so once; then it
    goes on where it was.
    """
    asyncio.run(approvals_watch.watch(start(context), as_json=as_json))


@app.command()
def show(
    context: typer.Context,
    approval_id: Id,
    *,
    full: Annotated[bool, typer.Option("--full", help="The whole arguments, redacted.")] = False,
    reveal: Annotated[
        bool, typer.Option("--reveal", help="The whole arguments, secrets and all.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show everything of one question, decided ones included.

    Words of strangers, such as a tool's description, stand behind a bar as plain text.
    """
    with Toolrail(start(context)) as rail:
        approvals = rail.approvals
        record = approvals.get(Finder(approvals).find(approval_id))
        shown = _whole(approvals, record, reveal=reveal) if full or reveal else None
        now_ms = approvals.now_ms()
    if as_json:
        data: dict[str, JsonValue] = record_data(record, now_ms=now_ms)
        more: dict[str, JsonValue] = {} if shown is None else {"arguments": dict(shown.arguments)}
        typer.echo(ascii_json({**data, **more}))
        return
    for line in page_lines(record, now_ms=now_ms, width=columns(), shown=shown):
        typer.echo(line)


@app.command()
def approve(
    context: typer.Context,
    approval_ids: Annotated[list[str] | None, typer.Argument(metavar="ID")] = None,
    *,
    by: By = None,
    remember: Remember = False,
    effect_may_repeat: EffectMayRepeat = False,
    as_json: AsJson = False,
) -> None:
    """Let calls run.

    Without an ID, on a terminal: show the one that waits, and ask.

    Exit code: 0 approved, now or before; 1 no such question; 2 refused; 3 Redis cannot be used;
    4 something else had decided before, or the call can no longer run.
    """
    scope = ApprovalScope.RUN if remember else ApprovalScope.ONCE

    def work(record: ApprovalRecord) -> Decision:
        return decisions.approve(world, record, scope)

    if as_json and not approval_ids:
        raise UsageError("asks nobody, so it needs IDs.", fix="Name the questions.", key="--json")
    repeats = effect_may_repeat
    with deciding(start(context), by, effect_may_repeat=repeats, as_json=as_json) as world:
        given = approval_ids or [_the_one_that_waits(world, remember=remember)]
        note = ", for the rest of the run" if remember else ""
        code = decisions.decide_each(world, given, work, note=note)
    raise CommandExit(code)


@app.command()
def deny(
    context: typer.Context,
    approval_ids: Annotated[list[str], typer.Argument(metavar="ID")],
    *,
    by: By = None,
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="What the model is told, up to 500 characters.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Refuse calls; the model reads that a person did, and the reason.

    Exit code: as of `approve`.
    """

    def work(record: ApprovalRecord) -> Decision:
        return decisions.deny(world, record, reason)

    if len(reason.strip()) > REASON_MAX_CHARS:
        problem = f"has {len(reason.strip())} characters; the limit is {REASON_MAX_CHARS}."
        raise UsageError(problem, fix="Say it shorter.", key="--reason")
    with deciding(start(context), by, as_json=as_json) as world:
        code = decisions.decide_each(world, approval_ids, work)
    raise CommandExit(code)


@app.command()
def edit(
    context: typer.Context,
    approval_id: Id,
    *,
    by: By = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=JSON", help="A new value of one argument; repeatable."),
    ] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE|-", help="All arguments, as a JSON object.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask to confirm.")] = False,
    remember: Remember = False,
    effect_may_repeat: EffectMayRepeat = False,
    as_json: AsJson = False,
) -> None:
    """Approve a call with other arguments.

    They are given by --set, in a file, or typed in your editor. Schema and policy judge them like
    a model's, and the model is told. What changes is shown and confirmed first. $VISUAL or $EDITOR
    opens the whole arguments, secrets and all.

    Exit code: as of `approve`.
    """

    def work(record: ApprovalRecord) -> Decision:
        return edit_arguments(world, record, wanted)

    if sets and file is not None:
        raise UsageError("stands beside --set.", fix="Keep one of them.", key="--file")
    if as_json and not (yes and (sets or file is not None)):
        raise UsageError(
            "asks nobody.", fix="Say --yes, and --set or --file, with it.", key="--json"
        )
    wanted = Edit(
        sets=parse_sets(sets or ()),
        text=None if file is None else read_arguments(f"@{file}", key="--file"),
        is_confirmed=yes,
        scope=ApprovalScope.RUN if remember else ApprovalScope.ONCE,
    )
    note = ", with these arguments" + (", for the rest of the run" if remember else "")
    repeats = effect_may_repeat
    with deciding(start(context), by, effect_may_repeat=repeats, as_json=as_json) as world:
        code = decisions.decide(world, approval_id, work, note=note)
    raise CommandExit(code)


def _pending(approvals: Approvals, *, run_id: str, limit: int) -> ApprovalPage:
    """Return up to `limit` questions, in pages of what one read gives."""
    page = approvals.pending(run_id=run_id, limit=min(limit, PAGE))
    records = list(page.records)
    while len(records) < min(limit, page.total):
        size = min(limit - len(records), PAGE)
        more = approvals.pending(run_id=run_id, offset=len(records), limit=size)
        if not more.records:
            break
        records += more.records
    return ApprovalPage(page.now_ms, page.total, tuple(records))


def _as_json(page: ApprovalPage) -> Iterator[str]:
    return (ascii_json(record_data(record, now_ms=page.now_ms)) for record in page.records)


def _as_list(page: ApprovalPage, finder: Finder) -> Iterator[str]:
    if not page.records:
        return
    ids = [finder.short.of(record.approval_id) for record in page.records]
    id_width, width = max(map(len, ids)), columns()
    yield list_head(id_width)
    for record, short_id in zip(page.records, ids, strict=True):
        yield from list_lines(record, short_id, id_width=id_width, now_ms=page.now_ms, width=width)


def _whole(approvals: Approvals, record: ApprovalRecord, *, reveal: bool) -> Shown:
    edited = "edited by a person, " if record.edited_args_sha256 else ""
    if reveal:
        arguments = approvals.arguments(record.approval_id)
        return Shown(arguments=arguments, note=f"{edited}whole, nothing is hidden")
    try:
        arguments = approvals.redacted(record.approval_id)
    except ApprovalRefused as error:
        raise ApprovalRefused(f"{error.message} Or see everything: --reveal.") from error
    return Shown(arguments=arguments, note=f"{edited}whole, secrets redacted")


def _the_one_that_waits(world: Deciding, *, remember: bool) -> str:
    """Show the only question there is and ask; return its id once the person says yes."""
    waiting = world.finder.waiting
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or len(waiting) != 1:
        count = {0: "Nothing waits", 1: "One call waits"}.get(
            len(waiting), f"{len(waiting)} calls wait"
        )
        raise nothing(
            f"{count} for a person. Name an ID; `toolrail approvals list` shows them.",
            code=exit_codes.USAGE if waiting else exit_codes.FAILED,
        )
    record = world.approvals.get(waiting[0])
    world.approvals.check_decider(record.approval_id, by=world.by)
    try:
        shown = _whole(world.approvals, record, reveal=False)
    except ApprovalRefused:
        shown = None  # the definition is gone; the page still has the summary
    for line in page_lines(record, now_ms=world.approvals.now_ms(), width=columns(), shown=shown):
        typer.echo(line)
    holds = ", for the rest of the run," if remember else ""
    if not decisions.confirm(f"Approve{holds} as {plain(world.by)}?"):
        raise nothing(f"`toolrail approvals deny {world.finder.short.of(waiting[0])}` refuses it.")
    return record.approval_id


def _note(text: str) -> None:
    typer.secho(text, err=True, dim=True)
