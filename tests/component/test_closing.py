"""Closing calls from outside: by their client, or because their run ends."""

import pytest

from tests.functions import Gate
from tests.workers import WorkerBench
from toolrail.closing import cancel_call, close_call, close_open_calls
from toolrail.errors import CallNotFound
from toolrail.results import load_result
from toolrail_schemas import TextBlock, error_info


async def test_a_cancelled_approval_is_no_longer_asked_for(bench: WorkerBench) -> None:
    """The question is withdrawn with its call."""
    await bench.calls.ledger.dispatch(await bench.calls.parked_call("c1"))
    state = await bench.cancel("c1")
    record = await bench.calls.call("c1")

    assert state == "failed"
    assert record.fields["approval_state"] == "cancelled"
    assert (await bench.result("c1")).error_code == "tool.cancelled"


async def test_cancelling_what_has_ended_changes_nothing(bench: WorkerBench) -> None:
    """The result stands."""
    spec = bench.add("demo.echo")
    await bench.start_worker()
    await bench.run_call(spec)

    assert await bench.cancel("c1") == "completed"
    assert not (await bench.result("c1")).is_error


async def test_cancelling_what_is_unknown_is_an_error(bench: WorkerBench) -> None:
    """The key is wrong, or the call is forgotten."""
    calls = bench.calls
    with pytest.raises(CallNotFound):
        await cancel_call(
            calls.ledger, calls.reader, calls.blobs, calls.run_id, "0" * 16, actor="user:x"
        )


async def test_closing_says_how_many_calls_still_run(bench: WorkerBench) -> None:
    """Waiting ones are closed at once, running ones end with their worker."""
    gate = Gate()
    spec = bench.add("demo.gate", gate)
    runtime = await bench.start_worker(renew_s=10.0)
    await bench.dispatch("runs", spec)
    await gate.entered.wait()
    await bench.stop_pop(runtime)
    for number in range(3):
        await bench.dispatch(f"waits{number}", spec)
    calls = bench.calls
    closing = await close_open_calls(
        calls.ledger, calls.reader, calls.blobs, calls.run_id, actor="runtime:test"
    )

    assert (closing.seen, closing.running) == (4, 1)
    assert (await bench.result("runs")).error_code == "tool.cancelled"
    for number in range(3):
        result = await bench.result(f"waits{number}")
        assert result.error_code == "tool.cancelled"
        assert result.usage.attempts == 0


async def test_an_edited_call_that_no_worker_ends_tells_of_the_edit(bench: WorkerBench) -> None:
    """Cancelled, out of time, lost, or without a journal: the model must not take the arguments
    for its own."""
    spec, edited = bench.add("demo.echo"), "to: nobody"
    for call_id in ("cancelled", "late", "lost", "unread"):
        await bench.dispatch(call_id, spec, edited=edited)
    await bench.cancel("cancelled")
    calls = bench.calls
    for call_id, code in (("late", "tool.timeout"), ("lost", "tool.outcome_unknown")):
        record = await calls.call(call_id)
        await close_call(
            calls.ledger, calls.blobs, record, guard="queued", code=code, actor="runtime:test"
        )
    unread = await load_result(await calls.call("unread"), calls.blobs)

    for result in (
        *[await bench.result(call_id) for call_id in ("cancelled", "late", "lost")],
        unread,
    ):
        notice, why = [block.text for block in result.content if isinstance(block, TextBlock)]
        assert notice.endswith("The approved arguments are: to: nobody")
        assert why.startswith(error_info(result.error_code or "").sentence)
