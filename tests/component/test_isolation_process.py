"""Process-isolated calls: answers, crashes, deadlines, and what is left behind.

Is: `ProcessChildren` against real processes. Is not: its limits (`test_isolation_limits.py`).
Above: pytest. Below: `tests/isolated.py`, `isolation_tools.py`.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from pydantic import JsonValue

from tests.isolated import (
    LIMIT_BYTES,
    Run,
    call_of,
    is_alive,
    pool,
    read_pid,
    run,
    single,
    started,
    tools_importable,
)
from tests.waiting import await_until, wait_until
from toolrail.errors import SystemFailure, ToolError
from toolrail.settings import own_environment
from toolrail_workers.isolation.child import ChildLimits
from toolrail_workers.isolation.errors import (
    ChildDied,
    ChildTimeout,
    ChildUnavailable,
    ToolNotLoaded,
    ToolRaised,
)
from toolrail_workers.isolation.process import IsolatedCall, ProcessChildren
from toolrail_workers.loop_thread import LoopThread

__all__ = ["pool", "run", "single", "tools_importable"]


async def test_a_function_returns_its_arguments_as_json(run: Run) -> None:
    """Send nested JSON and unusual text through a child and back."""
    arguments: dict[str, JsonValue] = {"text": "zażółć \x00 🎈", "nested": [{"a": [1.5, None]}]}

    answer = await run("echo", **arguments)

    assert answer == arguments


async def test_an_async_function_is_awaited(run: Run) -> None:
    """Run a coroutine function twice in one child, on one event loop."""
    answers = [await run("echo_later", value=number) for number in range(4)]

    assert answers == [0, 1, 2, 3]


async def test_an_object_with_call_isolated_gets_the_context(pool: ProcessChildren) -> None:
    """Pass the small context dict to an object that wants the whole call."""
    answer = await pool.call(
        IsolatedCall(
            target="isolation_tools:WHOLE",
            arguments={"n": 1},
            context={"run_id": "run_1"},
            timeout_s=30,
            max_output_bytes=LIMIT_BYTES,
        )
    )

    assert answer == [{"n": 1}, {"run_id": "run_1"}]


async def test_children_are_reused(single: ProcessChildren) -> None:
    """Run many calls in one child process."""
    pids = {str(await single.call(call_of("who"))) for _ in range(20)}

    assert len(pids) == 1


async def test_a_child_is_replaced_after_its_calls() -> None:
    """Give each child three calls; ten calls need four children."""
    pool = await started(children=1, calls_per_child=3)

    pids = [str(await pool.call(call_of("who"))) for _ in range(10)]
    await pool.stop()

    assert len(set(pids)) == 4


async def test_calls_wait_in_line_for_a_free_child(pool: ProcessChildren) -> None:
    """Start far more calls than there are children."""
    answers = await asyncio.gather(*(pool.call(call_of("echo", n=n)) for n in range(50)))

    assert answers == [{"n": n} for n in range(50)]
    assert len(pool.pids) == 2


async def test_an_exception_arrives_as_its_type_alone(run: Run) -> None:
    """What it said may be no model's business; the model reads what to do instead."""
    with pytest.raises(ToolRaised) as caught:
        await run("raise_value_error", text="no such row")

    assert caught.value.exception_type == "ValueError"
    assert caught.value.message == "The tool failed: ValueError."
    assert caught.value.next_action is not None
    assert caught.value.code == "tool.execution_failed"


async def test_a_tool_error_keeps_its_code_and_repair_data(run: Run) -> None:
    """What a tool says about its own failure survives the process boundary."""
    with pytest.raises(ToolError) as caught:
        await run("raise_tool_error")

    error = caught.value
    assert (error.code, error.message, error.next_action, error.structured) == (
        "demo.refused",
        "not today",
        "Ask tomorrow.",
        {"day": 2},
    )


async def test_a_system_failure_stays_one(run: Run) -> None:
    """A tool that declares the system broken is believed."""
    with pytest.raises(SystemFailure) as caught:
        await run("raise_system_failure")

    assert caught.value.code == "demo.broken"


