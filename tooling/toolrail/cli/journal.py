"""`toolrail journal RUN`: what happened in a run.

Is: reading the journal from a terminal. Is not: the journal.
Above: `main.py`. Below: `toolrail.client`, `show.py`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from toolrail.cli.show import journal_json, journal_line
from toolrail.cli.start import start
from toolrail.client import Toolrail
from toolrail.run import Run
from toolrail.settings import Settings
from toolrail_schemas import JournalEvent, UnknownEvent

_PAGE = 500

Event = JournalEvent | UnknownEvent


def journal(
    context: typer.Context,
    run: Annotated[str, typer.Argument(help="Id of the run, run_ and 26 characters.")],
    *,
    after: Annotated[int, typer.Option(min=0, help="Only events after this number.")] = 0,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print the journal of a run: every step of every call, in order and without gaps."""
    asyncio.run(_print(start(context), run, after=after, follow=follow, as_json=as_json))


async def _print(
    settings: Settings, run_id: str, *, after: int, follow: bool, as_json: bool
) -> None:
    colour = sys.stdout.isatty()
    async with Toolrail(settings) as rail:
        run = await rail.run(run_id)
        events = run.events(after_seq=after) if follow else _so_far(run, after)
        async for event in events:
            typer.echo(journal_json(event) if as_json else journal_line(event, colour=colour))


async def _so_far(run: Run, after: int) -> AsyncIterator[Event]:
    """Yield what is in the journal now, a page at a time."""
    while page := await run.journal(after_seq=after, limit=_PAGE):
        for event in page:
            yield event
        after = page[-1].seq
