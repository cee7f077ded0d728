"""MCP servers for tests: two of ours in their own processes, two real ones of others.

Is: their configuration entries, and an executor that is always stopped. Is not: a test.
Above: tests of `toolrail_workers.mcp`. Below: `mcp_raw_server.py`, `mcp_sdk_server.py`,
`toolrail_workers.mcp.provision`, npm.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import psutil
import pytest
from pydantic import JsonValue

from tests.waiting import await_until
from toolrail.metrics.registry import ProcessRegistry
from toolrail.settings import own_environment
from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import Caller, JsonObject, Source, TextBlock, ToolSpec, sha256_hex
from toolrail_workers.executor import ClaimedCall, OwnerSpecs
from toolrail_workers.mcp.config import parse_servers_file
from toolrail_workers.mcp.executor import McpExecutor
from toolrail_workers.mcp.provision import locked, provision_demo_server
from toolrail_workers.mcp.server import Patience

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "mcp"
RUN_ID = "run_01K9ZZZZZZZZZZZZZZZZZZZZZZ"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
IMPATIENT = Patience(ready_s=10.0, first_backoff_s=0.01, last_backoff_s=0.05)
START_S = 30.0
"""Bound on the start of a server; two busy cores start a Python or node in a second or two."""

Entry = dict[str, JsonValue]


def raw_entry(script: Mapping[str, object], **options: JsonValue) -> Entry:
    """Return the entry of a server that does what `script` says."""
    return {
        "command": sys.executable,
        "args": [str(HERE / "mcp_raw_server.py"), json.dumps(script)],
        "toolrail": {"liveness_s": 0, **options},
    }


def sdk_entry(cancel_file: Path, **options: JsonValue) -> Entry:
    """Return the entry of the honest modern server."""
    return {
        "command": sys.executable,
        "args": [str(HERE / "mcp_sdk_server.py"), str(cancel_file)],
        "toolrail": {"liveness_s": 0, **options},
    }


def time_entry() -> Entry:
    """Return the entry of the reference time server, in an environment of its own."""
    servers = cast("dict[str, Entry]", provision_demo_server(BUILD)["mcpServers"])
    return servers["time"]


def everything_entry() -> Entry:
    """Return the entry of the node reference server; skip without npm, but not in CI."""
    npm = shutil.which("npm")
    if npm is None:
        reason = "needs npm (apt-get install npm)"
        if own_environment().get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    home = BUILD / "everything"
    program = home / "node_modules" / ".bin" / "mcp-server-everything"
    home.mkdir(parents=True, exist_ok=True)
    with locked(BUILD / ".everything.lock"):
        if not program.is_file():
            command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run([*command, "--prefix", str(home), EVERYTHING], check=True, timeout=300)
    return {"command": str(program), "args": ["stdio"]}


@dataclass
class KeptBlobs:
    """A blob store in memory."""

    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])

    async def put_blob(self, data: bytes, mime: str) -> str:
        """Keep the bytes."""
        sha256 = sha256_hex(data)
        self.blobs[sha256] = data
        return sha256


class Bench:
    """An executor under test, with shorthands for what tests ask of it."""

    def __init__(self, executor: McpExecutor, registry: ProcessRegistry) -> None:
        self.executor = executor
        self.registry = registry
        self.changes = 0
        self.store = KeptBlobs()
        self.progress: list[tuple[float, str]] = []

    def note_change(self) -> None:
        """Count a change notice."""
        self.changes += 1

    def owner(self, server: str) -> OwnerSpecs:
        """Return what the executor says of a server."""
        return next(owner for owner in self.executor.owners() if owner.owner == server)

    def spec(self, server: str, tool: str) -> ToolSpec:
        """Return the spec of a tool by its own name."""
        name = f"mcp.{server}.{tool}"
        return next(spec for spec in self.owner(server).specs if spec.name == name)

    async def ready(self, server: str) -> None:
        """Return once the server can be called."""
        await await_until(
            lambda: self.owner(server).available and self.owner(server).specs,
            f"{server} to be available, not {self.owner(server).reason}",
            timeout_s=START_S,
        )

    async def call(
        self,
        server: str,
        tool: str,
        arguments: JsonObject | None = None,
        *,
        timeout_s: float = 20.0,
        spec_hash: str | None = None,
    ) -> ToolOutput:
        """Call a tool as the worker would."""
        spec = self.spec(server, tool)
        return await self.run(
            claimed(spec, arguments or {}, timeout_s=timeout_s, spec_hash=spec_hash)
        )

    async def run(self, call: ClaimedCall) -> ToolOutput:
        """Run a claimed call."""
        context = ToolContext(
            run_id=RUN_ID,
            call_key=call.call_key,
            store=self.store,
            on_progress=lambda share, words: self.progress.append((share, words)),
        )
        return await self.executor.execute(call, context)


def claimed(
    spec: ToolSpec, arguments: JsonObject, *, timeout_s: float = 20.0, spec_hash: str | None = None
) -> ClaimedCall:
    """Return a claimed call of the tool."""
    return ClaimedCall(
        run_id=RUN_ID,
        call_key="0123456789abcdef",
        call_id="call_1",
        tool=spec.name,
        source=Source.MCP,
        spec_hash=spec_hash or spec.spec_hash,
        arguments=arguments,
        attempt=1,
        fence=1,
        caller=Caller.ASSISTANT,
        tenant="tests",
        profile="default",
        turn=0,
        timeout_s=timeout_s,
        max_output_bytes=1_048_576,
        max_output_tokens=4_000,
        policy_hash="0" * 64,
        client="tests",
    )


@asynccontextmanager
async def running(
    servers: Mapping[str, Entry], *, patience: Patience = IMPATIENT
) -> AsyncGenerator[Bench, None]:
    """Run an executor over these servers; afterwards no process of theirs is left."""
    text = json.dumps({"mcpServers": dict(servers)})
    file = parse_servers_file(text, file=Path("servers.json"))
    registry = ProcessRegistry()
    bench = Bench(McpExecutor(file, patience=patience, registry=registry), registry)
    before = children()
    await bench.executor.start(bench.note_change)
    try:
        yield bench
    finally:
        await bench.executor.stop()
        await await_until(lambda: children() <= before, "no process to be left")


def children() -> set[int]:
    """Return the ids of all processes below this one."""
    return {process.pid for process in psutil.Process(os.getpid()).children(recursive=True)}


def is_running(pid: int) -> bool:
    """Tell whether a process is there and not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def text_of(output: ToolOutput) -> str:
    """Return the text of an output's first block."""
    block = output.content[0]
    return block.text if isinstance(block, TextBlock) else ""
