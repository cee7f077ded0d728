"""A builtin call that must stop has stopped when it is answered."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.component import team_tools
from tests.component.builtin_bench import (
    RUN_ID,
    claimed,
    context_of,
    run,
    text_of,
)
from tests.waiting import await_until
from toolrail_workers.builtin.executor import BuiltinExecutor
from toolrail_workers.builtin.locks import PathLocks, ThreadLocks
from toolrail_workers.builtin.paths import parse_path
from toolrail_workers.isolation.errors import ChildTimeout


async def test_a_process_tool_is_killed_at_its_deadline(
    executor: BuiltinExecutor, tmp_path: Path
) -> None:
    """Not only given up on: the process is gone."""
    marker = tmp_path / "pid"

    with pytest.raises(ChildTimeout):
        await run(executor, "team.hang", {"marker": str(marker)}, timeout_s=3.0)

    pid = int(marker.read_text())
    await await_until(lambda: not _lives(pid), "the child to be gone")
    assert (await run(executor, "team.add", {"a": 1})).structured == {"total": 2}


async def test_a_cancelled_process_tool_is_killed(
    executor: BuiltinExecutor, tmp_path: Path
) -> None:
    """Cancelling the call stops the work before the cancellation comes through."""
    marker = tmp_path / "pid"
    work = asyncio.create_task(run(executor, "team.hang", {"marker": str(marker)}))
    await await_until(lambda: marker.exists() and marker.read_text(), "the tool to start")

    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    pid = int(marker.read_text())
    await await_until(lambda: not _lives(pid), "the child to be gone")


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_cancelled_loop_tool_is_cancelled(executor: BuiltinExecutor) -> None:
    """An async function gets the cancellation itself."""
    work = asyncio.create_task(run(executor, "team.doze", {}))
    await await_until(team_tools.STARTED.is_set, "the tool to start")

    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_cancelled_thread_tool_that_had_its_effect_answers(
    executor: BuiltinExecutor,
) -> None:
    """To report a cancel would hide what happened."""
    work = asyncio.create_task(run(executor, "team.stubborn", {}))
    await await_until(team_tools.STARTED.is_set, "the tool to start")

    work.cancel()
    await asyncio.wait({work}, timeout=0)
    team_tools.RELEASED.set()

    assert text_of(await work) == "late"


async def test_a_thread_that_never_looks_up_does_not_hold_the_call(
    executor: BuiltinExecutor,
) -> None:
    """After the grace its slot counts as leaked and the cancellation comes through."""
    work = asyncio.create_task(run(executor, "team.stubborn", {}))
    await await_until(team_tools.STARTED.is_set, "the tool to start")

    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work


async def test_a_cancelled_write_that_waits_for_its_lock_writes_nothing(
    executor: BuiltinExecutor, tmp_path: Path
) -> None:
    """The thread notices, and the cancellation comes through."""
    await run(executor, "workspace.list_files", {})
    place = tmp_path / "workspaces" / RUN_ID / ".toolrail" / "locks"
    folder = os.open(place, os.O_RDONLY)
    holder = PathLocks(folder, ThreadLocks())

    with holder.hold([parse_path("output/a.txt")], lambda: None):
        call = claimed("workspace.write_file", {"path": "output/a.txt", "content": "hi"})
        work = asyncio.create_task(executor.execute(call, context_of(call)))
        await asyncio.wait({work}, timeout=0)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    os.close(folder)

    assert not (place.parent.parent / "output" / "a.txt").exists()
