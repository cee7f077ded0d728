"""The watchdog: it ends a worker that stands still, and no other."""

import asyncio
import threading

from tests.waiting import await_until
from tests.workers import FakeControl, WorkerBench
from toolrail_workers.watchdog import LagWatch, StallWatch, queue_lengths


def stall_watch(bench: WorkerBench, *, limit_s: float, is_foreign: bool = False) -> StallWatch:
    """Return a watch over the bench's queue."""
    return StallWatch(
        bench.calls.redis,
        control=bench.control,
        lengths=queue_lengths(bench.calls.keys, ["builtin"], is_foreign=is_foreign),
        limit_s=limit_s,
        deadline_s=5.0,
    )


async def test_a_consumer_that_leaves_work_lying_is_ended(bench: WorkerBench) -> None:
    """It has room, doorbells wait, and it takes none of them."""
    await bench.dispatch("c1", bench.add("demo.echo"))
    watch = stall_watch(bench, limit_s=0.05)

    async def is_noticed() -> bool:
        await watch.check()
        return bool(bench.control.reasons)

    await await_until(is_noticed, "the standstill is noticed")
    assert "no doorbell was taken" in bench.control.reasons[0]


async def test_behind_a_foreign_broker_the_calls_themselves_are_counted(
    bench: WorkerBench,
) -> None:
    """Its queues cannot be asked for their length through Redis."""
    await bench.dispatch_unheard("c1", bench.add("demo.echo"))
    watch, blind = stall_watch(bench, limit_s=0.0), stall_watch(bench, limit_s=0.0, is_foreign=True)
    for _ in range(3):
        await watch.check()
    own = list(bench.control.reasons)
    for _ in range(3):
        await blind.check()

    assert own == []
    assert bench.control.reasons != []


async def test_a_worker_with_an_excuse_is_left_alone(bench: WorkerBench) -> None:
    """An empty queue, no free slot, or a doorbell since the last look."""
    watch = stall_watch(bench, limit_s=0.0)
    for _ in range(3):
        await watch.check()
    await bench.dispatch("c1", bench.add("demo.echo"))
    bench.control.busy = 10
    for _ in range(3):
        await watch.check()
    bench.control.busy = 0
    for _ in range(3):
        bench.control.doorbells += 1
        await watch.check()

    assert bench.control.reasons == []


async def test_a_blocked_loop_ends_the_process() -> None:
    """Nothing on the loop could notice it, so a thread does."""
    stuck = threading.Event()
    lags: list[float] = []

    def note(lag_s: float) -> None:
        lags.append(lag_s)
        stuck.set()

    watch = LagWatch(0.05, on_stuck=note)
    watch.start()
    was_noticed = stuck.wait(10)
    watch.stop()

    assert was_noticed
    assert lags[0] > 0.05


async def test_a_loop_that_turns_is_left_alone() -> None:
    """Beats come in time; a stopped watch looks no more."""
    lags: list[float] = []
    watch = LagWatch(5.0, on_stuck=lags.append)
    watch.start()
    await asyncio.sleep(0)
    watch.stop()

    assert lags == []


def test_a_control_notes_what_it_was_asked() -> None:
    """The double of the pool has behaviour that the other tests rely on."""
    control = FakeControl()
    control.exit_worker("because")

    assert control.reasons == ["because"]
    assert control.stats().slots == 10
