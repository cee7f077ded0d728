"""Make everything happen that a panel can show.

Is: the script of the live run; each step is one story and returns when it is over. Is not: what is
checked (`test_dashboards_live.py`).
Above: the live test. Below: `world.py`, `tools.py`.
"""

import asyncio
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from redis.asyncio import Redis

from tests.live.world import BOUND_S, MEMORY, World, frozen
from tests.waiting import await_until
from toolrail.errors import ToolrailError
from toolrail.keys import Keys
from toolrail.ledger import Ledger
from toolrail.redis_io import connect
from toolrail.request import CallRequest, Ticket
from toolrail.results import StoredResult, ending_of
from toolrail.run import Run
from toolrail.tasks import end_task
from toolrail_schemas import (
    ApprovalMode,
    EventType,
    JournalEvent,
    JsonObject,
    RunLimits,
    TextBlock,
    ToolResult,
    sha256_hex,
)

SECRET = "ghp_" + "Zx81" * 9
"""Looks like one, and opens nothing."""
PACE_S = 0.1
FAILURES = 20
BLOCKS_MAX = 10
"""Enough of all calls for the error budget to burn fast."""
TOOLS: Mapping[str, JsonObject] = {
    "live.work": {},
    "mcp.steady.echo": {"text": "hello"},
    "ext.dice.roll": {"count": 2},
}
PAGED = {"ToolrailRedisDown"}
"""Alerts that are followed to the pager and back."""
FIRED = {
    "ToolrailErrorBudgetBurnFast",
    "ToolrailErrorBudgetBurnSlow",
    "ToolrailQueueAge",
    "ToolrailNoWorkers",
    "ToolrailCallsUnaccounted",
    "ToolrailRedisDown",
    "ToolrailRedisNotPersisting",
    "ToolrailExporterDown",
    "ToolrailDeadLettersGrowing",
    "ToolrailApprovalsStale",
    "ToolrailApprovalsExpired",
    "ToolrailMcpServerDown",
}
"""Alerts that the script makes fire."""
refused: Counter[str] = Counter()
"""What the usual traffic was told instead of a result."""
_numbers = itertools.count(1)


async def open_run(world: World) -> Run:
    """Open a run that may call everything but one tool."""
    return await world.rail.open_run(
        profile="agent",
        user="tester",
        tenant="live",
        approval_mode=ApprovalMode.INTERACTIVE,
        limits=RunLimits(max_denied=1_000, max_unknown=1_000),
    )


def ask(name: str, turn: int = 0, **arguments: str | float) -> CallRequest:
    """Return a call with an id of its own."""
    return CallRequest(id=f"c{next(_numbers)}", name=name, arguments=arguments, turn=turn)


async def call(run: Run, name: str, turn: int = 0, **arguments: str | float) -> ToolResult:
    """Call a tool to its end."""
    return await call_to_end(run, ask(name, turn, **arguments))


async def call_to_end(run: Run, request: CallRequest) -> ToolResult:
    """Hand a call in and wait for its result."""
    return await run.wait(await run.dispatch(request), timeout_s=BOUND_S)


async def tools_are_known(world: World) -> None:
    """Return once every source offers its tools."""
    run = await open_run(world)

    async def known() -> bool:
        await world.rail.refresh_tools()
        return {spec.name for spec in await run.tools()} >= {*TOOLS, "mcp.gated.echo"}

    await await_until(known, "tools of all sources", timeout_s=BOUND_S)
    await run.complete()


@asynccontextmanager
async def usual_traffic(world: World) -> AsyncGenerator[None]:
    """Let agents work, ten calls a second per source, until the block ends."""

    async def agent(name: str) -> None:
        run = await open_run(world)
        running: set[asyncio.Task[ToolResult]] = set()
        for turn in itertools.count(1):
            # Not the same again: after an unknown outcome that would need a person.
            arguments = {**TOOLS[name], **({"text": str(turn)} if "echo" in name else {})}
            request = CallRequest(id=f"u{turn}", name=name, arguments=arguments, turn=turn)
            one = asyncio.create_task(call_to_end(run, request))
            running.add(one)
            one.add_done_callback(_forget(running))
            await asyncio.sleep(PACE_S)

    agents = [asyncio.create_task(agent(name)) for name in TOOLS]
    try:
        yield
    finally:
        for one in agents:
            await end_task(one)


def _forget(running: set[asyncio.Task[ToolResult]]) -> Callable[[asyncio.Task[ToolResult]], None]:
    def forget(task: asyncio.Task[ToolResult]) -> None:
        running.discard(task)
        if not task.cancelled():
            error = task.exception()
            refused[type(error).__name__] += error is not None

    return forget


