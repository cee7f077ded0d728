"""The counters that the ledger's scripts keep, each against what happened."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import cast

import pytest
from pydantic import JsonValue

from tests.calls import LedgerBench, ledger_bench
from tests.totals import Totals
from toolrail.ledger import Claim, EventLine, Ledger, NewCall
from toolrail.metrics.labels import RULES_MAX, TOOLS_MAX
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail_schemas import EventType

HOUR_MS = 3_600_000
OF_THE_CONNECTION = tuple(
    f"cmdstat_{name}" for name in ("script", "evalsha", "info", "ping", "client", "select", "hello")
)
"""What a client sends when it must, such as a script that the server has not seen."""


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[LedgerBench]:
    """Give a bench."""
    async with ledger_bench(settings) as bench:
        yield bench


async def totals(bench: LedgerBench) -> Totals:
    """Return all counters now."""
    return await Totals.read(bench.redis, bench.keys)


async def refused(
    bench: LedgerBench,
    call_id: str,
    *,
    tool: str = "demo.echo",
    queue: str = "builtin",
    code: str = "tool.not_found",
    denied: Mapping[str, JsonValue] | None = None,
) -> NewCall:
    """Return a call that is refused as it comes in."""
    call = bench.new_call(call_id, tool=tool)
    ending = await bench.ending(call_id, code=code)
    events = (*call.events, *ending.events)
    if denied is not None:
        events = (*events, EventLine(EventType.TOOL_CALL_DENIED, denied))
    return replace(
        call, state="failed", ending=ending, events=events, fields={**call.fields, "queue": queue}
    )


async def run_to_end(bench: LedgerBench, call_id: str) -> None:
    """Claim and finish the first attempt of a queued call."""
    claim = await bench.ledger.claim(
        bench.run_id, bench.key(call_id), attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    assert isinstance(claim, Claim)
    await bench.ledger.finish(
        bench.run_id, claim.call_key, await bench.ending(call_id), fence=claim.fence, actor="w"
    )


async def backdate(bench: LedgerBench, call_id: str, moment: str, *, by_ms: int) -> None:
    """Move one moment of a call's record into the past, or with a negative number the future."""
    key = bench.keys.call(bench.run_id, bench.key(call_id))
    await command(bench.redis, "HINCRBY", key, moment, -by_ms)


async def approve(bench: LedgerBench, call_id: str) -> None:
    """Say yes to a parked call."""
    key = bench.key(call_id)
    seen = (await bench.call(call_id)).fields["args_sha256"]
    await bench.ledger.approve(bench.run_id, key, bench.approval(key, args_sha256=seen))


async def test_a_persons_thinking_is_no_duration_of_the_call(bench: LedgerBench) -> None:
    """An hour of deciding is the approval's wait, and neither the queue's nor the call's."""
    await bench.ledger.dispatch(await bench.parked_call("c1"))
    for moment in ("accepted_ms", "asked_ms"):
        await backdate(bench, "c1", moment, by_ms=2 * HOUR_MS)
    await approve(bench, "c1")
    await run_to_end(bench, "c1")
    seen = await totals(bench)

    assert seen.of("decided")["ms:builtin"] >= 2 * HOUR_MS
    assert seen.of("decided")["14400000:builtin"] == 1
    assert seen.of("took")["ms:builtin:ok"] < HOUR_MS
    assert seen.of("wait")["ms:builtin"] < HOUR_MS


@pytest.mark.parametrize("decision", ["denied", "expired", "cancelled", "superseded"])
async def test_a_call_that_ends_while_parked_was_the_persons_time(
    bench: LedgerBench, decision: str
) -> None:
    """Its wait is counted under how it ended, and none of it as ours."""
    await bench.ledger.dispatch(await bench.parked_call("c1"))
    for moment in ("accepted_ms", "asked_ms"):
        await backdate(bench, "c1", moment, by_ms=2 * HOUR_MS)
    await bench.ledger.finish(
        bench.run_id,
        bench.key("c1"),
        await bench.ending("c1", code="approval.denied"),
        fence=0,
        actor="user:bob",
        guard="awaiting_approval",
        approval_state=decision,
    )
    seen = await totals(bench)

    assert seen.of("approval") == {"builtin:asked": 1, f"builtin:{decision}": 1}
    assert seen.of("decided")["ms:builtin"] >= 2 * HOUR_MS
    assert seen.of("took") == {"5:builtin:denied": 1, "ms:builtin:denied": 0}


