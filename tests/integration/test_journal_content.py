"""What a run's journal holds and what it must not, and that it stays readable whatever it holds.

Is: needles in every way a call can fail, events beyond their limits, journals that broke. Is not:
the order of events (`test_ledger.py`). Above: nothing. Below: `toolrail.results`, `JournalReader`,
`toolrail_workers.answers`.
"""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.calls import LedgerBench
from tests.cells import Cell, open_cell, opened, write_policy
from tests.functions import Function
from tests.promises import promise
from tests.workers import WorkerBench, worker_bench
from toolrail.cli.show import journal_line
from toolrail.errors import JournalAppendFailed, RunNotFound, SystemFailure, ToolError
from toolrail.ledger import EventLine
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import (
    EventType,
    JournalEvent,
    JsonObject,
    TextBlock,
    UnknownEvent,
    check_payload,
    error_info,
)
from toolrail_workers.executor import ClaimedCall

NEEDLE = "needle-4111111111111111"


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[WorkerBench]:
    """Give a worker's bench."""
    async with worker_bench(settings) as bench:
        yield bench


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    policy = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        yield cell


async def raw_journal(bench: LedgerBench, run_id: str) -> str:
    """Return everything that stands in the journal of a run."""
    return str(await command(bench.redis, "XRANGE", bench.keys.journal(run_id), "-", "+"))


@promise("journal.gapless-and-free-of-content")
async def test_refused_arguments_never_enter_the_journal(cell: Cell) -> None:
    """The model reads which value is wrong; the journal says what kind of thing went wrong."""
    run = await opened(cell)
    unfit: list[str | dict[str, object]] = [
        {"text": NEEDLE},
        {"text": int(NEEDLE[-16:])},
        {"text": "a", NEEDLE: 1},
        f'{{"{NEEDLE}": 1, "{NEEDLE}": 2}}',
        f'{{"text": "{NEEDLE}',
        f'{{"text": NaN, "b": "{NEEDLE}"}}',
    ]
    for n, arguments in enumerate(unfit):
        result = await run.call("demo.echo", arguments, id=f"c{n}", timeout_s=5)  # type: ignore[arg-type]
        assert result.error_code == "tool.invalid_arguments"
    failed = [e for e in await run.journal() if e.type == EventType.TOOL_CALL_FAILED]

    assert [event.payload["message"] for event in failed] == [
        error_info("tool.invalid_arguments").sentence
    ] * len(unfit)
    assert NEEDLE[-16:] not in await raw_journal(cell.bench, run.id)


