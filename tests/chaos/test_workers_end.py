"""Workers are killed, frozen, cut off and told to stop in the middle of calls."""

import asyncio
import signal
from pathlib import Path

import psutil
import pytest
from pydantic import JsonValue

from tests.chaos.clients import Caller
from tests.chaos.conftest import WORKERS
from tests.chaos.rig import RECOVERY_S, Rig
from tests.promises import promise
from tests.waiting import await_until
from toolrail import CallRequest

CALLS = 12
FINISH = b"tool_call_completed"
"""Stands in the command that hands in a success."""
LONG_S = 30.0
"""Longer than any test: a call of it ends by what is done to its worker."""

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


@promise("call.survives-its-worker")
async def test_a_killed_workers_call_is_done_elsewhere_in_time(rig: Rig, caller: Caller) -> None:
    """SIGKILL after the claim of an idempotent call: a second attempt within lease + 5 s."""
    [call_id] = caller.ids(1)
    ticket = await caller.dispatch(call_id, "effects.again", before_s=LONG_S)
    rig.cluster.kill_worker(await rig.until_started(call_id))
    result = await caller.answer(call_id, ticket, timeout_s=RECOVERY_S)

    assert (result.error_code, result.usage.attempts) == (None, 2)
    assert rig.kinds(call_id).count("tool_attempt_lost") == 1


@promise("call.survives-its-worker")
async def test_a_killed_workers_unsafe_call_is_not_started_again(rig: Rig, caller: Caller) -> None:
    """SIGKILL after its effect: the outcome is unknown, and the effect happened once."""
    [call_id] = caller.ids(1)
    ticket = await caller.dispatch(call_id, "effects.once", after_s=LONG_S)
    name = await rig.until_started(call_id)
    await rig.until_effect(call_id)
    rig.cluster.kill_worker(name)
    result = await caller.answer(call_id, ticket, timeout_s=RECOVERY_S)

    assert result.error_code == "tool.outcome_unknown"
    assert len(rig.histories.effects(call_id)) == 1


async def test_a_frozen_workers_result_is_refused_and_journaled_late(
    rig: Rig, caller: Caller
) -> None:
    """Its finish is on the wire when it freezes past its lease, and arrives after the other's."""
    [call_id] = caller.ids(1)
    proxies = [rig.proxies[name] for name in WORKERS]
    for proxy in proxies:
        proxy.trap(FINISH)
    ticket = await caller.dispatch(call_id, "effects.again", after_s=0.2)
    name = await rig.until_started(call_id)
    proxy = rig.proxies[name]
    await await_until(lambda: proxy.holds("up", FINISH), "the finish is on the wire")
    for each in proxies:
        each.trap(b"")
    rig.signal(name, signal.SIGSTOP)
    result = await caller.answer(call_id, ticket, timeout_s=RECOVERY_S)
    proxy.open("up")
    await await_until(
        lambda: "tool_result_late" in rig.kinds(call_id),
        "the late result is journaled",
        timeout_s=RECOVERY_S,
    )
    rig.signal(name, signal.SIGCONT)
    again = await caller.answer(call_id, ticket, timeout_s=RECOVERY_S)

    assert (result.error_code, result.usage.attempts) == (None, 2)
    assert again == result


async def test_a_worker_that_wakes_after_its_lease_changes_nothing(
    rig: Rig, caller: Caller
) -> None:
    """SIGSTOP in the middle of the tool; the other's result stands when the first goes on."""
    [call_id] = caller.ids(1)
    ticket = await caller.dispatch(call_id, "effects.again", before_s=LONG_S)
    name = await rig.until_started(call_id)
    rig.signal(name, signal.SIGSTOP)
    result = await caller.answer(call_id, ticket, timeout_s=RECOVERY_S)
    rig.signal(name, signal.SIGCONT)
    again = await caller.answer(call_id, ticket, timeout_s=RECOVERY_S)

    assert (result.error_code, result.usage.attempts) == (None, 2)
    assert again == result


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
async def test_a_worker_told_to_stop_loses_and_doubles_nothing(
    rig: Rig, caller: Caller, number: signal.Signals
) -> None:
    """SIGTERM lets its calls end, SIGQUIT hands them over; no attempt is wasted by either (E4)."""
    ids = caller.ids(CALLS)
    tools = ("effects.once", "effects.again", "effects.isolated")
    tickets = [
        await caller.dispatch(call_id, tools[n % 3], before_s=0.2, after_s=0.4)
        for n, call_id in enumerate(ids)
    ]
    name = await rig.until_started(ids[0])
    starts = rig.cluster.starts(name)
    rig.signal(name, number)
    results = await asyncio.gather(
        *(
            caller.answer(call_id, ticket, timeout_s=RECOVERY_S)
            for call_id, ticket in zip(ids, tickets, strict=True)
        )
    )
    await rig.cluster.wait_ready(name, starts=starts + 1)
    codes = {result.error_code for result in results}

    assert codes <= ({None} if number is signal.SIGTERM else {None, "tool.outcome_unknown"})


async def test_a_runaway_and_its_child_die_at_the_deadline_and_harm_nobody(
    rig: Rig, caller: Caller, tmp_path: Path
) -> None:
    """Two processes burn a core each; both are gone, and calls beside them have their answers."""
    first, *others = caller.ids(CALLS)
    file = tmp_path / "pids"
    arguments: dict[str, JsonValue] = {"file": str(file)}
    ticket = await caller.run.dispatch(
        CallRequest(id=first, name="effects.run_away", arguments=arguments)
    )
    await await_until(lambda: file.exists() and file.read_text(), "it runs away", timeout_s=20)
    pids = [int(pid) for pid in file.read_text().split()]
    beside = [caller.call(call_id, "effects.once", timeout_s=RECOVERY_S) for call_id in others]
    results = await asyncio.gather(*beside)
    ended = await caller.run.wait(ticket, timeout_s=RECOVERY_S)
    await await_until(lambda: not any(map(psutil.pid_exists, pids)), "both are dead")

    assert len(pids) == 2
    assert ended.error_code == "tool.timeout"
    assert {result.error_code for result in results} == {None}