async def test_each_duration_has_its_own_beginning(bench: LedgerBench) -> None:
    """Waiting, running and the whole are counted apart, in whole milliseconds."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    await backdate(bench, "c1", "accepted_ms", by_ms=250_000)
    await backdate(bench, "c1", "queued_ms", by_ms=100_000)
    claim = await bench.ledger.claim(
        bench.run_id, bench.key("c1"), attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    assert isinstance(claim, Claim)
    await backdate(bench, "c1", "started_ms", by_ms=20_000)
    await bench.ledger.finish(
        bench.run_id, claim.call_key, await bench.ending("c1"), fence=claim.fence, actor="w"
    )
    seen = await totals(bench)

    assert seen.of("took")["300000:builtin:ok"] == 1
    assert seen.of("wait")["120000:builtin"] == 1
    assert seen.tools["ran:30000:ok:builtin:demo.echo"] == 1
    assert 20_000 <= seen.tools["ran:ms::builtin:demo.echo"] < 30_000


async def test_a_clock_that_was_set_back_makes_no_negative_duration(bench: LedgerBench) -> None:
    """A counter must never fall, whatever the server's clock does."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    for moment in ("accepted_ms", "queued_ms"):
        await backdate(bench, "c1", moment, by_ms=-HOUR_MS)
    await run_to_end(bench, "c1")
    seen = await totals(bench)

    assert seen.of("wait") == {"5:builtin": 1, "ms:builtin": 0}
    assert seen.of("took") == {"5:builtin:ok": 1, "ms:builtin:ok": 0}


async def test_a_spent_budget_is_counted_once_however_often_it_is_asked(
    bench: LedgerBench,
) -> None:
    """The question may be repeated after a lost reply; the refusal stands in the ledger once."""
    for _ in range(3):
        await bench.ledger.dispatch(bench.new_call("c1", cap_run=0))
    for call_id, code in {
        "c1": "tool.budget_exhausted",
        "c2": "tool.turn_budget_exhausted",
    }.items():
        for _ in range(2):
            await bench.ledger.dispatch(await refused(bench, call_id, code=code))

    assert (await totals(bench)).of("over_budget") == {"run": 1, "turn": 1}


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        ({"denied_by": "policy", "layer": "platform", "rule": "no-rm"}, {"platform:no-rm"}),
        ({"denied_by": "policy", "layer": "plan", "rule": "deny[a:b]"}, {"plan:deny[a:b]"}),
        ({"denied_by": "policy", "layer": None, "rule": None}, {"none:none"}),
        ({"denied_by": "policy"}, {"none:none"}),
        ({"denied_by": "policy", "layer": ["x"], "rule": {"y": 1}}, {"none:none"}),
        ({"denied_by": "user", "layer": "platform", "rule": "no-rm"}, set[str]()),
        ({"denied_by": "expiry"}, set[str]()),
        ({}, set[str]()),
    ],
)
async def test_a_denial_is_counted_under_its_rule(
    bench: LedgerBench, told: dict[str, JsonValue], counted: set[str]
) -> None:
    """Only what policy denied; a strange payload is counted under no rule and breaks nothing."""
    await bench.ledger.dispatch(await refused(bench, "c1", denied=told))
    seen = (await totals(bench)).rules

    assert {name for name in seen if name.startswith("denied:")} == {f"denied:{n}" for n in counted}


async def test_a_remembered_approval_is_a_decision_without_a_wait(bench: LedgerBench) -> None:
    """A call that comes in approved was decided by the run's memory."""
    call = bench.new_call("c1")
    approved = EventLine(EventType.TOOL_CALL_APPROVED, {"decided_by": "ann"})
    await bench.ledger.dispatch(replace(call, events=(*call.events, approved)))
    seen = await totals(bench)

    assert seen.of("approval") == {"builtin:remembered": 1}
    assert seen.observed("decided") == 0


@pytest.mark.one_redis
async def test_names_that_a_model_makes_up_add_nothing(bench: LedgerBench) -> None:
    """Five hundred tools and ten thousand inventions leave the tools and one other."""
    known = [await refused(bench, f"k{n}", tool=f"demo.t{n}") for n in range(TOOLS_MAX)]
    template = await refused(bench, "m", queue="none")
    made_up = [
        replace(
            template,
            call_key=bench.key(f"m{n}"),
            fields={**template.fields, "call_id": f"m{n}", "tool": f"invented.{n}"},
        )
        for n in range(10_000)
    ]
    for calls in (known, made_up):
        await asyncio.gather(*map(bench.ledger.dispatch, calls))
    seen = (await totals(bench)).ran()

    assert seen.pop("tool_error:none:_other") == 10_000
    assert seen == {f"tool_error:builtin:demo.t{n}": 1 for n in range(TOOLS_MAX)}


