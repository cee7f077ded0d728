"""`toolrail queues`: what waits in each queue, since when, and who is there.

Is: `toolrail.queues` on a terminal. Is not: the reading of it.
Above: `main.py`. Below: `toolrail.queues`, `tables.py`.
"""

import asyncio
from typing import Annotated

import typer

from toolrail.cli.reading import reading
from toolrail.cli.start import start
from toolrail.cli.tables import print_json, print_table
from toolrail.queues import Queues, QueueState
from toolrail.settings import Settings
from toolrail.spans import age_text

_COLUMNS = (
    "source",
    "queued",
    "running",
    "awaiting",
    "doorbells",
    "oldest",
    "workers",
    "draining",
    "slots",
    "busy",
)


def queues(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Show each queue: calls that wait, run or await a person, doorbells, and the oldest wait."""
    states = asyncio.run(_read(start(context)))
    if as_json:
        for state in states:
            print_json(state)
        return
    print_table(_COLUMNS, map(_cells, states))


async def _read(settings: Settings) -> list[QueueState]:
    async with reading(settings) as redis:
        found = Queues(
            redis,
            prefix=settings.key_prefix,
            deadline_s=settings.redis_timeout_s,
            is_foreign=settings.has_foreign_broker,
        )
        return await found.read()


def _cells(state: QueueState) -> tuple[str, ...]:
    return (
        state.source,
        str(state.queued),
        str(state.running),
        str(state.awaiting_approval),
        "-" if state.doorbells is None else str(state.doorbells),
        age_text(state.oldest_ms),
        str(state.workers),
        str(state.draining),
        str(state.slots),
        str(state.busy),
    )
