"""The bounded thread runner: results, limits, and the honesty about leaked threads.

Is: `ThreadRunner` alone. Is not: tools. Above: pytest. Below: real threads.
"""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.waiting import await_until
from toolrail_workers.isolation.thread import ThreadRunner, ThreadsExhausted


class Gate:
    """A function that waits until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def wait(self) -> str:
        self.entered.set()
        self.open.wait(30)
        return "through"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


async def test_a_result_and_an_exception_come_back() -> None:
    """A thread's outcome is its caller's outcome."""
    runner = ThreadRunner(2)
    assert await runner.run(lambda: 5) == 5
    with pytest.raises(ZeroDivisionError):
        await runner.run(lambda: 1 / 0)
    with pytest.raises(RuntimeError):
        await runner.run(lambda: next(iter(())))
    runner.close()


async def test_no_more_run_at_once_than_there_are_slots() -> None:
    """Twenty functions share three threads."""
    runner = ThreadRunner(3)
    lock, running, most = threading.Lock(), 0, 0

    def work() -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        with lock:
            running -= 1
        return threading.current_thread().name

    names = set(await asyncio.gather(*(runner.run(work) for _ in range(20))))
    runner.close()

    assert most <= 3
    assert len(names) <= 3


async def test_an_abandoned_thread_is_counted_until_it_returns(gate: Gate) -> None:
    """Cancelling the caller leaks the slot; the function's return gives it back."""
    runner = ThreadRunner(1)
    call = asyncio.create_task(runner.run(gate.wait))
    await await_until(gate.entered.is_set, "the function runs")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert runner.leaked == 1
    with pytest.raises(ThreadsExhausted):
        await runner.run(lambda: 1)
    gate.open.set()
    await await_until(lambda: runner.leaked == 0, "the slot is back")
    assert await runner.run(lambda: 2) == 2
    runner.close()


async def test_a_caller_that_gives_up_in_line_leaks_nothing(gate: Gate) -> None:
    """A function that was never started is not a leak."""
    runner = ThreadRunner(1)
    first = asyncio.create_task(runner.run(gate.wait))
    await await_until(gate.entered.is_set, "the only thread is busy")
    second = asyncio.create_task(runner.run(lambda: 1))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)

    assert runner.leaked == 0
    gate.open.set()
    assert await first == "through"
    runner.close()
