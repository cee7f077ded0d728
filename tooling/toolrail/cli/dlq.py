"""`toolrail dlq ...`: list dead letters, look into one, redrive or discard them.

Is: `toolrail.dead_letters` and `toolrail.redriving` on a terminal. Is not: either of them.
Above: `main.py`. Below: those, `letter_page.py`, `tables.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from redis.asyncio import Redis

from toolrail import exit_codes
from toolrail.cli.letter_ids import find_letters
from toolrail.cli.letter_page import LETTER_COLUMNS, letter_cells, print_letter
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.plain import plain
from toolrail.cli.reading import place, reading
from toolrail.cli.redrive import RedriveOrder, redrive_all
from toolrail.cli.start import start
from toolrail.cli.tables import print_json, print_note, print_table
from toolrail.dead_letters import LIMIT, DeadLetter, DeadLetters
from toolrail.settings import Settings

LIMIT_MAX = 100_000

app = typer.Typer(
    help="Look after dead letters: calls that lost the worker of their last attempt.",
    no_args_is_help=True,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]
LetterIds = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="LETTER", help="As `list` shows them, or any beginnings that are unique."
    ),
]
Everything = Annotated[bool, typer.Option("--all", help="All letters that the filters leave.")]
Tool = Annotated[str | None, typer.Option(help="Only letters of this tool.")]
Tenant = Annotated[str | None, typer.Option(help="Only letters of this tenant.")]
By = Annotated[str, typer.Option(metavar="NAME", help="Who does this; it is kept.")]
Yes = Annotated[bool, typer.Option("--yes", help="With --all: do it, instead of counting.")]


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """Which letters a command is about."""

    ids: Sequence[str]
    everything: bool
    tool: str | None
    tenant: str | None
    yes: bool


@app.command("list")
def list_letters(
    context: typer.Context,
    *,
    tool: Tool = None,
    tenant: Tenant = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Most letters.")] = LIMIT,
    as_json: Json = False,
) -> None:
    """List the letters that wait for an operator, the newest first."""

    async def work() -> tuple[list[DeadLetter], int, int]:
        async with _dead(settings) as (dead, _):
            found = await dead.find(tool=tool, tenant=tenant, limit=limit)
            return found, await dead.now_ms(), await dead.count()

    settings = start(context)
    letters, now_ms, count = asyncio.run(work())
    if as_json:
        for letter in letters:
            print_json(letter)
    elif letters:
        print_table(LETTER_COLUMNS, (letter_cells(letter, now_ms) for letter in letters))
    if not as_json:
        print_note(f"{len(letters)} of {count} dead letters under {place(settings)}.")


@app.command()
def show(
    context: typer.Context,
    letter_id: Annotated[
        str,
        typer.Argument(
            metavar="LETTER", help="As `list` shows it, or any beginning that is unique."
        ),
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show one letter and what was done about it.

    What the call was, who lost it when, and every step since.
    """

    async def work() -> None:
        async with _dead(settings) as (dead, _):
            [found] = await find_letters(dead, [letter_id])
            letter, now_ms = await dead.get(found), await dead.now_ms()
            history = await dead.history(found)
        if as_json:
            events = [event.model_dump(mode="json") for event in history]
            print_json({"letter": letter, "events": events, "now_ms": now_ms})
        else:
            print_letter(letter, history, now_ms)

    settings = start(context)
    asyncio.run(work())


@app.command()
def redrive(
    context: typer.Context,
    letter_ids: LetterIds = None,
    *,
    by: By,
    everything: Everything = False,
    tool: Tool = None,
    tenant: Tenant = None,
    yes: Yes = False,
    effect_may_repeat: Annotated[
        bool,
        typer.Option(
            "--effect-may-repeat",
            help="Also redrive calls whose effect may have happened: it may, twice.",
        ),
    ] = False,
    wait_s: Annotated[
        float, typer.Option(min=0, help="How long to wait for the outcomes of the new calls.")
    ] = 10.0,
    as_json: Json = False,
) -> None:
    """Make a new call of each letter.

    Policy is asked again, and a person where it says so. The call is made in the letter's run
    while that is open, else in a new run, which is completed when the call ends within the wait.
    Such a run is bound by the policy of the letter's run and by the folder here,
    TOOLRAIL_POLICY_DIR. Exit code 1 when a letter was not redriven.
    """
    settings = start(context)
    chosen = _chosen(letter_ids, everything, tool, tenant, yes)
    order = RedriveOrder(
        by=by,
        effect_may_repeat=effect_may_repeat,
        wait_s=wait_s,
        as_json=as_json,
    )

    async def work() -> bool:
        async with _dead(settings) as (dead, redis):
            ids = await _pick(dead, chosen, lambda letter: order.takes(letter), "redriven")
            return await redrive_all(settings, redis, ids, order)

    if not asyncio.run(work()):
        raise CommandExit(exit_codes.FAILED)


@app.command()
def discard(
    context: typer.Context,
    letter_ids: LetterIds = None,
    *,
    by: By,
    everything: Everything = False,
    tool: Tool = None,
    tenant: Tenant = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Take letters off the list; their records stay and say by whom."""
    settings = start(context)
    chosen = _chosen(letter_ids, everything, tool, tenant, yes)

    async def work() -> None:
        async with _dead(settings) as (dead, _):
            for letter_id in await _pick(dead, chosen, lambda _: True, "discarded"):
                await dead.discard(letter_id, by=by)
                if as_json:
                    print_json({"letter_id": letter_id, "state": "discarded"})
                else:
                    typer.echo(f"{plain(letter_id)} discarded")

    asyncio.run(work())


@asynccontextmanager
async def _dead(settings: Settings) -> AsyncGenerator[tuple[DeadLetters, Redis]]:
    async with reading(settings) as redis:
        prefix, deadline_s = settings.key_prefix, settings.redis_timeout_s
        yield DeadLetters(redis, prefix=prefix, deadline_s=deadline_s), redis


def _chosen(
    ids: Sequence[str] | None, everything: bool, tool: str | None, tenant: str | None, yes: bool
) -> Chosen:
    if bool(ids) == everything:
        raise UsageError(
            "name letters, or say --all.", fix="Ids: `toolrail dlq list`.", key="LETTER"
        )
    if ids and (tool or tenant):
        raise UsageError(
            "filters go with --all.", fix="Leave them out, or say --all.", key="--tool"
        )
    return Chosen(ids=ids or (), everything=everything, tool=tool, tenant=tenant, yes=yes)


async def _pick(
    dead: DeadLetters, chosen: Chosen, takes: Callable[[DeadLetter], bool], done: str
) -> list[str]:
    """Return the ids that are meant; with --all they are counted first, and told."""
    if not chosen.everything:
        return await find_letters(dead, chosen.ids)
    found = await dead.find(tool=chosen.tool, tenant=chosen.tenant, limit=LIMIT_MAX)
    meant = [letter for letter in found if takes(letter)]
    left = len(found) - len(meant)
    more = f"; {left} are left, see `toolrail dlq redrive --help`" if left else ""
    if not chosen.yes:
        print_note(f"{len(meant)} letters would be {done}{more}. Nothing was done: add --yes.")
        raise CommandExit(exit_codes.FAILED)
    print_note(f"{len(meant)} letters are {done}{more}.")
    return [letter.letter_id for letter in meant]
