"""What a worker counts of its MCP servers, well-behaved and not, as real processes."""

import asyncio
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_PARAMS, REQUEST_TIMEOUT
from prometheus_client import generate_latest

from tests.exposed import check_series, exposed, value
from tests.mcp_servers import START_S, Bench, Entry, raw_entry, running, sdk_entry, text_of
from tests.waiting import await_until
from toolrail.metrics.registry import ProcessRegistry
from toolrail.tools import ToolError
from toolrail_workers.mcp.metrics import McpMetrics, ServerMeter
from toolrail_workers.metrics import WorkerMetrics

SECRET = "planted-secret-4711"
TOOLS = [{"name": name} for name in ("die", "silent", "freeze", "pid", "long", "wrong", "bad")]
ANSWERS: dict[str, object] = {
    "die": {"$": "die"},
    "silent": {"$": "be_silent"},
    "freeze": {"$": "freeze"},
    "pid": {"$": "tell_pid"},
    "long": {"$": "print_long_line"},
    "wrong": {"content": [{"type": "text", "text": SECRET}], "isError": True},
    "bad": {"resultType": "nonsense"},
}
SCRIPT: dict[str, object] = {"tools": TOOLS, "answers": ANSWERS}
DURATIONS = "toolrail_mcp_operation_duration_seconds_count"
RESTARTS = "toolrail_mcp_restarts_total"


def count(bench: Bench, name: str, **labels: str) -> float:
    """Return a metric's value, 0 when there is none yet."""
    found = [s for s in exposed(bench.registry) if s.name == name]
    return sum(s.value for s in found if labels.items() <= s.labels.items())


async def refused(bench: Bench, tool: str, **arguments: object) -> ToolError:
    """Call a tool that cannot answer."""
    with pytest.raises(ToolError) as caught:
        await bench.call("raw", tool, arguments)  # type: ignore[arg-type]
    return caught.value


async def test_requests_are_timed_by_method_and_outcome() -> None:
    """Handshake, listing and calls; an error of the tool is one of the tool."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        await bench.call("raw", "pid")
        await bench.call("raw", "pid")
        await bench.call("raw", "wrong")
        samples = exposed(bench.registry)

    check_series(samples)
    assert value(samples, DURATIONS, server="raw", method="initialize", outcome="ok") == 1
    assert value(samples, DURATIONS, server="raw", method="tools/list", outcome="ok") == 1
    assert value(samples, DURATIONS, server="raw", method="tools/call", outcome="ok") == 2
    assert value(samples, DURATIONS, method="tools/call", outcome="tool_error") == 1
    assert value(samples, "toolrail_mcp_server_up", server="raw") == 1
    assert value(samples, "toolrail_mcp_sessions", server="raw") == 1
    assert value(samples, "toolrail_mcp_inflight", server="raw") == 0
    assert SECRET not in generate_latest(bench.registry).decode()


async def test_every_configured_server_is_shown_up_or_down(tmp_path: Path) -> None:
    """One that cannot start, one that is refused, one that works: absence tells nobody."""
    gone: Entry = {"command": "no-such-command"}
    web: Entry = {"url": "http://127.0.0.1:9/mcp"}
    servers = {"gone": gone, "web": web, "sdk": sdk_entry(tmp_path / "cancelled")}
    async with running(servers) as bench:
        await bench.ready("sdk")
        await await_until(
            lambda: count(bench, RESTARTS, server="gone", reason="exit") == 3, "its retries"
        )
        samples = exposed(bench.registry)

    up = {s.labels["server"]: s.value for s in samples if s.name == "toolrail_mcp_server_up"}
    assert up == {"gone": 0, "web": 0, "sdk": 1}
    check_series(samples)


async def test_a_call_under_way_and_a_cancelled_one_are_seen() -> None:
    """Who cancels says nothing about the server; who waits to the deadline does."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        waiting = asyncio.create_task(bench.call("raw", "silent"))
        await await_until(lambda: count(bench, "toolrail_mcp_inflight") == 1, "it is under way")
        waiting.cancel()
        await asyncio.wait({waiting})
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await bench.call("raw", "silent", timeout_s=0.2)

        assert count(bench, "toolrail_mcp_inflight") == 0
        assert count(bench, DURATIONS, method="tools/call", outcome="cancelled") == 1
        assert count(bench, DURATIONS, method="tools/call", outcome="timeout") == 1


