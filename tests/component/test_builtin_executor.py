"""The builtin executor runs every tool where it belongs and ends every call as it should."""

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.component import team_tools
from tests.waiting import await_until
from toolrail.discovery import DiscoveredTools, discover_tools
from toolrail.errors import SystemFailure, ToolError
from toolrail.output import ToolOutput
from toolrail.settings import Settings
from toolrail.tool import Isolation, ToolContext, tool
from toolrail_schemas import (
    Caller,
    EventType,
    JsonBlock,
    JsonObject,
    Source,
    TextBlock,
)
from toolrail_workers.builtin.executor import OWNER, BuiltinExecutor, BuiltinLimits
from toolrail_workers.builtin.locks import PathLocks, ThreadLocks
from toolrail_workers.builtin.paths import parse_path
from toolrail_workers.builtin.workspace import TOOLS
from toolrail_workers.executor import ClaimedCall, Executor
from toolrail_workers.isolation.errors import ChildTimeout, OutputTooLarge, ToolRaised

RUN_ID = "run_01JDXZ0000000000000000000A"


class MemoryStore:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def put_blob(self, data: bytes, mime: str) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return sha256


def claimed(name: str, arguments: JsonObject, *, timeout_s: float = 20.0) -> ClaimedCall:
    return ClaimedCall(
        run_id=RUN_ID,
        call_key="0123456789abcdef",
        call_id="call-1",
        tool=name,
        source=Source.BUILT_IN,
        spec_hash="",
        arguments=arguments,
        attempt=1,
        fence=1,
        caller=Caller.ASSISTANT,
        tenant="t",
        profile="p",
        turn=0,
        timeout_s=timeout_s,
        max_output_bytes=1024 * 1024,
        max_output_tokens=8_000,
        policy_hash="",
        client="c",
    )


def context_of(call: ClaimedCall) -> ToolContext:
    return ToolContext(
        run_id=call.run_id,
        call_key=call.call_key,
        call_id=call.call_id,
        tool=call.tool,
        attempt=call.attempt,
        fence=call.fence,
        caller=call.caller,
        tenant=call.tenant,
        deadline=time.monotonic() + call.timeout_s,
    )


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[BuiltinExecutor]:
    """An executor of our tools and the team's, started."""
    team_tools.STARTED.clear()
    team_tools.RELEASED.clear()
    found = discover_tools(modules=["tests.component.team_tools"])
    made = BuiltinExecutor(
        found=found,
        workspace_root=tmp_path / "workspaces",
        limits=BuiltinLimits(threads=2, children=1),
    )
    await made.start(lambda: None)
    yield made
    team_tools.RELEASED.set()
    await made.stop()


async def run(
    executor: BuiltinExecutor, name: str, arguments: JsonObject, *, timeout_s: float = 20.0
) -> ToolOutput:
    call = claimed(name, arguments, timeout_s=timeout_s)
    return await executor.execute(call, context_of(call))


def text_of(output: ToolOutput) -> str:
    block = output.content[0]
    assert isinstance(block, TextBlock)
    return block.text


def test_it_is_an_executor_of_the_installed_tools(executor: BuiltinExecutor) -> None:
    """It offers our workspace tools and the team's, under one owner."""
    port: Executor = executor
    (owner,) = port.owners()

    names = {spec.name for spec in owner.specs}
    assert owner.owner == OWNER
    assert owner.available
    assert {spec.name for spec in (one.spec for one in TOOLS)} <= names
    assert "team.add" in names


def test_settings_make_it_too(tmp_path: Path) -> None:
    """Modules and places come from the settings; a broken module is reported."""
    settings = Settings(
        workspace_root=tmp_path, tool_modules=("tests.component.team_tools", "no_such_module")
    )

    made = BuiltinExecutor.from_settings(settings)

    assert any(spec.name == "team.add" for spec in made.owners()[0].specs)
    assert [broken.place for broken in made.broken] == ["module 'no_such_module'"]


async def test_a_process_tool_runs_in_another_process(executor: BuiltinExecutor) -> None:
    """It gets the facts of its call, no workspace, and no secret of the worker."""
    output = await run(executor, "team.where", {})

    block = output.content[0]
    assert isinstance(block, JsonBlock)
    assert isinstance(block.value, dict)
    assert block.value["pid"] != str(os.getpid())
    assert block.value["call_key"] == "0123456789abcdef"
    assert block.value["workspace"] == "None"
    assert block.value["secret"] == "none"  # the absence of one


async def test_a_process_tool_keeps_its_types_events_and_long_text(
    executor: BuiltinExecutor,
) -> None:
    """Nothing of an answer is lost on the way out of a child."""
    total = await run(executor, "team.add", {"a": 2})
    event = await run(executor, "team.event", {})
    long = await run(executor, "team.long", {"size": 1_000_000})

    assert total.structured == {"total": 3}
    assert event.events == ((EventType.WORKSPACE_FILE_WRITTEN, {"path": "output/x"}),)
    assert text_of(long) == '"\n' * 500_000


async def test_a_result_far_over_the_limit_is_refused_in_the_child(
    executor: BuiltinExecutor,
) -> None:
    """It never reaches the memory of the worker."""
    with pytest.raises(OutputTooLarge):
        await run(executor, "team.long", {"size": 5_000_000})


