"""What a client counts of itself while it works with a real Redis."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.exposed import check_series, exposed, value
from tests.servers import StartRedis
from toolrail import CallRequest, Settings
from toolrail.errors import AdmissionClosed, CallError, ToolrailError
from toolrail.redis_io import command, connect, round_trips_of
from toolrail.redis_meter import RedisMeter
from toolrail_schemas import RunLimits

DURATIONS = "toolrail_redis_command_duration_seconds_count"
SECRET = "planted-secret-4711"


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    own = settings.model_copy(update={"policy_dir": write_policy(tmp_path / "policy")})
    async with open_cell(own) as cell:
        yield cell


def rejected(cell: Cell, reason: str, source: str) -> float:
    """Return how many calls were refused for a reason."""
    samples = exposed(cell.rail.metrics)
    return value(samples, "toolrail_calls_rejected_total", reason=reason, source=source)


async def test_each_script_is_timed_under_its_name(cell: Cell) -> None:
    """Opening a run and one call: what this client asked of Redis, and no error."""
    run = await opened(cell)
    async with serve(cell):
        await run.call("demo.echo", {"text": "hi"}, id="c1", timeout_s=5)
    samples = exposed(cell.rail.metrics)

    assert value(samples, DURATIONS, op="open_run") >= 1
    assert value(samples, DURATIONS, op="dispatch") == 1
    assert value(samples, DURATIONS, op="finish") == 0, "that is the worker's"
    assert value(samples, "toolrail_redis_errors_total") == value(
        samples, "toolrail_redis_errors_total", kind="noscript"
    )
    check_series(samples)


async def test_refused_calls_are_counted_and_accepted_ones_are_not(cell: Cell) -> None:
    """By reason, and by the source of the tool as soon as that is known."""
    run = await opened(cell)
    await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    refused = [
        CallRequest(id="c1", name="demo.echo", arguments={"text": "b"}),
        CallRequest(id="c2", name="demo.echo", turn=-1),
        CallRequest(id="c3", name="demo.echo", provider_metadata={"x": "y" * 70_000}),
    ]
    for request in refused:
        with pytest.raises(ToolrailError):
            await run.dispatch(request)
    await run.cancel()
    with pytest.raises(ToolrailError):
        await run.dispatch(CallRequest(id="c4", name="demo.echo", arguments={"text": "a"}))
    with pytest.raises(ToolrailError):
        await run.call_many([CallRequest(id="c5", name="x"), CallRequest(id="c5", name="x")])

    assert rejected(cell, "duplicate_conflict", "builtin") == 1
    assert rejected(cell, "too_large", "none") == 1
    assert rejected(cell, "run_closed", "builtin") == 1
    assert rejected(cell, "invalid", "none") == 3, "a bad turn, and two calls of one id"
    assert value(exposed(cell.rail.metrics), "toolrail_calls_rejected_total") == 6


async def test_names_that_a_model_made_up_make_no_series(cell: Cell) -> None:
    """Nor do arguments, ids or error texts: none of them is a label."""
    run = await opened(cell, limits=RunLimits(max_unknown=1_000))
    before = len(exposed(cell.rail.metrics))
    for number in range(50):
        await run.dispatch(CallRequest(id=f"c{number}", name=f"made.up_{number}", turn=number))
        with pytest.raises(CallError):
            await run.dispatch(CallRequest(id=f"\x00{SECRET}", name=f"{SECRET}.{number}"))
    samples = exposed(cell.rail.metrics)

    assert len(samples) == before
    assert SECRET not in generate_latest(cell.rail.metrics).decode()
    check_series(samples)


async def test_a_full_redis_shows_as_closed_admission(settings: Settings, tmp_path: Path) -> None:
    """Calls are refused as overload, and the gauge says that load is shed."""
    own = settings.model_copy(
        update={"policy_dir": write_policy(tmp_path / "p"), "admission_memory_ratio": 1e-9}
    )
    async with open_cell(own) as cell:
        await command(cell.bench.redis, "CONFIG", "SET", "maxmemory", "1gb")
        try:
            run = await opened(cell)
            was_open = value(exposed(cell.rail.metrics), "toolrail_admission_open")
            with pytest.raises(AdmissionClosed):
                await run.dispatch(CallRequest(id="c1", name="demo.echo"))
        finally:
            await command(cell.bench.redis, "CONFIG", "SET", "maxmemory", "0")

        assert was_open == 1
        assert value(exposed(cell.rail.metrics), "toolrail_admission_open") == 0
        assert rejected(cell, "overload", "none") == 1


@pytest.mark.one_redis
async def test_a_frozen_redis_is_counted_as_timeouts_and_a_dead_one_as_connections(
    start_redis: StartRedis,
) -> None:
    """Each command that got no reply counts, also those that shared a round trip."""
    server, meter = start_redis(), RedisMeter()
    redis = connect(server.url, timeout_s=0.1, name="test", meter=meter)
    trips = round_trips_of(redis)
    trips.name_operations({"x": "claim"})
    await trips.send("ECHO", "x")
    os.kill(server.pid, signal.SIGSTOP)
    with pytest.raises(Exception, match="Timeout"):
        await command(redis, "PING")
    with pytest.raises(Exception, match="Timeout"):
        await trips.send("ECHO", "x")
    os.kill(server.pid, signal.SIGCONT)
    server.kill()
    with pytest.raises(Exception, match="onnect"):
        await trips.send("ECHO", "x")
    await redis.aclose()

    assert sum(meter.spans["claim"].counts) == 1
    assert (meter.errors["timeout"], meter.errors["conn"]) == (2, 1)
