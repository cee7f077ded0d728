"""`toolrail runs`: which runs are open, and which have ended lately.

Is: `toolrail.runs` on a terminal. Is not: one run (`toolrail run show`), or the reading of it.
Above: `main.py`. Below: `toolrail.runs`, `tables.py`.
"""

import asyncio
from typing import Annotated

import typer

from toolrail.cli.reading import place, reading
from toolrail.cli.start import start
from toolrail.cli.tables import print_json, print_note, print_table
from toolrail.runs import LIMIT, RunFilter, RunRow, Runs
from toolrail.settings import Settings
from toolrail.spans import since

LIMIT_MAX = 100_000
_COLUMNS = ("run", "status", "age", "code", "tenant", "profile", "open", "events")


def runs(
    context: typer.Context,
    *,
    status: Annotated[
        RunFilter, typer.Option(help="Only runs with this status; open includes ending ones.")
    ] = RunFilter.ALL,
    tenant: Annotated[str | None, typer.Option(help="Only runs of this tenant.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="Most runs to show.")] = LIMIT,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List runs, the newest first: the open ones, and those that ended lately.

    How far back ended runs are found depends on how busy the cell is: the journal of all runs
    keeps about 100,000 events.
    """
    settings = start(context)
    rows, now_ms, are_open = asyncio.run(_read(settings, status, tenant, limit))
    if as_json:
        for row in rows:
            print_json(row)
        return
    if not rows:
        print_note(f"No such run under {place(settings)}; {are_open} are open there.")
        return
    print_table(_COLUMNS, (_cells(row, now_ms) for row in rows))
    if len(rows) == limit:
        print_note(f"The newest {limit} are shown, {are_open} runs are open; more with --limit.")


async def _read(
    settings: Settings, status: RunFilter, tenant: str | None, limit: int
) -> tuple[list[RunRow], int, int]:
    async with reading(settings) as redis:
        found = Runs(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s)
        rows = await found.find(wanted=status, tenant=tenant, limit=limit)
        return rows, await found.now_ms(), await found.count_open()


def _cells(row: RunRow, now_ms: int) -> tuple[str, ...]:
    return (
        row.run_id,
        row.status or "?",
        since(now_ms, row.opened_ms),
        row.code,
        row.tenant or "?",
        row.profile or "?",
        str(row.open_calls),
        str(row.events),
    )