@pytest.mark.one_redis
async def test_tools_past_the_last_place_share_one(bench: LedgerBench) -> None:
    """Who came first keeps its place; nobody after them costs a field, whatever its outcome."""
    tools = [f"demo.t{n}" for n in range(TOOLS_MAX)]
    calls = [await refused(bench, f"k{n}", tool=tool) for n, tool in enumerate(tools)]
    await asyncio.gather(*map(bench.ledger.dispatch, calls))
    for n in range(5):
        await bench.ledger.dispatch(await refused(bench, f"late{n}", tool=f"demo.late{n}"))
    await bench.ledger.dispatch(bench.new_call("runs", tool="demo.late0"))
    await run_to_end(bench, "runs")
    await bench.ledger.dispatch(await refused(bench, "again", tool=tools[0]))
    seen = await totals(bench)

    assert seen.ran()["tool_error:builtin:_other"] == 5
    assert seen.ran(to_its_end=True) == {"ok:builtin:_other": 1}
    assert seen.ran()[f"tool_error:builtin:{tools[0]}"] == 2
    assert not [name for name in seen.tools if "late" in name]


async def test_rules_that_come_with_runs_do_not_crowd_out_others(bench: LedgerBench) -> None:
    """Each layer has its own places."""
    plan = [
        await refused(
            bench, f"c{n}", denied={"denied_by": "policy", "layer": "plan", "rule": f"r{n}"}
        )
        for n in range(RULES_MAX + 3)
    ]
    for call in plan:
        await bench.ledger.dispatch(call)
    told: dict[str, JsonValue] = {"denied_by": "policy", "layer": "platform", "rule": "no-rm"}
    await bench.ledger.dispatch(await refused(bench, "last", denied=told))
    seen = (await totals(bench)).rules

    assert seen["denied:plan:_other"] == 3
    assert sum(name.startswith("denied:plan:") for name in seen) == RULES_MAX + 1
    assert seen["denied:platform:no-rm"] == 1


async def test_a_name_too_long_to_keep_is_counted_with_the_others(bench: LedgerBench) -> None:
    """A server may name its tools as it likes; the totals stay small."""
    await bench.ledger.dispatch(await refused(bench, "c1", tool="mcp." + "x" * 300))

    assert (await totals(bench)).ran() == {"tool_error:builtin:_other": 1}


async def test_without_measuring_the_books_are_kept_all_the_same(bench: LedgerBench) -> None:
    """What a bench leaves out is only what the exporter alone wants."""
    books = Ledger(bench.redis, prefix=bench.settings.key_prefix, deadline_s=5, measured=False)
    measured, bench.ledger = bench.ledger, books
    await bench.ledger.dispatch(bench.new_call("c1"))
    await run_to_end(bench, "c1")
    bench.ledger = measured
    seen = await totals(bench)

    assert seen.of("finished") == {"builtin:ok": 1}
    assert seen.observed("took") == seen.observed("wait") == 0
    assert seen.tools == {}


async def test_measuring_a_call_takes_six_increments_and_no_other_command(
    bench: LedgerBench,
) -> None:
    """What it costs stays what it was measured to cost, whatever is added to the scripts."""
    books = Ledger(bench.redis, prefix=bench.settings.key_prefix, deadline_s=5, measured=False)
    measured = bench.ledger
    # The first call of a tool takes its place, and each duration its field.
    await bench.ledger.dispatch(bench.new_call("first"))
    await run_to_end(bench, "first")
    spent: list[dict[str, int]] = []
    for call_id, ledger in {"with": measured, "without": books}.items():
        bench.ledger = ledger
        before = await commands(bench)
        await bench.ledger.dispatch(bench.new_call(call_id))
        await run_to_end(bench, call_id)
        after = await commands(bench)
        spent.append({name: n - before.get(name, 0) for name, n in after.items()})
    bench.ledger = measured
    more = {name: n - spent[1].get(name, 0) for name, n in spent[0].items()}

    assert more.pop("cmdstat_hincrby") == 6
    # A duration that falls into a new bucket looks once whether its tool has a place.
    assert more.pop("cmdstat_hexists", 0) <= 1
    assert {
        name: n for name, n in more.items() if n and not name.startswith(OF_THE_CONNECTION)
    } == {}


async def commands(bench: LedgerBench) -> dict[str, int]:
    """Return how often each command was executed by the server."""
    stats = cast("dict[str, dict[str, int]]", await bench.redis.info("commandstats"))
    return {name: int(about["calls"]) for name, about in stats.items()}
