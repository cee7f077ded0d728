"""What a terminal or a console reads of questions: ids, redacted arguments, a watch that lasts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.cells import SPECS, Cell, open_cell, write_policy
from tests.servers import StartRedis
from tests.waiting import await_until
from toolrail import CallRequest, Run, Settings
from toolrail.embedded import EmbeddedRedis
from toolrail.errors import ApprovalRefused, RedisUnavailable
from toolrail.registry import Registry
from toolrail_schemas import REDACTED, ApprovalMode, ApprovalRecord, ApprovalState, ToolSpec

SECRET_SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "pin": {"type": "string", "x-secret": True}},
}


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    policy_dir = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy_dir})) as cell:
        yield cell


async def announce(cell: Cell, specs: tuple[ToolSpec, ...]) -> None:
    """Offer these tools."""
    registry = Registry(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)
    await registry.announce("builtin", "builtin", specs, worker="w", available=True)
    await cell.rail.refresh_tools()


async def asking(cell: Cell) -> Run:
    """Open a run with somebody to ask."""
    return await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)


async def park(run: Run, call_id: str, **arguments: JsonValue) -> str:
    """Park a call and return its approval id."""
    asked = {"text": "a", **arguments}
    ticket = await run.dispatch(CallRequest(id=call_id, name="demo.ask", arguments=asked))
    assert ticket.state == "awaiting_approval"
    return ticket.approval_id


async def test_ids_are_those_that_wait_and_lately_also_those_that_waited(cell: Cell) -> None:
    """A decided question is no longer among the first, and still among the second."""
    run = await asking(cell)
    ids = [await park(run, f"c{n}") for n in range(3)]
    await cell.rail.approvals.deny(ids[1], by="ann")

    assert set(await cell.rail.approvals.ids()) == {ids[0], ids[2]}
    assert await cell.rail.approvals.lately() == ids[::-1]


async def test_the_questions_of_one_run_are_paged_in_order_and_all_counted(cell: Cell) -> None:
    """As those of all runs; one that ends is neither listed nor counted any more."""
    other, run = await asking(cell), await asking(cell)
    await park(other, "first")
    ids = [await park(run, f"c{n}") for n in range(6)]
    approvals = cell.rail.approvals
    await approvals.deny(ids.pop(4), by="ann")
    pages = [await approvals.pending(run_id=run.id, offset=at, limit=2) for at in (0, 2, 4)]
    records = [record for page in pages for record in page.records]

    assert [page.total for page in pages] == [5, 5, 5]
    assert [len(page.records) for page in pages] == [2, 2, 1]
    assert [record.approval_id for record in records] == [
        approval_id for approval_id in await approvals.ids() if approval_id in ids
    ]
    assert {record.approval_id for record in records} == set(ids)
    assert (await approvals.pending(run_id=run.id, limit=-1)).records == ()


async def test_whole_arguments_are_shown_without_what_the_schema_marks(cell: Cell) -> None:
    """The call's own and an edit of them; nobody else decides what is secret."""
    marked = next(s for s in SPECS if s.name == "demo.ask")
    marked = marked.model_copy(update={"input_schema": SECRET_SCHEMA})
    await announce(cell, (marked,))
    run = await asking(cell)
    approval_id = await park(run, "c1", pin="4711")
    approvals = cell.rail.approvals

    assert await approvals.arguments(approval_id) == {"text": "a", "pin": "4711"}
    assert await approvals.redacted(approval_id) == {"text": "a", "pin": REDACTED}
    assert await approvals.redacted(approval_id, {"pin": "1"}) == {"pin": REDACTED}


async def test_without_the_definition_nobody_knows_what_is_secret(cell: Cell) -> None:
    """The tool has changed since the question: the arguments are not shown at all."""
    approval_id = await park(await asking(cell), "c1")
    await cell.change_tool("demo.ask")

    with pytest.raises(ApprovalRefused, match=r"not known any more.*Look at the summary"):
        await cell.rail.approvals.redacted(approval_id)


async def test_a_watch_misses_none_of_many_that_wait_while_some_end(cell: Cell) -> None:
    """More than one read gives; those that end meanwhile move the places of all behind them."""
    run = await asking(cell)
    asked = [
        CallRequest(id=f"c{n}", name="demo.ask", arguments={"text": "a"}, turn=n // 8)
        for n in range(1_004)
    ]
    ids = {ticket.approval_id for ticket in await asyncio.gather(*map(run.dispatch, asked))}
    seen: list[ApprovalRecord] = []
    async with aclosing(cell.rail.approvals.watch()) as watch:
        seen.append(await anext(watch))
        for approval_id in (await cell.rail.approvals.ids())[:3]:
            await cell.rail.approvals.deny(approval_id, by="ann")
        while sum(record.state is ApprovalState.DENIED for record in seen) < 3:
            seen.append(await anext(watch))
    pending = [record.approval_id for record in seen if record.state is ApprovalState.PENDING]

    assert set(pending) == ids
    assert len(pending) == len(ids)


@dataclass
class Mortal:
    """A cell on a server of the test's own, with one question and a watch that has shown it."""

    cell: Cell
    server: EmbeddedRedis
    approval_id: str
    watch: AsyncGenerator[ApprovalRecord]
    heard: list[RedisUnavailable | None]


@asynccontextmanager
async def mortal(
    settings: Settings, server: EmbeddedRedis, policy_dir: Path, *, is_patient: bool
) -> AsyncGenerator[Mortal]:
    """Give a watch whose server can be killed."""
    update = {"redis_url": server.url, "redis_timeout_s": 0.3, "policy_dir": policy_dir}
    heard: list[RedisUnavailable | None] = []
    async with open_cell(settings.model_copy(update=update)) as cell:
        approval_id = await park(await asking(cell), "c1")
        away = heard.append if is_patient else None
        async with aclosing(cell.rail.approvals.watch(away=away)) as watch:
            assert (await anext(watch)).approval_id == approval_id
            yield Mortal(cell, server, approval_id, watch, heard)


@pytest.fixture
def server(start_redis: StartRedis) -> EmbeddedRedis:
    """Start a server that loses nothing."""
    return start_redis(append_only=True, options={"appendfsync": "always"})


async def test_a_watch_outlasts_a_redis_that_is_away(
    server: EmbeddedRedis, settings: Settings, tmp_path: Path
) -> None:
    """It says so, says when Redis is back, and misses no end of a question."""
    policy_dir = write_policy(tmp_path / "policy")
    async with mortal(settings, server, policy_dir, is_patient=True) as world:
        following = asyncio.ensure_future(anext(world.watch))
        server.kill()
        await await_until(lambda: world.heard, "the watch to say that Redis is away")
        await server.start_async()
        await world.cell.rail.approvals.deny(world.approval_id, by="ann")
        seen = await following

    assert (seen.approval_id, seen.state) == (world.approval_id, ApprovalState.DENIED)
    assert isinstance(world.heard[0], RedisUnavailable)
    assert world.heard[-1] is None


async def test_a_watch_that_nobody_is_told_of_ends_with_redis(
    server: EmbeddedRedis, settings: Settings, tmp_path: Path
) -> None:
    """The error is the caller's, as with any other read."""
    policy_dir = write_policy(tmp_path / "policy")
    async with mortal(settings, server, policy_dir, is_patient=False) as world:
        server.kill()
        with pytest.raises(RedisUnavailable):
            await anext(world.watch)
        await server.start_async()