@pytest.mark.parametrize("name", ["team.add", "workspace.read_file"])
async def test_arguments_are_checked_before_the_function_runs(
    executor: BuiltinExecutor, name: str
) -> None:
    """In a child as in a thread."""
    with pytest.raises(ToolError) as caught:
        await run(executor, name, {"a": "2"})

    assert caught.value.code == "tool.invalid_arguments"


@pytest.mark.parametrize("where", ["process", "thread", "loop"])
async def test_a_tools_own_error_is_passed_on(executor: BuiltinExecutor, where: str) -> None:
    """Code, words, advice and repair data arrive from wherever it ran."""
    with pytest.raises(ToolError) as caught:
        await run(executor, f"team.fail_{where}", {"kind": "tool"})

    error = caught.value
    assert (error.code, error.message, error.next_action, error.structured) == (
        "team.no_luck",
        "no luck",
        "Try later.",
        {"n": 1},
    )


@pytest.mark.parametrize("where", ["process", "thread", "loop"])
async def test_a_system_failure_is_passed_on(executor: BuiltinExecutor, where: str) -> None:
    """A tool may say that the system is broken."""
    with pytest.raises(SystemFailure) as caught:
        await run(executor, f"team.fail_{where}", {"kind": "system"})

    assert caught.value.code == "workspace.io_failed"


@pytest.mark.parametrize("where", ["process", "thread", "loop"])
async def test_a_teams_exception_is_an_answer_not_the_end_of_the_run(
    executor: BuiltinExecutor, where: str
) -> None:
    """Whatever it raises, the model is told and may do something else."""
    with pytest.raises(ToolError) as caught:
        await run(executor, f"team.fail_{where}", {"kind": "odd"})

    assert caught.value.code == "tool.execution_failed"
    assert "KeyError" in caught.value.message
    assert isinstance(caught.value, ToolRaised) == (where == "process")


async def test_a_defect_of_our_own_tool_ends_the_run(tmp_path: Path) -> None:
    """A bug in a builtin must be loud."""

    def broken() -> str:
        """Be broken."""
        raise KeyError("oops")

    broken.__module__ = "toolrail_workers.builtin.broken"
    ours = tool("ours.broken", read_only=True, isolation=Isolation.THREAD)(broken)
    executor = BuiltinExecutor(
        found=DiscoveredTools({"ours.broken": ours}), workspace_root=tmp_path
    )

    with pytest.raises(SystemFailure) as caught:
        await run(executor, "ours.broken", {})

    assert caught.value.code == "tool.internal_error"
    assert "oops" not in caught.value.message
    await executor.stop()


async def test_an_unknown_tool_is_told(executor: BuiltinExecutor) -> None:
    """A call for a tool that was uninstalled is no crash."""
    with pytest.raises(ToolError) as caught:
        await run(executor, "team.gone", {})

    assert caught.value.code == "tool.not_found"


async def test_a_workspace_tool_works_in_the_runs_own_directory(
    executor: BuiltinExecutor, tmp_path: Path
) -> None:
    """One directory per run id; a second call sees what the first wrote."""
    await run(executor, "workspace.write_file", {"path": "output/a.txt", "content": "hi"})
    read = await run(executor, "workspace.read_file", {"path": "output/a.txt"})

    assert (tmp_path / "workspaces" / RUN_ID / "output" / "a.txt").read_text() == "hi"
    assert text_of(read).endswith("     1\thi")


@pytest.mark.parametrize("run_id", ["../evil", "a/b", "", ".", "..", "a\x00"])
async def test_a_run_id_that_is_no_name_opens_nothing(
    executor: BuiltinExecutor, tmp_path: Path, run_id: str
) -> None:
    """Run ids are ours; one that could walk is a defect, not a path."""
    call = replace(claimed("workspace.list_files", {}), run_id=run_id)

    with pytest.raises(SystemFailure):
        await executor.execute(call, context_of(call))

    assert not (tmp_path / "workspaces").exists()


async def test_a_teams_thread_tool_uses_the_workspace_by_its_rules(
    executor: BuiltinExecutor,
) -> None:
    """Paths, versions and locks are those of our own tools."""
    await run(executor, "workspace.write_file", {"path": "output/a.txt", "content": "hi"})

    sha256 = text_of(
        await run(executor, "team.copy", {"source": "output/a.txt", "target": "plan/b"})
    )

    assert sha256 == hashlib.sha256(b"hi").hexdigest()
    with pytest.raises(ToolError) as caught:
        await run(executor, "team.copy", {"source": "output/a.txt", "target": "input/b"})
    assert caught.value.code == "workspace.path_not_writable"
    with pytest.raises(SystemFailure):
        await run(executor, "team.copy", {"source": "/etc/passwd", "target": "plan/c"})


async def test_a_thread_tool_may_store_and_report(executor: BuiltinExecutor) -> None:
    """A blocking function reaches the asynchronous store and the progress of its call."""
    call = claimed("team.store", {"text": "hello"})
    store = MemoryStore()
    heard: list[tuple[float, str]] = []

    def hear(fraction: float, message: str) -> None:
        assert threading.current_thread() is threading.main_thread()
        heard.append((fraction, message))

    context = replace(context_of(call), store=store, on_progress=hear)
    output = await executor.execute(call, context)

    assert store.blobs == {text_of(output): b"hello"}
    await await_until(lambda: heard == [(1.0, "stored")], "the progress to be heard")


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
