"""The script: what an agent does, turn by turn, and what is checked after each.

Is: the calls a model could have made, written down. Is not: a model, nor the printing of the
journal (`watch.py`).
Above: `show.py`. Below: `toolrail.client`, `toolrail.testing`.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from toolrail.cli.show import result_text
from toolrail.client import Toolrail
from toolrail.request import CallRequest
from toolrail.run import Run
from toolrail.testing import Cluster
from toolrail_schemas import (
    ErrorClass,
    EventType,
    JournalEvent,
    ToolResult,
)
from toolrail_workers.demo.findings import Finding, check_journal
from toolrail_workers.demo.watch import Watch
from toolrail_workers.demo.world import NOTES, put_input

NEEDED = frozenset(
    {
        "workspace.list_files",
        "workspace.read_file",
        "workspace.write_file",
        "workspace.finish",
        "report.count_words",
        "mcp.time.convert_time",
        "ext.glossary.define",
    }
)
_TOOLS_WITHIN_S = 45.0
_ANSWER_WITHIN_S = 30.0
_LOOK_AGAIN_S = 0.1


@dataclass
class Stage:
    """What the script plays on, and what it found."""

    cluster: Cluster
    rail: Toolrail
    say: Callable[[str], None]
    colour: bool
    findings: list[Finding] = field(default_factory=list[Finding])

    def title(self, text: str) -> None:
        """Announce the next turn."""
        self.say(f"\n\x1b[1m{text}\x1b[0m" if self.colour else f"\n{text}")

    def check(self, promise: str, *, seen: str, holds: bool) -> None:
        """Add a row to the table."""
        self.findings.append(Finding(promise, seen, holds))

    def watch(self, run: Run) -> Watch:
        """Return the journal of a run, to be followed with `async with`."""
        return Watch(run, self.say, colour=self.colour)


async def play(stage: Stage) -> None:
    """Play both runs."""
    run = await stage.rail.open_run(tenant="demo", profile="assistant", user="demo")
    workspace = put_input(stage.cluster.settings, run.id)
    await _see_tools(stage, run)
    async with stage.watch(run) as watch:
        await _read(stage, run)
        await watch.catch_up()
        converted = await _ask_others(stage, run)
        await watch.catch_up()
        await _be_denied(stage, run, watch)
        await watch.catch_up()
        counted = await _survive_a_kill(stage, run, watch)
        await watch.catch_up()
        await _write(stage, run, workspace, report=f"{converted}\n{counted}\n")
        await watch.catch_up()
        await _finish(stage, run)
    stage.findings += check_journal("first", watch.events)
    await _escape(stage)


async def _see_tools(stage: Stage, run: Run) -> None:
    stage.title("The agent opens a run and asks which tools it may see.")
    names: frozenset[str] = frozenset()
    async with asyncio.timeout(_TOOLS_WITHIN_S):
        while not names >= NEEDED:
            names = frozenset(spec.name for spec in await run.tools())
            await asyncio.sleep(_LOOK_AGAIN_S)
    stage.say("  " + ", ".join(sorted(names)))
    stage.check(
        "A run sees the tools of all three sources, and not the denied one.",
        seen=f"{len(names)} tools",
        holds="report.publish" not in names,
    )


async def _read(stage: Stage, run: Run) -> None:
    stage.title("Turn 1: two calls at once, list the workspace and read a file.")
    listed, read = await run.call_many(
        [
            CallRequest(id="list", name="workspace.list_files", arguments={}, turn=1),
            CallRequest(
                id="read",
                name="workspace.read_file",
                arguments={"path": "input/notes.md", "line_numbers": False},
                turn=1,
            ),
        ],
        timeout_s=_ANSWER_WITHIN_S,
    )
    stage.check(
        "Parallel calls of one turn are answered together, in order.",
        seen=f"{listed.call_id}, {read.call_id}",
        holds=(listed.call_id, read.call_id) == ("list", "read") and not listed.is_error,
    )
    stage.check(
        "A file is read as it is on disk.",
        seen=f"{len(NOTES)} characters of input/notes.md",
        holds=all(line in result_text(read) for line in NOTES.splitlines()),
    )


async def _ask_others(stage: Stage, run: Run) -> str:
    stage.title("Turn 2: an MCP server and an extension, each a process of its own.")
    converted, defined = await run.call_many(
        [
            CallRequest(
                id="convert",
                name="mcp.time.convert_time",
                arguments={
                    "source_timezone": "UTC",
                    "time": "12:00",
                    "target_timezone": "Asia/Tokyo",
                },
                turn=2,
            ),
            CallRequest(
                id="define", name="ext.glossary.define", arguments={"term": "lease"}, turn=2
            ),
        ],
        timeout_s=_ANSWER_WITHIN_S,
    )
    stage.check(
        "A real MCP server answers through the mcp queue.",
        seen="12:00 UTC is 21:00 in Tokyo"
        if "21:00" in result_text(converted)
        else result_text(converted),
        holds="21:00" in result_text(converted),
    )
    stage.check(
        "An extension in a process of its own answers through the extension queue.",
        seen=result_text(defined),
        holds=not defined.is_error and "worker" in result_text(defined),
    )
    return result_text(converted)


async def _be_denied(stage: Stage, run: Run, watch: Watch) -> None:
    stage.title("Turn 3: a tool that the profile denies.")
    result = await run.call(
        "report.publish",
        {"path": "output/report.md"},
        id="publish",
        turn=3,
        timeout_s=_ANSWER_WITHIN_S,
    )
    denied = await watch.first(EventType.TOOL_CALL_DENIED, "publish")
    started = watch.of_call("publish", EventType.TOOL_CALL_STARTED)
    stage.check(
        "A denied tool never starts, the run goes on, and the journal knows the rule.",
        seen=f"{result.error_code} by {denied.payload['layer']}: {denied.payload['rule']}",
        holds=result.error_class is ErrorClass.POLICY_DENIED
        and denied.payload["rule"] == "nothing-leaves-the-house"
        and not started
        and await run.status() == "open",
    )


async def _survive_a_kill(stage: Stage, run: Run, watch: Watch) -> str:
    stage.title("Turn 4: a slow call; its worker is killed in the middle.")
    request = CallRequest(id="count", name="report.count_words", arguments={"text": NOTES}, turn=4)
    ticket = await run.dispatch(request)
    again = await run.dispatch(request)
    started = await watch.first(EventType.TOOL_CALL_STARTED, "count")
    worker = child_of(stage.cluster, started)
    pid = stage.cluster.kill_worker(worker)
    stage.say(f"  >>> SIGKILL to {worker} (pid {pid}) <<<")
    result = await run.wait(ticket, timeout_s=_ANSWER_WITHIN_S)
    starts = watch.of_call("count", EventType.TOOL_CALL_STARTED)
    # By process and not by name: the killed worker's successor may be quick enough to take it.
    pids = [pid_of(event) for event in starts]
    counted = json_of(result)
    stage.check(
        "A call whose worker is killed finishes on another one, because the tool is read-only.",
        seen=f"in process {' then '.join(map(str, pids))}; answer {json.dumps(counted)}",
        holds=pids[:1] == [pid]
        and len(set(pids)) == len(pids) == 2
        and counted == {"words": len(NOTES.split()), "attempt": 2},
    )
    stage.check(
        "Handing in the same call twice starts it once.",
        seen=f"one request, ticket {ticket.call_key} twice",
        holds=ticket.call_key == again.call_key
        and len(watch.of_call("count", EventType.TOOL_CALL_REQUESTED)) == 1,
    )
    await stage.cluster.wait_ready(worker, starts=2)
    stage.check(
        "The supervisor starts a killed worker again.",
        seen=f"{worker}: pid {pid}, now {stage.cluster.pid(worker)}",
        holds=stage.cluster.pid(worker) != pid,
    )
    return json.dumps(counted)


async def _write(stage: Stage, run: Run, workspace: Path, *, report: str) -> None:
    stage.title("Turn 5: write the report.")
    result = await run.call(
        "workspace.write_file",
        {"path": "output/report.md", "content": report, "mode": "create"},
        id="write",
        turn=5,
        timeout_s=_ANSWER_WITHIN_S,
    )
    file = workspace / "output" / "report.md"
    written = file.read_text(encoding="utf-8") if file.exists() else None
    stage.check(
        "A file is written exactly as given.",
        seen=f"{file.name}, {len(report)} characters" if written else result_text(result),
        holds=written == report,
    )


async def _finish(stage: Stage, run: Run) -> None:
    stage.title("Turn 6: the agent says that it is done.")
    await run.call("workspace.finish", {}, id="finish", turn=6, timeout_s=_ANSWER_WITHIN_S)
    status = await run.status()
    stage.check(
        "workspace.finish completes the run.", seen=f"run {status}", holds=status == "completed"
    )


async def _escape(stage: Stage) -> None:
    stage.title("A second run: the agent tries to leave its workspace. The run must fail.")
    run = await stage.rail.open_run(tenant="demo", profile="assistant", user="demo")
    put_input(stage.cluster.settings, run.id)
    async with stage.watch(run) as watch:
        result = await run.call(
            "workspace.read_file",
            {"path": "../../../etc/passwd"},
            id="escape",
            turn=1,
            timeout_s=_ANSWER_WITHIN_S,
        )
    status = await run.status()
    stage.check(
        "A path out of the workspace reads nothing and fails the run.",
        seen=f"{result.error_code}, run {status}",
        holds=result.error_code == "workspace.path_escape"
        and status == "failed"
        and "root:" not in result_text(result),
    )
    stage.findings += check_journal("second", watch.events)


def child_of(cluster: Cluster, started: JournalEvent) -> str:
    """Return the child, running now, that an event names as the worker of a call."""
    pid = pid_of(started)
    return cluster.name_of(pid) or f"process {pid}"


def pid_of(started: JournalEvent) -> int:
    """Return the process id that is part of a worker's name in the journal."""
    _, pid, _ = str(started.payload["worker"]).rsplit("-", 2)
    return int(pid)


def json_of(result: ToolResult) -> object:
    """Return the JSON value that is a result's text; the text itself when it is none."""
    text = result_text(result)
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    return value