async def test_sys_exit_is_only_an_answer(single: ProcessChildren) -> None:
    """A tool that calls `sys.exit` fails its call and not its child."""
    before = await single.call(call_of("who"))
    with pytest.raises(ToolRaised, match="SystemExit"):
        await single.call(call_of("say_exit"))

    assert await single.call(call_of("who")) == before


@pytest.mark.parametrize(
    ("function", "arguments", "exit_code"),
    [("leave", {"code": 7}, 7), ("leave", {"code": 0}, 0), ("segfault", {}, -signal.SIGSEGV)],
)
async def test_a_dead_child_is_an_answer(
    run: Run, function: str, arguments: dict[str, JsonValue], exit_code: int
) -> None:
    """A crash, `os._exit` and a segfault fail their call; the next one is unharmed."""
    with pytest.raises(ChildDied) as caught:
        await run(function, **arguments)

    assert caught.value.exit_code == exit_code
    assert await run("echo", n=1) == {"n": 1}


async def test_a_call_is_killed_at_its_deadline(pool: ProcessChildren, tmp_path: Path) -> None:
    """A busy loop is gone when the error arrives; the same pool answers the next call."""
    file = tmp_path / "pid"
    with pytest.raises(ChildTimeout) as caught:
        await pool.call(call_of("spin", timeout_s=0.3, pid_file=str(file)))

    await await_until(lambda: not is_alive(read_pid(file)), "the child is dead")
    assert caught.value.code == "tool.timeout"
    assert await pool.call(call_of("echo", n=1)) == {"n": 1}


