"""What is refused says why and what to do, and leaves the ledger consistent."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.promises import promise
from toolrail import CallRequest, Settings, Toolrail
from toolrail.errors import (
    CallError,
    ConfigError,
    RedisError,
    RedisUnavailable,
    RunClosed,
    RunNotFound,
    SystemFailure,
    UnknownProfile,
)
from toolrail.redis_io import command, retrying
from toolrail.results import error_text
from toolrail_schemas import RunLimits


@pytest.fixture
def policy_dir(tmp_path: Path) -> Path:
    """Write the policy folder of these tests."""
    return write_policy(tmp_path / "policy")


@pytest.fixture
async def cell(settings: Settings, policy_dir: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    async with open_cell(settings.model_copy(update={"policy_dir": policy_dir})) as cell:
        yield cell


BAD_ARGUMENTS = {
    "not JSON": ("{text", "not JSON"),
    "an array": ("[1]", "array, not an object"),
    "a number": ("3", "number, not an object"),
    "a key twice": ('{"text": "a", "text": "b"}', "twice"),
    "NaN": ('{"text": NaN}', "NaN"),
    "NaN in an object": ({"text": float("nan")}, "NaN"),
    "a lone surrogate": ('{"text": "\\ud800"}', "surrogate"),
    "a raw lone surrogate": ('{"text": "\ud800"}', "surrogate"),
    "two MiB": (json.dumps({"text": "x" * 2**21}), "1048576"),
    "a missing key": ("{}", "text"),
    "an unknown key": ('{"text": "a", "colour": "b"}', "Known keys: text"),
    "a wrong type": ('{"text": 1}', "string"),
    "not UTF-8": (b"\xff{}", "UTF-8"),
    "a number no one can read": ('{"text": ' + "1" * 5000 + "}", "too many digits"),
    "a number no one can write": ({"text": 10**5000}, "not JSON"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
async def test_bad_arguments_are_a_result_that_says_what_is_wrong(cell: Cell, case: str) -> None:
    """The model reads the problem and the remedy; the run goes on and no worker is asked."""
    arguments, expected = BAD_ARGUMENTS[case]
    run = await opened(cell)
    result = await run.call("demo.echo", arguments, id="c1", timeout_s=5)  # type: ignore[arg-type]

    assert (result.is_error, result.error_code) == (True, "tool.invalid_arguments")
    assert expected in error_text(result)
    assert await run.status() == "open"
    assert [str(event.type) for event in await run.journal() if "tool" in event.type] == [
        "tool_call_requested",
        "tool_result_stored",
        "tool_call_failed",
    ]


async def test_nothing_at_all_counts_as_an_empty_object(cell: Cell) -> None:
    """Providers send an empty string or null for a tool without arguments."""
    run = await opened(cell)
    results = [
        await run.call("demo.echo", arguments, id=f"c{n}", timeout_s=5)
        for n, arguments in enumerate((None, "", "{}", "null"))
    ]

    assert {result.error_code for result in results} == {"tool.invalid_arguments"}
    assert all("required" in error_text(result) for result in results)


async def test_an_unknown_tool_reads_like_one_that_is_not_allowed(cell: Cell) -> None:
    """A model cannot find out which hidden tools exist; the journal knows the difference."""
    run = await opened(cell)
    names = {"vault.nothing": "vault.open", "vault__nothing": "vault__open"}
    for number, (nothing, existing) in enumerate(names.items()):
        unknown = await run.call(nothing, {}, id=f"u{number}", timeout_s=5)
        hidden = await run.call(existing, {"text": "a"}, id=f"h{number}", timeout_s=5)

        assert (unknown.name, hidden.name) == (nothing, existing)
        assert unknown.content == hidden.content
        assert (unknown.error_code, hidden.error_code) == ("tool.not_found", "policy.not_allowed")
    denied = [e.payload for e in await run.journal() if e.type == "tool_call_denied"]
    totals = await cell.bench.reader.totals()

    assert [(said["name"], said["denied_by"]) for said in denied] == [("vault.open", "policy")] * 2
    assert totals["finished:builtin:denied"] == 2


async def test_a_call_too_late_to_be_judged_tells_nothing_either(cell: Cell) -> None:
    """After the tool that ends the run, hidden and unknown tools are refused alike."""
    run = await opened(cell)
    names = ["demo__finish", "vault__open", "vault__nothing"]
    calls = [CallRequest(id=name, name=name, arguments={"text": "a"}) for name in names]
    async with serve(cell):
        _, *late = await run.call_many(calls, timeout_s=10)

    assert [(result.name, result.error_code) for result in late] == [
        ("vault__open", "tool.after_finish"),
        ("vault__nothing", "tool.after_finish"),
    ]


@promise("call.denied-never-queued")
async def test_a_denial_fails_the_run_unless_the_policy_says_return(cell: Cell) -> None:
    """`fail_fast` is the default, `return_result` lets the model go on."""
    gentle, strict = await opened(cell), await opened(cell, "strict")
    first = await gentle.call("demo.denied", {"text": "a"}, id="c1", timeout_s=5)
    second = await strict.call("demo.denied", {"text": "a"}, id="c1", timeout_s=5)

    assert (first.error_code, second.error_code) == ("policy.denied", "policy.denied")
    assert (await gentle.status(), await strict.status()) == ("open", "failed")
    with pytest.raises(RunClosed, match="Open a new run"):
        await strict.call("demo.echo", {"text": "a"}, id="c2")


async def test_a_strict_plan_may_let_the_model_go_on(cell: Cell) -> None:
    """`fail_fast` is only the default of what a plan does not list."""
    gentle = {"mode": "strict", "allow": ["demo.turn"], "on_denied": "return_result"}
    strict = {"mode": "strict", "allow": ["demo.turn"]}
    runs = [await opened(cell, plan=plan) for plan in (gentle, strict)]
    results = [await run.call("demo.echo", {"text": "a"}, id="c1", timeout_s=5) for run in runs]

    assert {result.error_code for result in results} == {"policy.plan_violation"}
    assert [await run.status() for run in runs] == ["open", "failed"]
    assert "plan_policy_violation" in [str(event.type) for event in await runs[0].journal()]


async def test_a_model_that_never_learns_is_stopped(cell: Cell) -> None:
    """Invalid calls count like denied ones."""
    run = await opened(cell, limits=RunLimits(max_denied=2))
    for n in range(3):
        await run.call("demo.echo", {}, id=f"c{n}", timeout_s=5)

    assert await run.status() == "failed"
    assert (await run.record())["code"] == "run.drift_limit"


async def test_a_call_that_needs_a_person_is_refused_when_nobody_can_be_asked(cell: Cell) -> None:
    """Headless is a refusal, never a yes."""
    run = await opened(cell)
    result = await run.call("demo.ask", {"text": "a"}, id="c1", timeout_s=5)

    assert result.error_code == "approval.denied"
    assert "nobody to ask" in error_text(result)


async def test_a_used_up_budget_is_a_result_and_costs_nothing(cell: Cell) -> None:
    """The second call of a tool with one unit is refused; the run goes on."""
    run = await opened(cell)
    async with serve(cell):
        await run.call("demo.once", {"text": "a"}, id="c1", timeout_s=10)
        refused = await run.call("demo.once", {"text": "b"}, id="c2", timeout_s=10)

    assert refused.error_code == "tool.budget_exhausted"
    assert await run.status() == "open"


async def test_the_surplus_calls_of_a_turn_are_refused_in_order(cell: Cell) -> None:
    """The first two of four run."""
    run = await opened(cell)
    requests = [
        CallRequest(id=f"c{n}", name="demo.turn", arguments={"text": "a"}) for n in range(4)
    ]
    async with serve(cell):
        results = await run.call_many(requests, timeout_s=10)

    assert [result.error_code for result in results] == [
        None,
        None,
        "tool.turn_budget_exhausted",
        "tool.turn_budget_exhausted",
    ]


async def test_a_finishing_call_is_refused_while_others_run(cell: Cell) -> None:
    """Nothing is cut off by a model that finishes too early."""
    run = await opened(cell)
    await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    result = await run.call("demo.finish", {"text": "a"}, id="c2", timeout_s=5)

    assert result.error_code == "workspace.calls_pending"
    await run.cancel()


async def test_a_call_without_an_id_fails_the_run(cell: Cell) -> None:
    """No id is ever invented here."""
    run = await opened(cell)
    with pytest.raises(SystemFailure, match="without an id") as caught:
        await run.call("demo.echo", {"text": "a"}, id="")

    assert caught.value.code == "model.tool_call_id_missing"
    assert await run.status() == "failed"


async def test_two_calls_of_a_turn_with_one_id_fail_the_run(cell: Cell) -> None:
    """Their results could not be told apart."""
    run = await opened(cell)
    twice = [CallRequest(id="c", name="demo.echo", arguments={"text": "a"})] * 2
    with pytest.raises(SystemFailure) as caught:
        await run.call_many(twice)

    assert caught.value.code == "model.duplicate_tool_call_id"
    assert await run.status() == "failed"


@pytest.mark.parametrize("call_id", ["x" * 300, "a\x00b", "\ud800"], ids=["long", "nul", "half"])
async def test_an_id_that_cannot_name_a_call_is_refused(cell: Cell, call_id: str) -> None:
    """Nothing is recorded, and the message says what an id may be."""
    run = await opened(cell)
    with pytest.raises(CallError, match="provider's id"):
        await run.call("demo.echo", {"text": "a"}, id=call_id)

    assert await run.status() == "open"
    assert not [event for event in await run.journal() if "tool" in event.type]


@pytest.mark.parametrize("turn", [-1, 2**31 + 1, 10**5000], ids=["negative", "large", "huge"])
async def test_a_turn_that_is_no_number_of_a_response_is_refused(cell: Cell, turn: int) -> None:
    """Else the journal could not say which it was."""
    run = await opened(cell)
    with pytest.raises(CallError, match="from 0"):
        await run.call("demo.echo", {"text": "a"}, id="c1", turn=turn)

    assert not [event for event in await run.journal() if "tool" in event.type]


@pytest.mark.parametrize("metadata", [{"sig": "x" * 2**16}, {"sig": 2**70}], ids=["big", "odd"])
async def test_metadata_that_cannot_be_kept_is_refused_with_a_way_out(
    cell: Cell, metadata: dict[str, JsonValue]
) -> None:
    """Nothing was recorded."""
    run = await opened(cell)
    request = CallRequest(id="c1", name="demo.echo", provider_metadata=metadata)
    with pytest.raises(CallError, match=r"provider_metadata .*\. (Keep|Pass)"):
        await run.dispatch(request)

    assert not [event for event in await run.journal() if "tool" in event.type]


async def test_a_command_that_redis_refuses_says_what_to_check(cell: Cell) -> None:
    """A missing right, or a server without the command."""
    with pytest.raises(RedisError, match="toolrail doctor"):
        await retrying(lambda: command(cell.bench.redis, "NO.SUCH"), deadline_s=5)


@pytest.mark.parametrize(
    "run_id", ["", "run_*", "run_{}", "a:b\nc", "run_" + "0" * 26, "run_" + "*" * 26]
)
async def test_what_is_no_run_is_not_found(cell: Cell, run_id: str) -> None:
    """Odd characters reach no key."""
    with pytest.raises(RunNotFound, match="There is no run"):
        await cell.rail.run(run_id)


async def test_an_unknown_profile_names_those_there_are(cell: Cell) -> None:
    """A typo gets a suggestion."""
    with pytest.raises(UnknownProfile, match="agent"):
        await opened(cell, "agnet")


async def test_a_bad_plan_names_its_key(cell: Cell) -> None:
    """A plan node is checked like a policy file."""
    with pytest.raises(ConfigError, match="plan"):
        await opened(cell, plan={"alow": ["demo.*"]})


@pytest.mark.one_redis
async def test_redis_down_at_start_is_one_clear_error(settings: Settings) -> None:
    """The client gives up in time and says what to check."""
    nowhere = settings.model_copy(
        update={"redis_url": "redis://127.0.0.1:1/0", "redis_timeout_s": 0.3}
    )
    with pytest.raises(RedisUnavailable, match="TOOLRAIL_REDIS_URL"):
        async with Toolrail(nowhere):
            pass
