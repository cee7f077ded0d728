"""Find runs and look into one, without waking anything up.

Is: lists of open and recently ended runs, and one run with its newest calls. Is not: work inside a
run (`run.py`), or its journal. Above: `toolrail runs`, `toolrail run show`, scripts.
Below: `paging.py`, `call_rows.py`.

Open runs are known by a zset. Ended ones are found in the journal of all runs, which keeps about
100,000 events: how far back it goes depends on how busy the cell is.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis

from toolrail.call_rows import FIELDS, CallRow, call_row, known_specs
from toolrail.errors import RunNotFound
from toolrail.keys import is_run_id
from toolrail.ledger import LedgerReader
from toolrail.ledger.journal import RUN_ENDS, RUN_FORGOTTEN
from toolrail.paging import Pages, number
from toolrail.registry import Registry
from toolrail_schemas import RunSpec

LIMIT = 50
CALLS_LIMIT = 50
_EVENTS_PAGE = 1000
_EVENTS_MAX = 5000
"""Newest events of a run in which its calls are looked for."""
_ROW_FIELDS = (
    "status",
    "ending",
    "code",
    "ending_code",
    "tenant",
    "profile",
    "seq",
    "opened_ms",
    "ended_ms",
)


class RunFilter(StrEnum):
    """Which runs are wanted."""

    ALL = "all"
    OPEN = "open"
    """Open and ending ones."""
    ENDING = "ending"
    """Open, but they take no more calls."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in a list.

    Attributes:
        run_id: `run_` and a ULID.
        status: open, ending, completed, failed or cancelled.
        code: Why it ended, or is about to; "" when there is nothing to say.
        tenant: Whose run it is.
        profile: What the agent may use.
        open_calls: Calls without an outcome.
        events: Events in its journal.
        opened_ms: When, by the clock of Redis; 0 when the record does not say.
        ended_ms: When; 0 while it is open.
    """

    run_id: str
    status: str
    code: str
    tenant: str
    profile: str
    open_calls: int
    events: int
    opened_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One run with its newest calls.

    Attributes:
        row: As in a list.
        spec: What it was opened with; None when this version cannot read it.
        used: Budget units taken, by tool.
        calls: The newest calls, oldest first.
        is_whole: Whether `calls` are all that the journal names.
        now_ms: The clock of Redis when it was read.
    """

    row: RunRow
    spec: RunSpec | None
    used: Mapping[str, int]
    calls: tuple[CallRow, ...]
    is_whole: bool
    now_ms: int


