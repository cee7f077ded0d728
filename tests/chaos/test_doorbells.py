"""Doorbells are lost, doubled and forged: calls come later, and nothing else changes."""

import asyncio
import signal

import pytest

from tests.chaos.clients import Caller
from tests.chaos.conftest import WORKERS
from tests.chaos.rig import LEASE_S, RECOVERY_S, Rig
from tests.waiting import await_until
from toolrail.request import Ticket
from toolrail_schemas import Doorbell

CALLS = 12
TOOLS = ("effects.once", "effects.again")

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]


async def answer_all(caller: Caller, tickets: dict[str, Ticket]) -> list[str | None]:
    """Return the error codes of all calls, which must come within the time of a recovery."""
    answers = (
        caller.answer(call_id, ticket, timeout_s=RECOVERY_S) for call_id, ticket in tickets.items()
    )
    return [result.error_code for result in await asyncio.gather(*answers)]


async def dispatch_all(caller: Caller) -> dict[str, Ticket]:
    """Dispatch calls of both kinds."""
    return {
        call_id: await caller.dispatch(call_id, TOOLS[number % 2])
        for number, call_id in enumerate(caller.ids(CALLS))
    }


async def test_a_doorbell_popped_by_a_worker_that_dies_is_rung_again(
    rig: Rig, caller: Caller
) -> None:
    """The BLMPOP of a frozen worker takes the doorbell, and SIGKILL takes the worker (E2)."""
    await rig.until_all_wait()
    for name in WORKERS:
        rig.signal(name, signal.SIGSTOP)
    tickets = await dispatch_all(caller)
    in_queue = rig.messages()
    rig.cluster.kill_worker(WORKERS[0])
    rig.signal(WORKERS[1], signal.SIGCONT)
    codes = await answer_all(caller, tickets)

    assert in_queue == CALLS - len(WORKERS), "the command of each frozen worker has popped one"
    assert codes == [None] * CALLS


async def test_deleted_doorbells_are_rung_again(rig: Rig, caller: Caller) -> None:
    """All of them are gone before any worker looks."""
    rig.freeze(*WORKERS)
    tickets = await dispatch_all(caller)
    with rig.redis() as client:
        deleted = client.llen(rig.keys.queue("builtin"))
        client.delete(rig.keys.queue("builtin"))
    for name in WORKERS:
        rig.signal(name, signal.SIGCONT)
    codes = await answer_all(caller, tickets)

    assert deleted == CALLS
    assert codes == [None] * CALLS


async def test_doorbells_that_ring_three_times_more_start_nothing_twice(
    rig: Rig, caller: Caller
) -> None:
    """Before the claim, while the tool works, and after the end (E3)."""
    tickets: dict[str, Ticket] = {}
    for number, call_id in enumerate(caller.ids(CALLS)):
        name = TOOLS[number % 2]
        tickets[call_id] = await caller.dispatch(call_id, name, after_s=LEASE_S / 4)
        rig.ring(rig.bell(tickets[call_id]), times=3)
    await rig.until_effect(next(iter(tickets)))
    for ticket in tickets.values():
        rig.ring(rig.bell(ticket), times=3)
    codes = await answer_all(caller, tickets)
    for ticket in tickets.values():
        rig.ring(rig.bell(ticket), times=3)
    await await_until(lambda: rig.messages() == 0, "the last doorbells are popped")
    # They were popped before these calls' own, and are looked at before.
    await asyncio.gather(
        *(caller.call(call_id, TOOLS[0]) for call_id in caller.ids(2 * CALLS)[CALLS:])
    )
    starts = [rig.kinds(call_id).count("tool_call_started") for call_id in tickets]

    assert codes == [None] * CALLS
    assert starts == [1] * CALLS
    assert [len(rig.histories.effects(call_id)) for call_id in tickets] == [1] * CALLS


async def test_a_forged_doorbell_opens_nothing(rig: Rig, caller: Caller) -> None:
    """Without the secret nobody makes a worker look; the true one does, and once."""
    [call_id] = caller.ids(1)
    slow = await caller.dispatch(call_id, "effects.once", after_s=LEASE_S / 2)
    true = rig.bell(slow)
    forged = [
        true.model_copy(update={"mac": "0" * 64}),
        Doorbell.ring(
            b"another secret, of somebody else",
            run_id=true.run_id,
            call_key=true.call_key,
            attempt=true.attempt,
        ),
        true.model_copy(update={"attempt": 2}),
    ]
    for bell in forged:
        rig.ring(bell, times=2)
    result = await caller.answer(call_id, slow, timeout_s=RECOVERY_S)
    await await_until(lambda: rig.messages() == 0, "the forged doorbells are looked at")

    def refused() -> int:
        return sum("doorbell.forged" in line for line in rig.cluster.lines())

    await await_until(lambda: refused() == 2 * len(forged), "each forgery is told")

    assert result.error_code is None
    assert rig.kinds(call_id).count("tool_call_started") == 1
