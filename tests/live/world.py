"""A whole cell with everything that watches it, for the length of a test.

Is: cluster, exporter, extension, MCP servers, Prometheus, Alertmanager and who is paged; and the
hands to hurt each. Is not: the script (`faults.py`).
Above: the live test. Below: `toolrail.testing`, `servers.py`.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import redis

from tests.live.servers import Alertmanager, Haste, Prometheus, Receiver, now
from tests.sources import ROOT
from tests.waiting import await_until
from toolrail.client import Toolrail
from toolrail.metrics.serve import serve
from toolrail.settings import Settings
from toolrail.supervisor.spec import ChildSpec, RestartPolicy, Stage
from toolrail.supervisor.state import TARGETS_FILE
from toolrail.tasks import end_task
from toolrail.testing import Cluster

BOUND_S = 40.0
LOOK_S = 0.25
SCALE = {"builtin": 2, "mcp": 1, "extension": 1}
MEMORY = "256mb"
SERVERS = ("steady", "gated")
POLICY = {
    "platform.toml": "",
    "source.toml": "",
    "profiles/agent.toml": (
        'on_denied = "return_result"\n'
        'allow = ["live.*", "server:steady", "server:gated", "extension:dice"]\n'
        '[[rules]]\nid = "nobody-publishes"\neffect = "deny"\ntools = ["live.publish"]\n'
        'reason = "Nobody does."\non_denied = "return_result"\n'
    ),
    "users/tester.toml": 'waive = ["server:steady", "server:gated", "extension:dice"]\n',
}


@dataclass
class World:
    """What the script acts on."""

    cluster: Cluster
    rail: Toolrail
    prometheus: Prometheus
    receiver: Receiver
    alertmanager: Alertmanager
    directory: Path
    start: float = field(default_factory=now)

    @property
    def settings(self) -> Settings:
        """Of cluster and client."""
        return self.cluster.settings

    def gate(self, server: str) -> Path:
        """The file without which an MCP server does not start."""
        return self.directory / f"{server}.gate"

    def kill_mcp_server(self, server: str) -> None:
        """SIGKILL the process of a server; the worker starts it again if its gate is there."""
        worker = psutil.Process(self.cluster.pid("mcp.1"))
        for child in worker.children(recursive=True):
            # Between two looks a process may end, or be about to.
            with suppress(psutil.Error):
                if str(self.gate(server)) in child.cmdline():
                    child.kill()

    def redis_pid(self) -> int:
        """The process id of the cell's Redis."""
        with redis.Redis.from_url(self.settings.redis_url) as client:
            return int(client.info("server")["process_id"])

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Return once something holds, which may take a moment to find out."""

        async def holds() -> bool:
            await asyncio.sleep(LOOK_S)
            return bool(await asyncio.to_thread(condition))

        await await_until(holds, what, timeout_s=BOUND_S)

    async def until_query(self, expression: str) -> None:
        """Return once an expression has a value other than 0."""
        await self.until(lambda: self.prometheus.value(expression), expression)

    async def scraped(self) -> None:
        """Return once every process was scraped and every rule evaluated after now."""
        since = now()
        await self.until_query(f"min(timestamp(up)) > {since + 1}")


def write_world(directory: Path) -> Settings:
    """Write policy and servers file; return the settings of the cell."""
    for name, text in POLICY.items():
        file = directory / "policy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    servers = {name: _entry(directory, name) for name in SERVERS}
    (directory / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return Settings(
        policy_dir=directory / "policy",
        mcp_servers_file=directory / "mcp.json",
        tool_modules=("tests.live.tools",),
        slots=20,
        lease_s=2.0,
        renew_s=0.5,
        loop_lag_limit_s=1.5,
        reaper_interval_s=0.2,
        ring_grace_s=0.5,
        announce_s=1.0,
        drain_s=5.0,
        approval_expiry_s=10.0,
        redis_timeout_s=1.0,
        metrics_port=0,
    )


def _entry(directory: Path, name: str) -> dict[str, object]:
    gate = directory / f"{name}.gate"
    gate.touch()
    program = ROOT / "tests" / "live" / "gated_mcp_server.py"
    arguments = [str(program), str(gate), str(directory / f"{name}.cancelled")]
    return {"command": sys.executable, "args": arguments, "toolrail": {"liveness_s": 1}}


@asynccontextmanager
async def open_world(directory: Path, *, haste: Haste | None) -> AsyncGenerator[World]:
    """Give a cell that is up and scraped; leave no process."""
    async with AsyncExitStack() as stack:
        receiver = Receiver()
        stack.callback(receiver.stop)
        alertmanager = Alertmanager(directory / "alertmanager", receiver)
        stack.callback(alertmanager.stop)
        prometheus = Prometheus(
            directory / "prometheus", alertmanager=alertmanager.address, haste=haste
        )
        stack.callback(prometheus.stop)
        cluster = Cluster(directory, settings=write_world(directory), scale=SCALE, exports=True)
        await stack.enter_async_context(cluster)
        await cluster.add(_extension(cluster))
        with redis.Redis.from_url(cluster.settings.redis_url) as client:
            client.config_set("maxmemory", MEMORY)
        for server in (alertmanager, prometheus):
            await asyncio.to_thread(server.start)
        rail = await stack.enter_async_context(cluster.client())
        aim = asyncio.create_task(_aim(cluster, prometheus))
        stack.push_async_callback(end_task, aim)
        shown = serve(rail.metrics, host="127.0.0.1", port=0, is_ready=lambda: None)
        stack.callback(shown.close)
        prometheus.aim("toolrail-clients", [shown.address])
        world = World(cluster, rail, prometheus, receiver, alertmanager, directory)
        await world.until_query("min(up) * count(up{job=~'toolrail-.+'}) >= bool 6")
        await world.until(lambda: not prometheus.firing(), "no alert")
        world.start = now()
        yield world


def _extension(cluster: Cluster) -> ChildSpec:
    program = (sys.executable, "-m", "tests.extensions.dice")
    return ChildSpec(
        name="dice",
        argv=(*program, "--heartbeat-s=0.2", "--dead-after-s=1", "--patience-s=30"),
        env=cluster.environment(),
        cwd=str(ROOT),
        stage=Stage.FRONT,
        restart=RestartPolicy(base_s=0.5),
    )


async def _aim(cluster: Cluster, prometheus: Prometheus) -> None:
    """Tell Prometheus what the cluster wrote down; a restarted process has another port."""
    file = cluster.settings.state_dir / TARGETS_FILE
    known = ""
    while True:
        text = await asyncio.to_thread(_read, file)
        if text and text != known:
            known = text
            for group in json.loads(text):
                prometheus.aim(group["labels"]["job"], group["targets"])
        await asyncio.sleep(LOOK_S)


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""


@asynccontextmanager
async def frozen(pid: int) -> AsyncGenerator[None]:
    """SIGSTOP a process for as long as the block runs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
