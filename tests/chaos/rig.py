"""Give a whole cluster whose every part can be hurt, and a record of all that happens in it.

Is: a Redis of its own, workers that each reach it through a proxy of their own, clients that note
what they are told. Is not: the faults in an order (`nemesis.py`) or a judgement (`checker.py`).
Above: tests of faults. Below: `toolrail.testing`, `proxy.py`, `records.py`.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import redis
from pydantic import SecretStr

from tests.chaos.checker import Violation, check
from tests.chaos.effect_tools import UNITS
from tests.chaos.proxy import FaultProxy
from tests.chaos.records import Event, Histories, Records, read_journals
from tests.sources import ROOT
from tests.waiting import POLL_S, await_until
from toolrail import Settings
from toolrail.doorbell import RedisDoorbell
from toolrail.embedded import EmbeddedRedis
from toolrail.keys import Keys
from toolrail.request import Ticket
from toolrail.settings import own_environment, variable_of
from toolrail.supervisor.spec import ChildSpec, RestartPolicy, Stage
from toolrail.testing import Cluster
from toolrail_schemas import Doorbell

LEASE_S = 2.0
RECOVERY_S = LEASE_S + 5.0
"""Longest time from the loss of a worker to the answer of a call that may run again."""
BOUND_S = 50.0
PREFIX = "chaos:"
PROFILE = "agent"
USER = "tester"
FOREVER = RestartPolicy(base_s=0.1, cap_s=0.2, max_restarts=10_000)
REPEATABLE = frozenset({"effects.again", "effects.append_again"})
BUDGETS = {"effects.rare": UNITS}
POLICY = {
    "platform.toml": "",
    "source.toml": "",
    f"profiles/{PROFILE}.toml": (
        'on_denied = "return_result"\n'
        'allow = ["effects.*", "server:effects", "extension:effects"]\n'
    ),
    f"users/{USER}.toml": 'waive = ["server:effects", "extension:effects"]\n',
}


def write_settings(folder: Path) -> Settings:
    """Write policy and servers file; return the settings of a cell whose clocks run fast."""
    for name, text in POLICY.items():
        file = folder / "policy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    entry = {
        "command": sys.executable,
        "args": ["-m", "tests.chaos.effect_server"],
        "cwd": str(ROOT),
        "toolrail": {"liveness_s": 1},
    }
    servers = folder / "mcp.json"
    servers.write_text(json.dumps({"mcpServers": {"effects": entry}}), encoding="utf-8")
    return Settings(
        secret=SecretStr("a secret of the chaos tests"),
        key_prefix=PREFIX,
        policy_dir=folder / "policy",
        mcp_servers_file=servers,
        tool_modules=("tests.chaos.effect_tools",),
        slots=16,
        lease_s=LEASE_S,
        renew_s=0.4,
        loop_lag_limit_s=1.8,
        reaper_interval_s=0.2,
        ring_grace_s=0.5,
        announce_s=1.0,
        drain_s=5.0,
        redis_timeout_s=1.0,
    )


@dataclass
class Rig:
    """One cell, and the hands to hurt it."""

    server: EmbeddedRedis
    cluster: Cluster
    histories: Histories
    folder: Path
    proxies: dict[str, FaultProxy]
    redis_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by who stops or starts the server."""

    @property
    def settings(self) -> Settings:
        """Of the cell, with the way to Redis that leads through no proxy."""
        return self.cluster.settings

    @property
    def keys(self) -> Keys:
        """Of the cell."""
        return Keys(self.settings.key_prefix)

    def redis(self, *, timeout_s: float = BOUND_S) -> "redis.Redis":
        """Return a connection past all proxies."""
        return redis.Redis.from_url(
            self.server.url, decode_responses=True, socket_timeout=timeout_s
        )

    async def add_worker(self, name: str, *, settings: Settings | None = None) -> None:
        """Start a worker with a proxy of its own; `builtin.1` serves builtin tools."""
        source = name.partition(".")[0]
        proxied = await self.proxied(name, settings or self.settings)
        await self.cluster.add(
            ChildSpec(
                name=name,
                argv=(sys.executable, "-m", "toolrail", "worker", source, "--name", name),
                env=own_environment() | proxied.to_env() | {variable_of("metrics_port"): "0"},
                cwd=str(ROOT),
                source=source,
                stop_grace_s=20.0,
                restart=FOREVER,
            )
        )

    async def add_extension(self) -> None:
        """Start the extension."""
        proxied = await self.proxied("extension", self.settings)
        await self.cluster.add(
            ChildSpec(
                name="effects",
                argv=(sys.executable, "-m", "tests.chaos.effect_extension"),
                env=own_environment() | proxied.to_env(),
                cwd=str(ROOT),
                stage=Stage.FRONT,
                restart=FOREVER,
            )
        )

    async def proxied(self, name: str, settings: Settings) -> Settings:
        """Return settings with a way to Redis of their own, under a name."""
        assert self.server.port is not None
        proxy = self.proxies[name] = FaultProxy(self.server.port)
        await proxy.start()
        direct = f":{self.server.port}/"
        url = settings.redis_url.replace(direct, f":{proxy.port}/")
        return settings.model_copy(update={"redis_url": url})

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a worker's own process."""
        os.kill(self.cluster.pid(name), number)

    def freeze(self, *names: str) -> None:
        """SIGSTOP workers, all there are; none of them waits in Redis for a doorbell either."""
        for name in names:
            self.signal(name, signal.SIGSTOP)
        with self.redis() as client:
            for one in self._waiting():
                client.client_unblock(int(one["id"]))

    async def until_all_wait(self) -> None:
        """Return when every worker waits in Redis for a doorbell."""
        count = len(self.cluster.workers())
        await await_until(
            lambda: len(self._waiting()) >= count, "all wait for doorbells", timeout_s=BOUND_S
        )

    def _waiting(self) -> list[dict[str, str]]:
        with self.redis() as client:
            clients = client.client_list()
        return [one for one in clients if one["cmd"] == "blmpop" and "b" in one["flags"]]

    def heal(self) -> None:
        """Let everything go on that was frozen or held back."""
        for proxy in self.proxies.values():
            proxy.trap(b"")
            proxy.open("up", "down")
        for name in self.cluster.workers():
            with suppress(ProcessLookupError):
                self.signal(name, signal.SIGCONT)

    def _lives(self, name: str) -> bool:
        """Return whether a worker has a process, and no zombie."""
        try:
            stat = Path(f"/proc/{self.cluster.pid(name)}/stat").read_text(encoding="utf-8")
        except (ProcessLookupError, FileNotFoundError):
            return False
        return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}

    async def rest(self) -> None:
        """Return when every worker is ready, as before the fault, and none is at work."""
        self.heal()
        for name in self.cluster.workers():
            # One that was killed counts as ready until its supervisor has read its last line.
            await await_until(partial(self._lives, name), f"{name} lives")
            await self.cluster.wait_ready(name)

        # What is still at work after that is for the checker to tell.
        with suppress(TimeoutError):
            async with asyncio.timeout(RECOVERY_S):
                while self._works():  # noqa: ASYNC110  # Redis is asked, nobody tells
                    await asyncio.sleep(POLL_S)

    def _works(self) -> bool:
        with self.redis() as client:
            return int(str(client.zcard(self.keys.leases))) > 0

    def messages(self, queue: str = "builtin") -> int:
        """Return how many doorbells are in a queue."""
        with self.redis() as client:
            return int(str(client.llen(self.keys.queue(queue))))

    def bell(self, ticket: Ticket, *, attempt: int = 1) -> Doorbell:
        """Return the doorbell of a call."""
        return self.bell_of(f"{ticket.run_id}|{ticket.call_key}", attempt)

    def bell_of(self, member: str, attempt: int) -> Doorbell:
        """Return the doorbell of a call that a zset names as `run|call`."""
        run_id, _, call_key = member.partition("|")
        secret = self.settings.require_secret()
        return Doorbell.ring(secret, run_id=run_id, call_key=call_key, attempt=attempt)

    def ring(self, bell: Doorbell, *, times: int = 1, queue: str = "builtin") -> None:
        """Put a doorbell into a queue."""
        doorbell = RedisDoorbell()
        with self.redis() as client:
            for _ in range(times):
                client.lpush(self.keys.queue(queue), doorbell.inline(queue, bell))

    def events(self, call_id: str) -> list[Event]:
        """Return what the journals say of a call."""
        journals = read_journals(self.server.url, self.settings.key_prefix)
        return [e for events in journals.values() for e in events if e.call_id == call_id]

    def kinds(self, call_id: str) -> list[str]:
        """Return the kinds of a call's events."""
        return [event.type for event in self.events(call_id)]

    async def until_started(self, call_id: str, *, times: int = 1) -> str:
        """Return the worker of a call's last attempt, once it has started so often."""

        def has_started() -> bool:
            return self.kinds(call_id).count("tool_call_started") >= times

        await await_until(has_started, f"{call_id} has started {times} times", timeout_s=BOUND_S)
        starts = [event for event in self.events(call_id) if event.type == "tool_call_started"]
        name = self.cluster.name_of(int(starts[-1].worker.rsplit("-", 2)[1]))
        assert name is not None
        return name

    async def until_effect(self, call_id: str) -> None:
        """Return once a call had its effect."""
        await await_until(
            lambda: self.histories.effects(call_id), f"{call_id} has its effect", timeout_s=BOUND_S
        )

    def judge(self) -> tuple[Records, list[Violation]]:
        """Return the whole life of the cell, which must be at rest, and what is wrong in it."""
        journals = read_journals(self.server.url, self.settings.key_prefix)
        records = self.histories.read(journals)
        return records, check(records, caps=BUDGETS)