async def every_outcome(world: World) -> None:
    """Ends that need neither a person nor a dead worker."""
    run = await open_run(world)
    for name in ("live.fail", "live.publish", "live.oversleep", "live.nobody_has_this"):
        await call(run, name)
    for turn in (1, 1, 2):
        await call(run, "live.once", turn=turn)
        await call(run, "live.one_a_turn", turn=turn)
    waiting = await run.dispatch(ask("live.wait"))
    await started(run, waiting)
    await run.cancel_call(waiting)
    await run.wait(waiting, timeout_s=BOUND_S)
    with suppress(ToolrailError):
        await run.dispatch(ask("live.work", turn=-1))
    for _ in range(FAILURES):
        await call(await open_run(world), "live.break_down")


async def every_decision(world: World) -> None:
    """A person approves, approves for the run, denies, or does not come at all."""
    run = await open_run(world)
    late = await run.dispatch(ask("live.ask", what="nobody decides"))
    yes = await run.dispatch(ask("live.ask", what=f"yes, token={SECRET}"))
    no = await run.dispatch(ask("live.ask", what="no"))
    gone = await run.dispatch(ask("live.ask", what="the agent changes its mind"))
    await world.until_query("toolrail_approvals_pending >= 4")
    await world.rail.approvals.redacted(yes.approval_id)
    await run.approve(yes, by="ann")
    await run.deny(no, by="ann", comment="Not today.")
    await run.cancel_call(gone)
    await run.wait(yes, timeout_s=BOUND_S)
    always = await run.dispatch(ask("live.ask", what="always"))
    await run.approve(always, by="ann", scope="run")
    await run.wait(always, timeout_s=BOUND_S)
    await call(run, "live.ask", what="always")
    await run.wait(late, timeout_s=BOUND_S)


async def workers_die(world: World) -> None:
    """One call is lost, one is tried again, one kills both its workers and is given up."""
    run = await open_run(world)
    tickets = [await run.dispatch(ask(name)) for name in ("live.effect", "live.second_try")]
    for name in {await worker_of(world, run, ticket) for ticket in tickets}:
        world.cluster.kill_worker(name)
    for ticket in tickets:
        await run.wait(ticket, timeout_s=BOUND_S)
    await call(run, "live.poison")
    await all_ready(world)
    await command(world, "dlq", "discard", "--all", "--yes", "--by=ann")


async def a_frozen_worker_wakes(world: World) -> None:
    """Its call was given to another one, and its own result comes too late.

    A worker that wakes mostly learns first that it lost its lease, and then says nothing. So the
    words of one that learns it a moment too late are said here.
    """
    run = await open_run(world)
    ticket = await run.dispatch(ask("live.second_try"))
    worker = await worker_of(world, run, ticket)
    async with frozen(world.cluster.pid(worker)):
        await run.wait(ticket, timeout_s=BOUND_S)
    async with ledger_client(world) as client:
        ledger = Ledger(client, prefix=world.settings.key_prefix, deadline_s=5.0)
        result = ToolResult(
            call_id=ticket.call_id, name=ticket.name, content=(TextBlock(text="!"),)
        )
        stored = StoredResult(result.model_dump_json(), "", sha256_hex(b"!"), 1, "")
        ending = ending_of(ticket.call_key, result, stored)
        await ledger.finish(run.id, ticket.call_key, ending, fence=1, actor=f"worker:{worker}")


async def a_doorbell_is_lost(world: World) -> None:
    """The worker that popped it dies before it claims."""
    run = await open_run(world)
    pid = world.cluster.pid("mcp.1")
    async with frozen(pid), ledger_client(world) as client:
        ticket = await run.dispatch(ask("mcp.steady.echo", text="lost"))

        keys = Keys(world.settings.key_prefix)

        async def popped() -> bool:
            queued = await client.zcard(keys.queued("mcp"))
            return bool(queued > await client.llen(keys.queue("mcp")))

        await await_until(popped, "a doorbell to be popped", timeout_s=BOUND_S)
        starts = world.cluster.starts("mcp.1")
        world.cluster.kill_worker("mcp.1")
    await world.cluster.wait_ready("mcp.1", starts=starts + 1)
    await run.wait(ticket, timeout_s=BOUND_S)


async def servers_misbehave(world: World) -> None:
    """One is slow, has another tool all at once, dies and returns; one stays away for a while."""
    run = await open_run(world)
    await call(run, "mcp.steady.nap", seconds=2.5)
    await call(run, "mcp.steady.grow")
    await world.until_query("sum(toolrail_mcp_tools_changed_total)")
    world.kill_mcp_server("steady")
    world.gate("gated").unlink()
    world.kill_mcp_server("gated")
    await world.until_query('min(toolrail_mcp_server_up{server="gated"}) == bool 0')
    await world.until(lambda: "ToolrailMcpServerDown" in world.prometheus.firing(), "an alert")
    world.gate("gated").touch()
    await world.until_query('toolrail_mcp_server_up{server="gated"}')