@pytest.mark.parametrize(
    ("tool", "options", "reason"),
    [("die", {}, "exit"), ("long", {}, "flood"), ("freeze", {"liveness_s": 0.2}, "hang")],
)
async def test_a_restart_is_counted_by_what_ended_the_server(
    tool: str, options: dict[str, float], reason: str
) -> None:
    """It died, sent too much, or answers no more; the call that saw it failed by the system."""
    entry = raw_entry(SCRIPT, **options)
    async with running({"raw": entry}) as bench:
        await bench.ready("raw")
        first = text_of(await bench.call("raw", "pid"))
        arguments = {"chars": 34_000_000} if tool == "long" else {}
        with pytest.raises((ToolError, TimeoutError)):
            async with asyncio.timeout(0.5 if tool == "freeze" else None):
                await bench.call("raw", tool, dict(arguments), timeout_s=10)
        await await_until(
            lambda: count(bench, RESTARTS, reason=reason) == 1, "the restart", timeout_s=START_S
        )
        await bench.ready("raw")
        second = text_of(await bench.call("raw", "pid"))

        assert first != second
        assert count(bench, RESTARTS) == 1
        check_series(exposed(bench.registry))


async def test_a_server_that_answers_wrongly_again_and_again_is_a_protocol_restart() -> None:
    """Three answers in a row that nobody can read end the connection."""
    async with running({"raw": raw_entry(SCRIPT)}) as bench:
        await bench.ready("raw")
        for _ in range(3):
            await refused(bench, "bad")
        await await_until(
            lambda: count(bench, RESTARTS, reason="protocol") == 1, "the restart", timeout_s=START_S
        )

        assert count(bench, DURATIONS, method="tools/call", outcome="system_error") == 3


async def test_a_changed_list_of_tools_is_counted(tmp_path: Path) -> None:
    """The first listing is none; a tool that appears later is one."""
    async with running({"sdk": sdk_entry(tmp_path / "cancelled")}) as bench:
        await bench.ready("sdk")
        before = count(bench, "toolrail_mcp_tools_changed_total")
        await bench.call("sdk", "grow")
        await await_until(
            lambda: count(bench, "toolrail_mcp_tools_changed_total") == 1, "the change is counted"
        )

    assert before == 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (TimeoutError(), "timeout"),
        (MCPError(code=REQUEST_TIMEOUT, message=SECRET), "timeout"),
        (MCPError(code=INVALID_PARAMS, message=SECRET), "tool_error"),
        (MCPError(code=CONNECTION_CLOSED, message=SECRET), "system_error"),
        (MCPError(code=INTERNAL_ERROR, message=SECRET), "system_error"),
        (ValueError(SECRET), "system_error"),
        (asyncio.CancelledError(), "cancelled"),
    ],
)
def test_the_end_of_a_request_has_one_of_five_names(error: BaseException, outcome: str) -> None:
    """The words of a server or of an exception are no label."""
    registry = ProcessRegistry()
    meter = ServerMeter("s", McpMetrics(registry))
    with pytest.raises(type(error)), meter.request("tools/call", timeout_s=60):
        raise error
    samples = exposed(registry)

    assert value(samples, DURATIONS, method="tools/call", outcome=outcome) == 1
    assert SECRET not in generate_latest(registry).decode()
    check_series(samples)


def test_ten_servers_that_do_everything_are_few_series() -> None:
    """Though every outcome of every method happened at every one of them; no request is lost."""
    registry = WorkerMetrics(["mcp"]).registry
    metrics = McpMetrics(registry)
    for number in range(10):
        meter = ServerMeter(f"server-{number}", metrics)
        meter.watch(is_up=lambda: True, sessions=lambda: 1, inflight=lambda: 0)
        for error in (None, TimeoutError(), asyncio.CancelledError(), ValueError()):
            for method in ("initialize", "tools/list", "tools/call", "ping"):
                happen(meter, method, error)

    samples = exposed(registry)
    check_series(samples)
    assert value(samples, DURATIONS) == 10 * 4 * 4
    assert value(samples, DURATIONS, server="_other") > 0


def happen(meter: ServerMeter, method: str, error: BaseException | None) -> None:
    """Let a request end in some way."""
    try:
        with meter.request(method):  # type: ignore[arg-type]
            if error is not None:
                raise error
    except BaseException as raised:
        if raised is not error:
            raise