@asynccontextmanager
async def open_rig(
    folder: Path,
    *workers: str,
    extension: bool = False,
    program: Path | None = None,
    change: Callable[[Settings], Settings] = lambda settings: settings,
) -> AsyncGenerator[Rig]:
    """Give a cell with these workers, all ready; leave no process.

    Args:
        folder: Of the test's own.
        workers: Such as `builtin.1`; the part before the dot is the source.
        extension: Also run the extension.
        program: Of the Redis server; None takes what an embedded one would.
        change: Of the settings.
    """
    async with AsyncExitStack() as stack:
        server = EmbeddedRedis(folder / "redis", program=program)
        await server.start_async()
        stack.push_async_callback(server.stop_async)
        direct = write_settings(folder).model_copy(update={"redis_url": server.url})
        own = change(direct)
        proxies: dict[str, FaultProxy] = {}
        stack.push_async_callback(_stop_proxies, proxies)
        cluster = await stack.enter_async_context(Cluster(folder, settings=own, scale={}))
        rig = Rig(server, cluster, Histories(folder / "histories"), folder, proxies)
        stack.callback(rig.heal)
        await asyncio.gather(*(rig.add_worker(name) for name in workers))
        if extension:
            await rig.add_extension()
        yield rig


async def _stop_proxies(proxies: Mapping[str, FaultProxy]) -> None:
    for proxy in proxies.values():
        await proxy.stop()
