"""`toolrail workers`: which workers live, and what each of them does.

Is: `toolrail.fleet` on a terminal. Is not: asking them to drain (`drain.py`).
Above: `main.py`. Below: `toolrail.fleet`, `tables.py`.
"""

import asyncio
from typing import Annotated

import typer

from toolrail.cli.reading import place, reading
from toolrail.cli.start import start
from toolrail.cli.tables import print_json, print_note, print_table
from toolrail.fleet import Fleet, WorkerRecord
from toolrail.settings import Settings
from toolrail.spans import age_text, since

_COLUMNS = (
    "worker",
    "sources",
    "state",
    "busy",
    "slots",
    "up",
    "seen",
    "progress",
    "lag",
    "version",
    "build",
    "host",
    "pid",
    "metrics",
)


def workers(
    context: typer.Context,
    *,
    source: Annotated[str | None, typer.Option(help="Only workers of this source.")] = None,
    host: Annotated[str | None, typer.Option(help="Only workers on this host.")] = None,
    build: Annotated[str | None, typer.Option(help="Only workers of this build.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the workers that live. One that was killed stays until it missed three announcements."""
    settings = start(context)
    found, now_ms = asyncio.run(_read(settings))
    wanted = [
        worker
        for worker in found
        if (source is None or source in worker.sources)
        and (host is None or worker.host == host)
        and (build is None or worker.build == build)
    ]
    if as_json:
        for worker in wanted:
            print_json(worker)
        return
    if not wanted:
        print_note(
            f"No such worker under {place(settings)}; {len(found)} live there. "
            "Start one: `toolrail worker SOURCE`."
        )
        return
    print_table(_COLUMNS, (_cells(worker, now_ms) for worker in wanted))


async def _read(settings: Settings) -> tuple[list[WorkerRecord], int]:
    async with reading(settings) as redis:
        fleet = Fleet(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s)
        return await fleet.workers(), await fleet.now_ms()


def _cells(worker: WorkerRecord, now_ms: int) -> tuple[str, ...]:
    return (
        worker.worker,
        ",".join(worker.sources),
        "draining" if worker.draining else "live",
        str(worker.busy),
        str(worker.slots),
        age_text(now_ms - worker.started_ms),
        age_text(now_ms - worker.seen_ms),
        since(now_ms, worker.last_progress_ms),
        f"{worker.loop_lag_ms} ms",
        worker.version,
        worker.build or "-",
        worker.host,
        str(worker.pid),
        worker.metrics_address or "-",
    )