async def test_a_cancelled_call_is_killed(pool: ProcessChildren, tmp_path: Path) -> None:
    """Cancelling the awaiting task kills the tool, whatever it does."""
    file = tmp_path / "pid"
    task = asyncio.create_task(pool.call(call_of("spin", pid_file=str(file))))
    await await_until(lambda: read_pid(file), "the tool runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await await_until(lambda: not is_alive(read_pid(file)), "the child is dead")
    assert await pool.call(call_of("echo", n=1)) == {"n": 1}


async def test_the_deadline_counts_waiting_for_a_child(
    single: ProcessChildren, tmp_path: Path
) -> None:
    """A call that never got a child times out, and the child of the other call lives."""
    file = tmp_path / "pid"
    busy = asyncio.create_task(single.call(call_of("spin", pid_file=str(file))))
    await await_until(lambda: read_pid(file), "the child is busy")
    with pytest.raises(ChildTimeout):
        await single.call(call_of("echo", timeout_s=0.05))

    assert is_alive(read_pid(file))
    assert single.waiting == 0
    busy.cancel()
    await asyncio.gather(busy, return_exceptions=True)


@pytest.mark.parametrize("function", ["hang_with_sleeper", "start_daemon"])
async def test_what_a_tool_started_dies_with_it(
    pool: ProcessChildren, tmp_path: Path, function: str
) -> None:
    """A grandchild dies at the deadline, even one that left the process group."""
    file = tmp_path / "pid"
    call = asyncio.create_task(pool.call(call_of(function, pid_file=str(file))))
    await await_until(lambda: read_pid(file), "the grandchild runs")
    assert is_alive(read_pid(file))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    await await_until(lambda: not is_alive(read_pid(file)), "the grandchild is dead")


async def test_a_process_left_behind_is_killed_after_the_call(
    single: ProcessChildren, tmp_path: Path
) -> None:
    """A call that returns and leaves a process keeps its answer and loses the process."""
    file = tmp_path / "pid"
    before = await single.call(call_of("who"))
    pid = await single.call(call_of("start_sleeper", pid_file=str(file)))

    assert pid == read_pid(file)
    await await_until(lambda: not is_alive(read_pid(file)), "the process is dead")
    assert await single.call(call_of("who")) != before


@pytest.mark.parametrize("name", ["absent", "NOT_CALLABLE", "WHOLE.absent"])
async def test_a_function_that_cannot_be_loaded_is_a_system_failure(run: Run, name: str) -> None:
    """A wrong name is the operator's fault and is said plainly."""
    with pytest.raises(ToolNotLoaded, match=name):
        await run(name)


async def test_a_dead_guard_is_started_again(pool: ProcessChildren) -> None:
    """Killing the guard fails the running call and no later one."""
    await pool.call(call_of("echo"))
    guard = psutil.Process(pool.pids[0]).parent()
    assert guard is not None
    old = set(pool.pids)
    running = asyncio.create_task(pool.call(call_of("hang_in_c")))
    await asyncio.sleep(0)
    guard.kill()
    with pytest.raises(ChildDied):
        await running

    assert await pool.call(call_of("echo", n=1)) == {"n": 1}
    await await_until(lambda: not any(map(is_alive, old)), "the old children are dead")


def test_children_serve_a_loop_that_is_not_on_the_main_thread() -> None:
    """Run in the worker's arrangement: loop in a second thread, a default socket timeout set."""
    thread = LoopThread("test")

    async def use() -> JsonValue:
        pool = await started(children=1)
        answer = await pool.call(call_of("echo", n=1))
        await pool.stop()
        return answer

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(5.0)
    try:
        answer = thread.submit(use()).result(timeout=30)
    finally:
        socket.setdefaulttimeout(before)
        thread.stop(patience_s=5)

    assert answer == {"n": 1}


async def test_calls_are_refused_when_no_child_can_start() -> None:
    """With an impossible limit a call fails for its true reason, long before its deadline."""
    pool = await started(limits=ChildLimits(open_files=0))
    with pytest.raises(ChildUnavailable):
        await pool.call(call_of("echo"))

    await pool.stop()


async def test_stop_kills_the_running_and_refuses_the_waiting(
    single: ProcessChildren, tmp_path: Path
) -> None:
    """After stop no process is left and no call hangs."""
    file = tmp_path / "pid"
    running = asyncio.create_task(single.call(call_of("spin", pid_file=str(file))))
    await await_until(lambda: read_pid(file), "the tool runs")
    waiting = asyncio.create_task(single.call(call_of("echo")))
    await await_until(lambda: single.waiting == 1, "the other call waits")
    await single.stop()
    outcomes = await asyncio.gather(running, waiting, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [ChildDied, ChildUnavailable]
    assert not is_alive(read_pid(file))
    with pytest.raises(ChildUnavailable):
        await single.call(call_of("echo"))


WORKER = """
import asyncio, sys
from toolrail_workers.isolation.process import IsolatedCall, ProcessChildren
from toolrail_workers.loop_thread import LoopThread

async def main():
    pool = ProcessChildren(children=1, calls_per_child=10, environment={})
    await pool.start()
    await pool.call(IsolatedCall(
        target="isolation_tools:hang_with_sleeper", arguments={"pid_file": sys.argv[1]},
        timeout_s=1000, max_output_bytes=1000,
    ))

asyncio.run(main())
"""


def test_everything_dies_when_the_worker_is_killed(tmp_path: Path) -> None:
    """SIGKILL a worker whose tool holds the interpreter lock and has started a process."""
    file = tmp_path / "pid"
    environment = own_environment() | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(file)], env=environment)
    wait_until(lambda: read_pid(file), "the grandchild runs", timeout_s=20)
    family = [*psutil.Process(worker.pid).children(recursive=True), psutil.Process(read_pid(file))]
    worker.kill()
    worker.wait()

    assert len({process.pid for process in family}) == 3  # guard, child, sleeper
    wait_until(lambda: not any(is_alive(process.pid) for process in family), "all of them are dead")


async def test_throughput_is_told(
    pool: ProcessChildren, record_property: Callable[..., None]
) -> None:
    """Measure trivial calls through two children; the number is for people, not a threshold."""
    await pool.call(call_of("echo"))
    count, at_once = 4_000, 32

    async def caller() -> None:
        for _ in range(count // at_once):
            await pool.call(call_of("echo", text="y" * 200, n=1))

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(at_once)))
    rate = count / (time.perf_counter() - began)
    print(f"\n{rate:,.0f} isolated calls/s through two children")  # noqa: T201

    record_property("isolated_calls_per_s", round(rate))
    assert rate > 0