def answers(output: ToolOutput) -> Function:
    """Return a tool with this output."""

    async def function(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        return output

    return function


def raises(error: Exception) -> Function:
    """Return a tool that fails so."""

    async def function(call: ClaimedCall, context: ToolContext) -> ToolOutput:
        raise error

    return function


FAILURES: dict[str, Function] = {
    "an error result": answers(ToolOutput(content=(TextBlock(text=NEEDLE),), is_error=True)),
    "a ToolError": raises(ToolError("demo.refused", NEEDLE, next_action=NEEDLE)),
    "an exception": raises(ValueError(NEEDLE)),
    "a system failure": raises(SystemFailure("workspace.io_failed", NEEDLE)),
    "an output against its schema": answers(ToolOutput(structured={"city": NEEDLE})),
}


@promise("journal.gapless-and-free-of-content")
@pytest.mark.parametrize("how", FAILURES)
async def test_what_a_failed_tool_said_never_enters_the_journal(
    bench: WorkerBench, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The event has the code and our sentence for it; the words stand in the stored result."""
    schema = {"properties": {"city": {"type": "integer"}}} if "schema" in how else None
    spec = bench.add("demo.fails", FAILURES[how], output_schema=schema)
    await bench.start_worker()
    result = await bench.run_call(spec)
    last = next(e for e in await bench.calls.events() if e.type is EventType.TOOL_CALL_FAILED)

    assert result.error_code == last.payload["error_code"]
    assert last.payload["message"] == error_info(str(result.error_code)).sentence
    assert f'message="{last.payload["message"]}"' in journal_line(last)
    assert NEEDLE not in await raw_journal(bench.calls, bench.calls.run_id)
    assert (NEEDLE in result.model_dump_json()) == (how != "an exception")
    assert NEEDLE not in caplog.text


async def test_a_result_with_more_refs_than_an_event_holds_is_journaled(
    bench: WorkerBench,
) -> None:
    """The event names the refs it has room for; the result names all of them."""
    refs = tuple(f"worldinfo:{n:02}{'ü' * 600}" for n in range(16))
    spec = bench.add("demo.refs", answers(ToolOutput(resource_refs=refs)))
    await bench.start_worker()
    result = await bench.run_call(spec)
    last = (await bench.calls.events())[-1]

    assert result.resource_refs == refs
    assert last.payload["resource_refs"] == list(refs[:3])


async def test_events_and_codes_of_tools_cannot_spoil_the_journal(bench: WorkerBench) -> None:
    """What an event says is measured with what the ledger adds; a code has 128 characters."""
    paths: list[JsonValue] = ["x" * 1000] * 8
    just_fits: JsonObject = {"paths": paths, "more": "y" * 145}
    check_payload(EventType.WORKSPACE_FILE_WRITTEN, just_fits)
    output = ToolOutput(
        is_error=True,
        error_code="demo." + "x" * 200,
        events=(
            (EventType.WORKSPACE_FILE_WRITTEN, just_fits),
            (EventType.CHECKPOINT_CREATED, {"number": 2**70}),
        ),
    )
    spec = bench.add("demo.odd", answers(output))
    await bench.start_worker()
    result = await bench.run_call(spec)
    events = await bench.calls.events()

    assert result.error_code == "tool.execution_failed"
    assert ["payload_refused" in event.payload for event in events[4:6]] == [True, True]


async def test_an_unlawful_event_keeps_its_place_and_hides_no_other(
    cell: Cell, caplog: pytest.LogCaptureFixture
) -> None:
    """However it came there; the log tells it once."""
    bench = cell.bench
    run = await opened(cell)
    bad = EventLine(EventType.TOOL_SURFACE_UPDATED, {"added": "x" * 2000})
    await bench.ledger.append(run.id, bad, event_id="e1", digest="d", actor="runtime:t")
    await bench.ledger.append(
        run.id, EventLine(EventType.TOOL_SURFACE_UPDATED, {}), event_id="e2", digest="d", actor=":"
    )
    await run.complete()
    events = await run.journal()
    followed = [event async for event in run.events()]

    assert [type(event) for event in events[-3:]] == [UnknownEvent, UnknownEvent, JournalEvent]
    assert events[-3].type == "tool_surface_updated"
    assert followed == events
    assert "tool_surface_updated" in journal_line(events[-3])
    told = [record for record in caplog.records if record.message == "journal.unlawful_event"]
    assert [record.levelno for record in told] == [logging.ERROR]


async def test_an_entry_that_is_no_event_at_all_keeps_its_place(cell: Cell) -> None:
    """Somebody else wrote into the stream."""
    run = await opened(cell)
    key = cell.bench.keys.journal(run.id)
    before = await run.journal()
    await command(cell.bench.redis, "XADD", key, f"{len(before) + 1}-0", "odd", "x")
    events = await run.journal()

    assert isinstance(events[-1], UnknownEvent)
    assert events[:-1] == before
    await run.cancel()


async def test_following_a_run_whose_journal_broke_comes_to_an_end(cell: Cell) -> None:
    """No event says that such a run has failed; its record does."""
    run = await opened(cell)
    before = await run.journal()
    redis, key = cell.bench.redis, cell.bench.keys.journal(run.id)
    await command(redis, "XADD", key, "1000000-0", "odd", "x")
    with pytest.raises(JournalAppendFailed):
        await run.call("demo.echo", {"text": "a"}, id="c1")
    await command(redis, "XDEL", key, "1000000-0")
    events = [event async for event in run.events()]

    assert await run.status() == "failed"
    assert events == before
    await run.cancel()  # as the reaper would


async def test_following_a_forgotten_run_is_not_found(cell: Cell) -> None:
    """Else whoever follows it would wait for ever."""
    run = await opened(cell)
    await run.complete()
    keys = cell.bench.keys
    await command(cell.bench.redis, "DEL", keys.run(run.id), keys.journal(run.id))
    with pytest.raises(RunNotFound, match="retention"):
        [event async for event in run.events()]
