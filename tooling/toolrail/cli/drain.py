"""`toolrail drain`: ask workers to claim no more calls, and wait until they have nothing to do.

Is: `toolrail.draining` on a terminal. Is not: the drain itself, which workers do.
Above: `main.py`. Below: `toolrail.draining`, `tables.py`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from toolrail import exit_codes
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.plain import plain
from toolrail.cli.reading import place, reading
from toolrail.cli.start import start
from toolrail.cli.tables import print_json, print_note, print_table
from toolrail.draining import ENDS, Choice, Draining, DrainState, Progress
from toolrail.fleet import Fleet
from toolrail.registry import QUEUES
from toolrail.settings import Settings

_COLUMNS = ("worker", "state", "busy", "sources", "build", "host")


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is asked of the workers that are meant."""

    undo: bool
    waits: bool
    timeout_s: float
    as_json: bool


def drain(
    context: typer.Context,
    workers: Annotated[
        list[str] | None, typer.Argument(metavar="WORKER", help="From `toolrail workers`.")
    ] = None,
    *,
    source: Annotated[str | None, typer.Option(help="All workers of this source.")] = None,
    host: Annotated[str | None, typer.Option(help="All workers on this host.")] = None,
    build: Annotated[str | None, typer.Option(help="All workers of this build.")] = None,
    everybody: Annotated[bool, typer.Option("--all", help="Every worker of the cell.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Return when they run nothing.")] = False,
    timeout_s: Annotated[
        float, typer.Option(min=0, help="With --wait: how long. The order stands after that.")
    ] = 330.0,
    undo: Annotated[bool, typer.Option("--undo", help="Let them claim again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Ask workers to claim no more calls; what they run goes on to its end.

    Several of --source, --host and --build narrow each other. They stay up, idle, until they are
    stopped or the order is undone. Exit code: 0 when they were asked, with --wait when each runs
    nothing or is gone; 1 when time was over first, or none has that name, host or build.
    """
    settings = start(context)
    choice = _choice(workers or (), source, host, build, everybody=everybody)
    if undo and wait:
        raise UsageError("--wait goes with a drain.", fix="Leave one of them out.", key="--undo")
    order = Order(undo=undo, waits=wait, timeout_s=timeout_s, as_json=as_json)
    if not asyncio.run(_carry_out(settings, choice, order)):
        raise CommandExit(exit_codes.FAILED)


def _choice(
    names: Sequence[str],
    source: str | None,
    host: str | None,
    build: str | None,
    *,
    everybody: bool,
) -> Choice:
    filtered = any(word is not None for word in (source, host, build))
    if everybody and (filtered or names):
        raise UsageError(
            "means every worker, whatever else is said.",
            fix="Leave it out: --source, --host and --build alone are all workers they fit.",
            key="--all",
        )
    if filtered == bool(names) and not everybody:
        raise UsageError(
            "say which workers: names, or --source, --host, --build, or --all.",
            fix="`toolrail workers` lists them.",
            key="WORKER",
        )
    if source is not None and source not in QUEUES:
        raise UsageError(
            f"there is no source {source!r}.",
            fix=f"It is one of {', '.join(QUEUES)}.",
            key="--source",
        )
    return Choice(names=tuple(dict.fromkeys(names)), source=source, host=host, build=build)


async def _carry_out(settings: Settings, choice: Choice, order: Order) -> bool:
    async with reading(settings) as redis:
        fleet = Fleet(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s)
        draining = Draining(fleet)
        chosen = await draining.choose(choice)
        if not chosen:
            print_note(f"No such worker lives under {place(settings)}: nothing to drain.")
            return True
        if order.undo:
            await draining.undo(chosen)
            for worker in chosen:
                _say_undone(worker.worker, worker.draining, as_json=order.as_json)
            return True
        asked = await draining.ask(chosen)
        if order.waits:
            return await _wait(draining, asked, order)
        _show(asked, as_json=order.as_json)
        await _note_nobody_left(fleet, asked)
        return True


async def _wait(draining: Draining, asked: Sequence[Progress], order: Order) -> bool:
    told: dict[str, DrainState] = {}
    last = list(asked)
    async for last in draining.watch(asked, timeout_s=order.timeout_s):
        for worker in last:
            if not order.as_json and told.get(worker.worker) is not worker.state:
                typer.echo(plain(f"{worker.worker} {_words(worker)}"))
            told[worker.worker] = worker.state
    if order.as_json:
        _show(last, as_json=True)
    late = [worker for worker in last if worker.state not in ENDS]
    if late:
        print_note(
            f"{len(late)} of {len(last)} are not drained after {order.timeout_s:g} s. The order "
            "stands: wait again with the same command, or undo it with --undo."
        )
    return not late


async def _note_nobody_left(fleet: Fleet, asked: Sequence[Progress]) -> None:
    names = {worker.worker for worker in asked}
    others = [each for each in await fleet.workers() if each.worker not in names]
    served = {source for worker in others if not worker.draining for source in worker.sources}
    for source in sorted({source for worker in asked for source in worker.sources} - served):
        print_note(f"No other worker of {source} claims calls: they wait until one does.")


def _words(worker: Progress) -> str:
    match worker.state:
        case DrainState.ASKED:
            return "was asked, and has not answered yet"
        case DrainState.BUSY:
            return f"claims no more; {worker.busy} calls run to their end"
        case DrainState.DRAINED:
            return "is drained: stop it, or undo the drain"
        case DrainState.GONE:
            return "is gone; what it left is taken over"


def _show(asked: Sequence[Progress], *, as_json: bool) -> None:
    if as_json:
        for worker in asked:
            print_json(worker)
        return
    print_table(_COLUMNS, map(_cells, asked))


def _cells(worker: Progress) -> tuple[str, ...]:
    return (
        worker.worker,
        worker.state.value,
        str(worker.busy),
        ",".join(worker.sources),
        worker.build or "-",
        worker.host,
    )


def _say_undone(worker: str, was_draining: bool, *, as_json: bool) -> None:
    if as_json:
        print_json({"worker": worker, "state": "undone", "was_draining": was_draining})
        return
    words = "claims again" if was_draining else "was not draining; an order on its way is undone"
    typer.echo(plain(f"{worker} {words}"))
