"""MCP servers that die, hang, refuse to start or misbehave, as real processes.

Is: what a worker and its other servers notice of it. Is not: well-behaved servers
(`test_mcp_calls.py`). Above: nothing. Below: `tests/mcp_servers.py`.
"""

import asyncio
import json
import logging
from pathlib import Path

import psutil
import pytest

from tests.mcp_servers import (
    START_S,
    Bench,
    Entry,
    is_running,
    raw_entry,
    running,
    sdk_entry,
    text_of,
)
from tests.waiting import await_until
from toolrail.tools import ToolError
from toolrail_schemas import JsonObject

TOOLS = [{"name": name} for name in ("die", "silent", "freeze", "pid", "junk", "long", "ask")]
ANSWERS = {
    "die": {"$": "die"},
    "silent": {"$": "be_silent"},
    "freeze": {"$": "freeze"},
    "pid": {"$": "tell_pid"},
    "junk": {"$": "print_junk"},
    "long": {"$": "print_long_line"},
    "ask": {"$": "ask_model"},
}
SCRIPT: dict[str, object] = {"tools": TOOLS, "answers": ANSWERS}


async def error_of(bench: Bench, tool: str, arguments: JsonObject | None = None) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await bench.call("raw", tool, arguments)
    return caught.value


async def test_a_command_that_does_not_exist_is_an_error_of_that_server_alone(
    tmp_path: Path,
) -> None:
    """The reason names the remedy; the other server answers; nothing is retried for ever."""
    gone: Entry = {"command": "no-such-command"}
    servers = {"gone": gone, "sdk": sdk_entry(tmp_path / "cancelled")}
    async with running(servers) as bench:
        await bench.ready("sdk")
        await await_until(lambda: "Install it" in (bench.owner("gone").reason or ""), "the reason")
        output = await bench.call("sdk", "echo", {"text": "hello"})

        assert output.structured == {"result": "hello"}
        assert not bench.owner("gone").available
        assert bench.owner("gone").specs == ()


async def test_a_server_reached_by_url_is_refused_and_harms_no_other(tmp_path: Path) -> None:
    """HTTP comes later; the file is still good for the stdio servers in it."""
    web: Entry = {"url": "http://127.0.0.1:9/mcp"}
    servers = {"web": web, "sdk": sdk_entry(tmp_path / "cancelled")}
    async with running(servers) as bench:
        await bench.ready("sdk")

        assert "later version" in (bench.owner("web").reason or "")


async def test_a_server_killed_during_a_call_answers_and_comes_back() -> None:
    """The call ends as unknown at once, and the next one reaches a new process."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        first = text_of(await bench.call("raw", "pid"))
        error = await error_of(bench, "die")
        second = text_of(await bench.call("raw", "pid"))

        assert error.code == "tool.outcome_unknown"
        assert "Check whether" in (error.next_action or "")
        assert first != second


async def test_a_lost_call_of_a_repeatable_tool_is_not_called_unknown() -> None:
    """The operator vouched for the tool, so the model may just try again."""
    entry = raw_entry(SCRIPT, idempotent_tools=["die"])
    async with running({"raw": entry}) as bench:
        await bench.ready("raw")
        error = await error_of(bench, "die")

        assert error.code == "mcp.server_unavailable"


async def test_other_calls_of_a_killed_server_end_too() -> None:
    """A call that was waiting on the same process does not wait for its deadline."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        waiting = asyncio.create_task(error_of(bench, "silent"))
        await asyncio.sleep(0)
        await error_of(bench, "die")

        assert (await waiting).code == "tool.outcome_unknown"


async def test_a_server_that_never_finishes_its_handshake_is_given_up(tmp_path: Path) -> None:
    """The connect deadline ends the attempt and the process; the reason says so."""
    script = {**SCRIPT, "on_initialize": "hang", "child_file": str(tmp_path / "child")}
    async with running({"raw": raw_entry(script, connect_timeout_s=1.0)}) as bench:
        await await_until(
            lambda: "not ready within 1 s" in (bench.owner("raw").reason or ""),
            "the connect deadline",
            timeout_s=START_S,
        )

        assert not bench.owner("raw").available