class Runs:
    """The runs of one cell, for reading."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._pages = Pages(redis, prefix=prefix, deadline_s=deadline_s)
        self._reader = LedgerReader(redis, prefix=prefix, deadline_s=deadline_s)
        self._registry = Registry(redis, prefix=prefix, deadline_s=deadline_s)

    async def now_ms(self) -> int:
        """Return the clock of Redis, by which ages are counted."""
        return await self._reader.now_ms()

    async def count_open(self) -> int:
        """Return how many runs are open."""
        return await self._pages.size(self._pages.keys.runs)

    async def find(
        self,
        *,
        wanted: RunFilter = RunFilter.ALL,
        tenant: str | None = None,
        limit: int = LIMIT,
    ) -> list[RunRow]:
        """Return up to `limit` runs, the newest first.

        Args:
            wanted: By status.
            tenant: Of this tenant only.
            limit: Most runs to return; also bounds how much is read when nothing is filtered.

        Raises:
            RedisUnavailable: No answer in time.
        """

        def fits(row: RunRow) -> bool:
            return (tenant is None or row.tenant == tenant) and _has(row, wanted)

        rows: dict[str, RunRow] = {}
        for source in self._sources(wanted):
            found = await self._collect(source, fits, limit)
            rows.update({row.run_id: row for row in found})
        newest = sorted(rows.values(), key=lambda row: (row.opened_ms, row.run_id), reverse=True)
        return newest[:limit]

    async def show(self, run_id: str, *, calls: int = CALLS_LIMIT) -> RunPage:
        """Return one run with up to `calls` of its newest calls.

        Raises:
            RunNotFound: There is no such run, or it is past its retention.
            RedisUnavailable: No answer in time.
        """
        record = await self._reader.run(run_id) if is_run_id(run_id) else None
        if record is None:
            raise RunNotFound(f"There is no run {run_id[:80]!r}. {RUN_FORGOTTEN}")
        [row] = await self._rows([run_id])
        names, is_whole = await self._newest_calls(run_id, calls)
        keys = [self._pages.keys.call(run_id, name) for name in names]
        records = await self._pages.fields(keys, FIELDS)
        specs = await known_specs(self._registry)
        return RunPage(
            row=row,
            spec=_spec(record),
            used=dict(sorted((await self._reader.run_used(run_id)).items())),
            calls=tuple(
                call_row(run_id, name, fields, specs)
                for name, fields in zip(names, records, strict=True)
                if fields
            ),
            is_whole=is_whole,
            now_ms=await self._reader.now_ms(),
        )

    def _sources(self, wanted: RunFilter) -> list[AsyncIterator[list[str]]]:
        match wanted:
            case RunFilter.ALL:
                return [self._open_ids(), self._ended_ids(RUN_ENDS)]
            case RunFilter.OPEN | RunFilter.ENDING:
                return [self._open_ids()]
            case _:
                return [self._ended_ids(frozenset({f"run_{wanted.value}"}))]

    async def _collect(
        self, ids: AsyncIterator[list[str]], fits: Callable[[RunRow], bool], limit: int
    ) -> list[RunRow]:
        found: list[RunRow] = []
        async for page in ids:
            found += filter(fits, await self._rows(page))
            if len(found) >= limit:
                break
        return found[:limit]

    async def _open_ids(self) -> AsyncIterator[list[str]]:
        async for page in self._pages.newest(self._pages.keys.runs):
            yield [run_id for run_id, _ in page]

    async def _ended_ids(self, kinds: frozenset[str]) -> AsyncIterator[list[str]]:
        """Yield runs whose end stands in the journal of all runs, the last to end first."""
        seen: set[str] = set()
        async for events in self._backwards(self._pages.keys.journal_all):
            ended = [fields["run"] for _, fields in events if fields.get("type") in kinds]
            fresh = [run_id for run_id in dict.fromkeys(ended) if run_id not in seen]
            seen.update(fresh)
            if fresh:
                yield fresh

    async def _backwards(
        self, stream: str
    ) -> AsyncIterator[Sequence[tuple[str, Mapping[str, str]]]]:
        end = "+"
        while True:
            reply = await self._pages.ask("XREVRANGE", stream, end, "-", "COUNT", _EVENTS_PAGE)
            events = cast("Sequence[tuple[str, Mapping[str, str]]]", reply)
            if events:
                yield events
            if len(events) < _EVENTS_PAGE:
                return
            end = f"({events[-1][0]}"

    async def _newest_calls(self, run_id: str, limit: int) -> tuple[list[str], bool]:
        """Return the keys of the newest calls, oldest first, and whether there are no others."""
        found: dict[str, None] = {}
        read = 0
        async for events in self._backwards(self._pages.keys.journal(run_id)):
            found.update(dict.fromkeys(fields["call"] for _, fields in events if "call" in fields))
            read += len(events)
            if len(found) > limit or read >= _EVENTS_MAX:
                break
        names = list(found)[:limit]
        return names[::-1], len(found) <= limit and read < _EVENTS_MAX

    async def _rows(self, ids: Sequence[str]) -> list[RunRow]:
        keys = self._pages.keys
        records = await self._pages.fields([keys.run(run_id) for run_id in ids], _ROW_FIELDS)
        counts = await self._pages.ask_each([("SCARD", keys.open_calls(run_id)) for run_id in ids])
        return [
            _row(run_id, record, int(str(count)))
            for run_id, record, count in zip(ids, records, counts, strict=True)
            if record
        ]


def _row(run_id: str, record: Mapping[str, str], open_calls: int) -> RunRow:
    status = record.get("status", "")
    ends = status == "open" and "ending" in record
    return RunRow(
        run_id=run_id,
        status="ending" if ends else status,
        code=record.get("ending_code" if ends else "code", ""),
        tenant=record.get("tenant", ""),
        profile=record.get("profile", ""),
        open_calls=open_calls,
        events=number(record, "seq"),
        opened_ms=number(record, "opened_ms"),
        ended_ms=number(record, "ended_ms"),
    )


def _has(row: RunRow, wanted: RunFilter) -> bool:
    match wanted:
        case RunFilter.ALL:
            return True
        case RunFilter.OPEN:
            return row.status in {"open", "ending"}
        case _:
            return row.status == wanted.value


def _spec(record: Mapping[str, str]) -> RunSpec | None:
    try:
        return RunSpec.model_validate_json(record.get("spec", ""))
    except ValidationError:
        return None
