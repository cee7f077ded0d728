"""`toolrail run ...`: open, show, complete and cancel runs.

Is: a run from a terminal. Is not: an agent; nothing here decides which tool to call.
Above: `main.py`. Below: `toolrail.client`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from toolrail import exit_codes
from toolrail.cli.call import DEFAULT_PROFILE
from toolrail.cli.options import CommandExit
from toolrail.cli.plain import plain
from toolrail.cli.reading import reading
from toolrail.cli.run_page import page_json, print_page
from toolrail.cli.start import start
from toolrail.cli.tables import print_json, print_note
from toolrail.client import Toolrail
from toolrail.errors import RunClosed
from toolrail.ledger import RunEnd
from toolrail.run import Run
from toolrail.runs import CALLS_LIMIT, RunPage, Runs
from toolrail.settings import Settings
from toolrail_schemas import ApprovalMode

app = typer.Typer(help="Open, show, complete and cancel runs.", no_args_is_help=True)

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]


@app.command("open")
def open_run(
    context: typer.Context,
    *,
    profile: Annotated[str, typer.Option(help="What the agent may use.")] = DEFAULT_PROFILE,
    tenant: Annotated[str, typer.Option(help="Whose run it is.")] = "default",
    user: Annotated[str | None, typer.Option(help="Whose settings apply.")] = None,
    name: Annotated[
        str | None, typer.Option(help="The tenant's own name; opened twice it is one run.")
    ] = None,
    chat: Annotated[str | None, typer.Option(help="Id of a chat that it may read.")] = None,
    approval_mode: Annotated[
        ApprovalMode, typer.Option(help="What happens to a call that needs a person.")
    ] = ApprovalMode.DENY_ALL,
) -> None:
    """Open a run and print its id."""

    async def work() -> None:
        async with Toolrail(settings) as rail:
            run = await rail.open_run(
                profile=profile,
                tenant=tenant,
                user=user,
                name=name,
                approval_mode=approval_mode,
                chat=chat,
            )
            typer.echo(run.id)

    settings = start(context)
    asyncio.run(work())


@app.command()
def show(
    context: typer.Context,
    run_id: RunId,
    *,
    calls: Annotated[
        int, typer.Option(min=0, max=1000, help="Most calls to show, the newest.")
    ] = CALLS_LIMIT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show a run and its newest calls.

    Of arguments only a redacted summary is shown, of results nothing.
    """
    page = asyncio.run(_look(start(context), run_id, calls))
    if as_json:
        print_json(page_json(page))
    else:
        print_page(page)


@app.command()
def tools(context: typer.Context, run_id: RunId) -> None:
    """Print the tools that the run's caller may see now."""
    asyncio.run(_with_run(context, run_id, _tools))


@app.command()
def complete(context: typer.Context, run_id: RunId) -> None:
    """Complete a run; refused while calls are open."""
    asyncio.run(_with_run(context, run_id, _complete))


@app.command()
def cancel(context: typer.Context, run_id: RunId) -> None:
    """Cancel a run with its open calls.

    Waiting calls end now, running ones when they have stopped; until then it says `ending`.
    """
    asyncio.run(_with_run(context, run_id, _cancel))


async def _with_run(
    context: typer.Context, run_id: str, work: Callable[[Run], Awaitable[None]]
) -> None:
    async with Toolrail(start(context)) as rail:
        await work(await rail.run(run_id))


async def _look(settings: Settings, run_id: str, calls: int) -> RunPage:
    async with reading(settings) as redis:
        runs = Runs(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s)
        return await runs.show(run_id, calls=calls)


async def _tools(run: Run) -> None:
    for spec in await run.tools():
        sentence = spec.description.strip().splitlines()[0] if spec.description.strip() else ""
        typer.echo(plain(f"{spec.name:<40} {sentence}"))


async def _complete(run: Run) -> None:
    _tell_end(run, await run.complete(), wanted="completed")


async def _cancel(run: Run) -> None:
    _tell_end(run, await run.cancel(), wanted="cancelled")


def _tell_end(run: Run, end: RunEnd, *, wanted: str) -> None:
    match end.status:
        case "calls_pending":
            count = len(end.open_calls)
            print_note(f"{count} calls are open, so the run goes on: `toolrail run show {run.id}`.")
            raise CommandExit(exit_codes.FAILED)
        case "ending":
            typer.echo("ending")
        case "ended" if end.run_status not in {"", wanted}:
            raise RunClosed(f"The run is {plain(end.run_status)} already. Nothing was changed.")
        case "ended":
            typer.echo(wanted)