async def test_a_legacy_server_that_exits_on_the_modern_question_is_asked_the_old_way() -> None:
    """The first attempt costs one process, the second one succeeds."""
    async with running({"raw": raw_entry({**SCRIPT, "on_discover": "exit"})}) as bench:
        await bench.ready("raw")

        assert text_of(await bench.call("raw", "pid")).isdigit()


async def test_a_frozen_server_is_found_out_and_replaced() -> None:
    """A call is given up without a word, then the probe fails, then a new process answers."""
    entry = raw_entry(SCRIPT, liveness_s=0.2)
    async with running({"raw": entry}) as bench:
        await bench.ready("raw")
        first = text_of(await bench.call("raw", "pid"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await bench.call("raw", "freeze")
        await await_until(
            lambda: not is_running(int(first)), "the frozen process to be ended", timeout_s=START_S
        )

        assert text_of(await bench.call("raw", "pid")) != first


async def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    """A grandchild that ignores SIGTERM is gone after the stop, although its parent was polite."""
    child_file = tmp_path / "child"
    async with running({"raw": raw_entry({**SCRIPT, "child_file": str(child_file)})}) as bench:
        await bench.ready("raw")
        child = int(child_file.read_text())
        assert is_running(child)

    # The kill was sent before the stop returned; the kernel may take a moment.
    await await_until(lambda: not is_running(child), "the grandchild to be ended")


async def test_a_server_killed_with_its_children_alive_leaves_none_of_them(tmp_path: Path) -> None:
    """The grandchild holds the pipes of the dead server, which must not hide its death."""
    child_file = tmp_path / "child"
    async with running({"raw": raw_entry({**SCRIPT, "child_file": str(child_file)})}) as bench:
        await bench.ready("raw")
        child = int(child_file.read_text())
        error = await error_of(bench, "die")
        await await_until(lambda: not is_running(child), "the grandchild to be ended")

        assert error.code == "tool.outcome_unknown"


async def test_stopping_while_a_server_starts_leaves_no_process() -> None:
    """`running` itself checks what is left; here the server hangs in its handshake."""
    async with running({"raw": raw_entry({**SCRIPT, "on_initialize": "hang"})}) as bench:
        await await_until(
            lambda: psutil.Process().children(), "a process to be started", timeout_s=START_S
        )

    assert not bench.owner("raw").available


async def test_output_that_is_no_protocol_is_skipped() -> None:
    """A print on standard output is a common mistake and costs no call."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")

        assert text_of(await bench.call("raw", "junk")) == "after junk"


async def test_a_flood_of_stderr_does_not_block_the_server() -> None:
    """Ten megabytes are drained before the server gets to answer."""
    async with running({"raw": raw_entry({**SCRIPT, "stderr_bytes": 10_000_000})}) as bench:
        await bench.ready("raw")

        assert text_of(await bench.call("raw", "pid")).isdigit()


async def test_what_a_dead_server_said_is_logged_for_who_debugs_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its standard error may hold arguments and secrets."""
    caplog.set_level(logging.DEBUG, logger="toolrail_workers.mcp")
    async with running({"raw": raw_entry({**SCRIPT, "stderr_bytes": 100})}) as bench:
        await bench.ready("raw")
        await error_of(bench, "die")

        def levels() -> set[str]:
            said = [record for record in caplog.records if "e" * 50 in str(vars(record))]
            return {record.levelname for record in said}

        await await_until(levels, "its words in the log")
        assert levels() == {"DEBUG"}


async def test_a_line_over_the_limit_ends_the_connection_not_the_worker() -> None:
    """The call ends at once; the server is started again."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        error = await error_of(bench, "long", {"chars": 34_000_000})

        assert error.code == "tool.outcome_unknown"
        assert text_of(await bench.call("raw", "pid")).isdigit()


async def test_a_server_that_asks_for_the_model_is_refused() -> None:
    """Sampling is answered with an error, and the call goes on."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        answer = json.loads(text_of(await bench.call("raw", "ask")))

        assert "error" in answer
        assert "not supported" in answer["error"]["message"]
