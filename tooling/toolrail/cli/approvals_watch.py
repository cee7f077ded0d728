"""Print each question as it is asked and as it ends, until somebody stops it.

Is: `toolrail approvals watch`. Is not: the following itself (`Approvals.watch`).
Above: `approvals.py`. Below: `approvals_page.py`, `toolrail.client`.
"""

from collections.abc import Iterator
from contextlib import aclosing

import typer

from toolrail.cli.approvals_ids import ShortIds
from toolrail.cli.approvals_page import fact_lines, record_data, title_lines
from toolrail.cli.approvals_words import STATE_COLOUR, state_words
from toolrail.cli.plain import ascii_json, barred, columns, plain
from toolrail.client import Toolrail
from toolrail.errors import RedisUnavailable
from toolrail.redis_io import outlasting
from toolrail.settings import Settings
from toolrail_schemas import ApprovalRecord, ApprovalState, format_timestamp

REMEMBERED_MAX = 50_000
"""Questions whose last printed state is remembered, so that no line comes twice."""
_CLOCK = slice(11, 19)
_STATE_WIDTH = 10
_INDENT = 2


async def watch(settings: Settings, *, as_json: bool) -> None:
    """Print what waits now, then each question as it is asked and as it ends; has no end.

    Raises:
        RedisUnavailable: Away at the start; later it is waited for.
    """
    link = _Link()
    async with Toolrail(settings) as rail:
        seen = _Seen(await rail.approvals.ids())
        async with aclosing(rail.approvals.watch(away=link.away)) as records:
            async for record in records:
                if not seen.is_news(record):
                    continue
                now_ms = await outlasting(rail.approvals.now_ms, deadline_s=0.0, away=link.away)
                if as_json:
                    typer.echo(ascii_json(record_data(record, now_ms=now_ms)))
                    continue
                for line in event_lines(record, seen.short(record), now_ms=now_ms, width=columns()):
                    typer.echo(line)


class _Link:
    """Says once that Redis is away, and once that it is back."""

    def __init__(self) -> None:
        self._is_away = False

    def away(self, error: RedisUnavailable | None) -> None:
        """Hear how Redis is."""
        if error is None:
            typer.secho("Redis is back; no end of a question was missed.", err=True, dim=True)
        elif not self._is_away:
            text = "Redis does not answer; waiting until it does. Ctrl-C stops."
            typer.secho(text, err=True, fg=typer.colors.YELLOW)
        self._is_away = error is not None


class _Seen:
    """What was printed of each question, and which wait."""

    def __init__(self, ids: list[str]) -> None:
        self._states: dict[str, ApprovalState] = {}
        self._waiting = set(ids)
        self._short: ShortIds | None = None

    def is_news(self, record: ApprovalRecord) -> bool:
        """Return whether this state of the question was not printed yet, and remember it."""
        approval_id, state = record.approval_id, record.state
        if self._states.get(approval_id) is state:
            return False
        self._states[approval_id] = state
        if len(self._states) > REMEMBERED_MAX:
            del self._states[next(iter(self._states))]
        known = len(self._waiting)
        if state is ApprovalState.PENDING:
            self._waiting.add(approval_id)
        else:
            self._waiting.discard(approval_id)
        if known != len(self._waiting):
            self._short = None
        return True

    def short(self, record: ApprovalRecord) -> str:
        """Return the question's short id among those that wait."""
        if self._short is None:
            self._short = ShortIds(self._waiting)
        return self._short.of(record.approval_id)


def event_lines(record: ApprovalRecord, short_id: str, *, now_ms: int, width: int) -> Iterator[str]:
    """Yield the lines of one question as it is asked, or as it ends."""
    is_pending = record.state is ApprovalState.PENDING
    word = "asked" if is_pending else record.state.value
    state = typer.style(f"{word:<{_STATE_WIDTH}}", fg=STATE_COLOUR.get(record.state))
    clock = format_timestamp(record.requested_at if is_pending else now_ms)[_CLOCK]
    head = f"{clock}Z  {state}  {short_id}"
    told = state_words(record, now_ms=now_ms)
    if is_pending:
        yield from title_lines(record, head=head, tail=told, indent=_INDENT, width=width)
        yield from fact_lines(record, indent=_INDENT, width=width)
        return
    untitled = record.model_copy(update={"title": record.name})
    yield from title_lines(untitled, head=head, tail=told, indent=_INDENT, width=width)
    if record.comment:
        yield from barred([plain(record.comment)], indent=_INDENT, width=width)