async def the_extension_dies(world: World) -> None:
    """And is started again by its supervisor."""
    starts = world.cluster.starts("dice")
    world.cluster.kill_worker("dice")
    await world.cluster.wait_ready("dice", starts=starts + 1)


async def a_worker_is_drained(world: World) -> None:
    """By an operator, who then changes their mind."""
    await command(world, "drain", "--source=extension")
    await world.until_query("max(toolrail_worker_draining)")
    await command(world, "drain", "--source=extension", "--undo")
    await world.until_query("1 - max(toolrail_worker_draining)")


async def slots_run_out(world: World) -> None:
    """Calls wait for a slot, and the loop of a worker stands still for a moment."""
    run = await open_run(world)
    tickets = [await run.dispatch(ask("live.work", turn, seconds=1.0)) for turn in range(120)]
    for turn in range(len(tickets), len(tickets) + BLOCKS_MAX):
        await call(run, "live.block", turn, seconds=1.1)
        # The gauge tells of a moment, so a scrape must fall into one; short of what ends a worker.
        if world.prometheus.value("max(max_over_time(toolrail_event_loop_blocked_seconds[1m]))"):
            break
    for ticket in tickets:
        await run.wait(ticket, timeout_s=BOUND_S)


async def started(run: Run, ticket: Ticket) -> JournalEvent:
    """Return the newest start of a call, once there is one."""
    found: list[JournalEvent] = []

    async def has_started() -> bool:
        found[:] = [
            event
            for event in await run.journal()
            if isinstance(event, JournalEvent)
            and event.type is EventType.TOOL_CALL_STARTED
            and event.payload["call_id"] == ticket.call_id
        ]
        return bool(found)

    await await_until(has_started, f"{ticket.name} to start", timeout_s=BOUND_S)
    return found[-1]


async def worker_of(world: World, run: Run, ticket: Ticket) -> str:
    """Return the child that runs a call."""
    label = str((await started(run, ticket)).payload["worker"])
    name = world.cluster.name_of(int(label.rsplit("-", 2)[1]))
    assert name is not None
    return name


async def all_ready(world: World) -> None:
    """Return once every worker is up again."""
    for name in world.cluster.workers():
        await world.cluster.wait_ready(name)


async def operators_are_needed(world: World) -> None:
    """The books are wrong, the disk is not written, a source loses its last worker."""
    key = f"{world.settings.key_prefix}totals"
    wanted = {"ToolrailCallsUnaccounted", "ToolrailRedisNotPersisting"}
    wanted |= {"ToolrailNoWorkers", "ToolrailQueueAge"}
    run = await open_run(world)
    async with ledger_client(world) as client:
        await client.hincrby(key, "open:builtin:running", 1)
        await client.config_set("appendonly", "no")
        async with frozen(world.cluster.pid("extension.1")):
            waiting = await run.dispatch(ask("ext.dice.roll", count=1))
            await world.until(lambda: wanted <= world.prometheus.firing(), str(wanted))
        await client.hincrby(key, "open:builtin:running", -1)
        await client.config_set("appendonly", "yes")
        await run.wait(waiting, timeout_s=BOUND_S)


async def memory_runs_short(world: World) -> None:
    """New calls are refused until there is more; those that run can end."""
    async with ledger_client(world) as client:
        used = int((await client.info("memory"))["used_memory"])
        await client.config_set("maxmemory", used + used // 10)
        await world.until_query('sum(toolrail_calls_rejected_total{reason="overload"})')
        await world.until_query("1 - min(toolrail_admission_open)")
        await client.config_set("maxmemory", MEMORY)
    await world.until_query("min(toolrail_admission_open)")


async def the_exporter_freezes(world: World) -> None:
    """Prometheus learns nothing of the fleet until it is back."""
    async with frozen(world.cluster.pid("exporter")):
        await world.until(lambda: world.receiver.told("ToolrailExporterDown", "firing"), "a page")
    await world.until(lambda: world.receiver.told("ToolrailExporterDown", "resolved"), "its end")


async def redis_freezes(world: World) -> None:
    """It answers nobody until the page is out, then goes on as if nothing had been."""
    async with frozen(world.redis_pid()):
        await world.until(lambda: world.receiver.told("ToolrailRedisDown", "firing"), "a page")
    await world.until(lambda: world.receiver.told("ToolrailRedisDown", "resolved"), "its end")


async def command(world: World, *arguments: str) -> None:
    """Run a command of the CLI, as an operator does."""
    program = (sys.executable, "-m", "toolrail", *arguments)
    process = await asyncio.create_subprocess_exec(
        *program, env=world.cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(said.decode())


@asynccontextmanager
async def ledger_client(world: World) -> AsyncGenerator[Redis]:
    """Give a connection to the cell's Redis."""
    client = connect(world.settings.redis_url, timeout_s=5.0, name="fault")
    try:
        yield client
    finally:
        await client.aclose()
