"""Redrive many letters, tell what became of each, and end the runs that were opened for it.

Is: the work and the words of `toolrail dlq redrive`. Is not: one redrive (`toolrail.redriving`).
Above: `dlq.py`. Below: `toolrail.redriving`, `tables.py`.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import typer
from redis.asyncio import Redis

from toolrail.cli.plain import plain
from toolrail.cli.tables import print_json
from toolrail.client import Toolrail
from toolrail.dead_letters import DeadLetter
from toolrail.errors import (
    AdmissionClosed,
    Closed,
    RedisError,
    ToolrailError,
)
from toolrail.redriving import Redriven, Redriver
from toolrail.settings import Settings

T = TypeVar("T")
AT_ONCE = 16
"""Letters in work at the same time."""
_STOPS = (RedisError, AdmissionClosed, Closed)
"""What would meet every other letter too, so that going on makes no sense."""


@dataclass(frozen=True, kw_only=True)
class RedriveOrder:
    """How letters are redriven."""

    by: str
    effect_may_repeat: bool
    wait_s: float
    as_json: bool

    def takes(self, letter: DeadLetter) -> bool:
        """Whether a bulk redrive takes this letter."""
        may = self.effect_may_repeat or not letter.effect_unknown
        return letter.call is not None and may


@dataclass(frozen=True, kw_only=True)
class _Told:
    """One line of the answer."""

    letter_id: str
    is_redriven: bool
    run_id: str = ""
    call_id: str = ""
    call_key: str = ""
    state: str = ""
    error_code: str = ""
    by: str = ""
    was_before: bool = False
    is_new_run: bool = False
    problem: str = ""


async def redrive_all(
    settings: Settings, redis: Redis, ids: Sequence[str], order: RedriveOrder
) -> bool:
    """Every letter is redriven or its problem told; return whether all are redriven.

    Raises:
        RedisUnavailable, AdmissionClosed: The rest was not tried. Asking again goes on.
    """
    async with Toolrail(settings) as rail:
        redriver = Redriver(rail, redis, settings)
        slots = asyncio.Semaphore(AT_ONCE)

        async def begin(letter_id: str) -> Redriven | _Told:
            async with slots:
                return await _begin(redriver, letter_id, order)

        begun = await _all(begin(letter_id) for letter_id in ids)
        until = asyncio.get_running_loop().time() + order.wait_s

        async def end(found: Redriven | _Told) -> bool:
            if isinstance(found, Redriven):
                left_s = max(0.0, until - asyncio.get_running_loop().time())
                found = _told(await redriver.see_through(found, timeout_s=left_s))
            _tell(found, as_json=order.as_json)
            return found.is_redriven

        return all(await _all(end(found) for found in begun))


async def _all(works: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Return all results in order; the first error ends the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _begin(redriver: Redriver, letter_id: str, order: RedriveOrder) -> Redriven | _Told:
    try:
        return await redriver.redrive(
            letter_id, by=order.by, effect_may_repeat=order.effect_may_repeat
        )
    except _STOPS:
        raise
    except ToolrailError as error:
        return _Told(letter_id=letter_id, is_redriven=False, problem=error.message)


def _told(done: Redriven) -> _Told:
    ticket = done.ticket
    return _Told(
        letter_id=done.letter_id,
        is_redriven=done.is_accepted,
        run_id=ticket.run_id,
        call_id=ticket.call_id,
        call_key=ticket.call_key,
        state=ticket.state,
        error_code=done.error_code,
        by=done.by,
        was_before=done.was_before,
        is_new_run=done.is_new_run,
    )


def _tell(told: _Told, *, as_json: bool) -> None:
    if as_json:
        print_json(told)
    elif told.problem:
        typer.secho(plain(f"error: {told.problem}"), err=True, fg=typer.colors.RED)
    else:
        typer.echo(plain(_sentence(told)))


def _sentence(told: _Told) -> str:
    where = f"{told.call_id} in {'new run ' if told.is_new_run else ''}{told.run_id}"
    state = f"{told.state or 'gone'} {told.error_code}".strip()
    if told.was_before:
        return f"{told.letter_id} was redriven before by {told.by} as {where}: {state}"
    if not told.is_redriven:
        return f"{told.letter_id} stays on the list: {where} was refused, {state}"
    approval = f"toolrail approvals show {told.run_id}.{told.call_key}"
    advice = {
        "awaiting_approval": f"; decide: `{approval}`",
        "queued": "; it goes on",
        "running": "; it goes on",
    }.get(told.state, "")
    return f"{told.letter_id} redriven as {where}: {state}{advice}"
