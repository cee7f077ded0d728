"""The builtin executor runs every tool where it belongs."""

import hashlib
import logging
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.component.builtin_bench import RUN_ID, MemoryStore, claimed, context_of, run, text_of
from tests.waiting import await_until
from toolrail.discovery import DiscoveredTools
from toolrail.errors import SystemFailure, ToolError
from toolrail.logs import JsonFormatter
from toolrail.settings import Settings
from toolrail.tools import Isolation, tool
from toolrail_schemas import (
    EventType,
    JsonBlock,
)
from toolrail_workers.builtin.executor import OWNER, BuiltinExecutor
from toolrail_workers.builtin.workspace import TOOLS
from toolrail_workers.executor import Executor
from toolrail_workers.isolation.errors import OutputTooLarge, ToolRaised


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
    """Modules and places come from the settings."""
    settings = Settings(workspace_root=tmp_path, tool_modules=("tests.component.team_tools",))

    made = BuiltinExecutor.from_settings(settings)

    assert any(spec.name == "team.add" for spec in made.owners()[0].specs)
    assert made.broken == ()


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
    executor: BuiltinExecutor, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The model is told its type and what to do; what it says reaches neither model nor log."""
    caplog.set_level(logging.INFO)
    with pytest.raises(ToolError) as caught:
        await run(executor, f"team.fail_{where}", {"kind": "odd"})

    assert caught.value.code == "tool.execution_failed"
    assert caught.value.message == "The tool failed: KeyError."
    assert caught.value.next_action is not None
    assert isinstance(caught.value, ToolRaised)
    logged = [record for record in caplog.records if record.message == "tool.raised"]
    assert [vars(record)["raised"] for record in logged] == ["KeyError"]
    assert "needle-in-words" not in " ".join(map(JsonFormatter().format, caplog.records))


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


@pytest.mark.parametrize("name", ["team.refer", "team.refer_loop"])
async def test_a_teams_tool_names_only_files_that_exist(
    executor: BuiltinExecutor, name: str
) -> None:
    """Whatever version of them; a ref that leads nowhere is told as the tool's mistake."""
    await run(executor, "workspace.write_file", {"path": "output/a.txt", "content": "hi"})
    good = await run(executor, name, {"ref": f"workspace:output/a.txt@{'0' * 12}"})
    folder = await run(executor, name, {"ref": "workspace:output"})
    others = ["workspace:output/none", "workspace:../../etc/passwd", "workspace:.toolrail/locks"]
    bad = [await run(executor, name, {"ref": ref}) for ref in others]

    assert not good.is_error
    assert not folder.is_error
    assert {output.error_code for output in bad} == {"tool.invalid_output"}
    assert all(not output.resource_refs for output in bad)


async def test_what_a_tool_did_is_told_also_when_its_refs_are_wrong(
    executor: BuiltinExecutor,
) -> None:
    """The effect has happened."""
    output = await run(executor, "team.refer_loop", {"ref": "workspace:output/none"})

    assert output.is_error
    assert output.events == ((EventType.WORKSPACE_FILE_WRITTEN, {"path": "output/x"}),)
