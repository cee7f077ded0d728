"""Do one harm each to a running cell, and undo it.

Is: every fault of the nemesis, by name. Is not: when they happen (`nemesis.py`). Above:
`nemesis.py`. Below: `rig.py`.
"""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import psutil
import redis

from tests.chaos.rig import LEASE_S, Rig
from toolrail.doorbell import QUEUES, RedisDoorbell, read_envelope

BEYOND_LEASE_S = LEASE_S * 1.3
MOMENT_S = 0.5
KILL_EVERY_S = 0.2
KILLS = 10
COPIES = 3
ANSWER_S = 2.0

Deed = Callable[[Rig, random.Random], Awaitable[None]]


async def kill_worker(rig: Rig, rng: random.Random) -> None:
    """SIGKILL: no drain, no word."""
    _signal_one(rig, rng, signal.SIGKILL)


async def stop_worker(rig: Rig, rng: random.Random) -> None:
    """SIGTERM: the worker drains, and its supervisor starts another."""
    _signal_one(rig, rng, signal.SIGTERM)


async def quit_worker(rig: Rig, rng: random.Random) -> None:
    """SIGQUIT: the worker hands over at once."""
    _signal_one(rig, rng, signal.SIGQUIT)


async def freeze_worker(rig: Rig, rng: random.Random) -> None:
    """SIGSTOP beyond the lease; afterwards the worker believes that it still holds its calls."""
    pid = _signal_one(rig, rng, signal.SIGSTOP)
    await asyncio.sleep(BEYOND_LEASE_S)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def cut_off(rig: Rig, rng: random.Random) -> None:
    """Nothing passes between one process and Redis, for longer than the lease."""
    proxy = rig.proxies[rng.choice(sorted(rig.proxies))]
    proxy.hold("up", "down")
    await asyncio.sleep(BEYOND_LEASE_S)
    proxy.open("up", "down")


async def delay_commands(rig: Rig, rng: random.Random) -> None:
    """Commands arrive after the lease, also those whose senders have given up on them."""
    proxy = rig.proxies[rng.choice(sorted(rig.proxies))]
    proxy.hold("up")
    await asyncio.sleep(BEYOND_LEASE_S)
    proxy.open("up")


async def lose_replies(rig: Rig, rng: random.Random) -> None:
    """Commands take effect, and nobody is told."""
    proxy = rig.proxies[rng.choice(sorted(rig.proxies))]
    proxy.hold("down")
    await asyncio.sleep(MOMENT_S)
    proxy.cut()
    proxy.open("down")


async def refuse_connections(rig: Rig, rng: random.Random) -> None:
    """Every connection of one process is reset, and a new one refused for a moment."""
    with rig.proxies[rng.choice(sorted(rig.proxies))].refusing():
        await asyncio.sleep(MOMENT_S)


async def kill_connections(rig: Rig, rng: random.Random) -> None:
    """CLIENT KILL of everybody, again and again (E6)."""
    for _ in range(KILLS):
        await kill_all_connections(rig)
        await asyncio.sleep(KILL_EVERY_S)


async def kill_all_connections(rig: Rig) -> None:
    """CLIENT KILL of everybody, once."""

    def kill(client: "redis.Redis") -> None:
        client.client_kill_filter(_type="normal", skipme=True)

    await _in_redis(rig, kill)


async def cut_leases(rig: Rig, rng: random.Random) -> None:
    """Every lease is over at once, though its worker is alive and at it."""

    def cut(client: "redis.Redis") -> None:
        for member in client.zrange(rig.keys.leases, 0, -1):
            client.zadd(rig.keys.leases, {str(member): 1}, xx=True)

    await _in_redis(rig, cut)


async def drop_doorbells(rig: Rig, rng: random.Random) -> None:
    """All doorbells that nobody has popped yet are gone, for a moment."""

    def drop(client: "redis.Redis") -> None:
        client.delete(*(rig.keys.queue(queue) for queue in QUEUES))

    for _ in range(KILLS):
        await _in_redis(rig, drop)
        await asyncio.sleep(KILL_EVERY_S / KILLS)


async def copy_doorbells(rig: Rig, rng: random.Random) -> None:
    """Every open call is rung for three times more, at its old and its next attempt too."""

    def copy(client: "redis.Redis") -> None:
        doorbell = RedisDoorbell()
        for queue in QUEUES:
            waiting = [str(member) for member in client.zrange(rig.keys.queued(queue), 0, -1)]
            running = [str(member) for member in client.zrange(rig.keys.leases, 0, -1)]
            for member in waiting + running:
                for attempt in (1, 2):
                    text = doorbell.inline(queue, rig.bell_of(member, attempt))
                    client.lpush(rig.keys.queue(queue), *[text] * COPIES)

    await _in_redis(rig, copy)


async def forge_doorbells(rig: Rig, rng: random.Random) -> None:
    """Every doorbell in a queue is there again with a wrong MAC, and in another order."""

    def forge(client: "redis.Redis") -> None:
        doorbell = RedisDoorbell()
        for queue in QUEUES:
            key = rig.keys.queue(queue)
            texts = [str(text) for text in client.lrange(key, 0, -1)]
            bells = [bell for text in texts if (bell := read_envelope(text)) is not None]
            forged = [doorbell.inline(queue, b.model_copy(update={"mac": "0" * 64})) for b in bells]
            mixed = texts + forged
            rng.shuffle(mixed)
            if mixed:
                client.lpush(key, *mixed)

    await _in_redis(rig, forge)


async def kill_redis(rig: Rig, rng: random.Random) -> None:
    """SIGKILL; it comes back with its append-only file."""
    async with rig.redis_lock:
        rig.server.kill()
        await asyncio.sleep(MOMENT_S)
        await rig.server.start_async()


async def restart_redis(rig: Rig, rng: random.Random) -> None:
    """A clean restart."""
    async with rig.redis_lock:
        await rig.server.stop_async()
        await rig.server.start_async()


async def freeze_redis(rig: Rig, rng: random.Random) -> None:
    """SIGSTOP for longer than anybody's patience with one reply."""
    async with rig.redis_lock:
        os.kill(rig.server.pid, signal.SIGSTOP)
        await asyncio.sleep(rig.settings.redis_timeout_s * 1.3)
        os.kill(rig.server.pid, signal.SIGCONT)


async def kill_extension(rig: Rig, rng: random.Random) -> None:
    """SIGKILL of the extension's process."""
    with suppress(ProcessLookupError):
        os.kill(rig.cluster.pid("effects"), signal.SIGKILL)


async def kill_mcp_server(rig: Rig, rng: random.Random) -> None:
    """SIGKILL of the server process of one MCP worker."""
    name = rng.choice(rig.cluster.workers("mcp"))
    with suppress(ProcessLookupError, psutil.Error):
        for child in psutil.Process(rig.cluster.pid(name)).children(recursive=True):
            if "tests.chaos.effect_server" in child.cmdline():
                child.kill()


DEEDS: dict[str, Deed] = {
    "worker SIGKILL": kill_worker,
    "worker SIGTERM": stop_worker,
    "worker SIGQUIT": quit_worker,
    "worker SIGSTOP": freeze_worker,
    "partition": cut_off,
    "commands late": delay_commands,
    "replies lost": lose_replies,
    "connections reset": refuse_connections,
    "CLIENT KILL x10": kill_connections,
    "leases cut short": cut_leases,
    "doorbells dropped": drop_doorbells,
    "doorbells x3": copy_doorbells,
    "doorbells forged": forge_doorbells,
    "Redis SIGKILL": kill_redis,
    "Redis restart": restart_redis,
    "Redis SIGSTOP": freeze_redis,
    "extension SIGKILL": kill_extension,
    "MCP server SIGKILL": kill_mcp_server,
}


def _signal_one(rig: Rig, rng: random.Random, number: signal.Signals) -> int:
    """Send a signal to one worker that runs; return its process id."""
    names = rig.cluster.workers()
    rng.shuffle(names)
    for name in names:
        with suppress(ProcessLookupError):
            pid = rig.cluster.pid(name)
            os.kill(pid, number)
            return pid
    return os.getpid()


async def _in_redis(rig: Rig, action: Callable[["redis.Redis"], None]) -> None:
    """Do something to the data; a Redis that another deed has hurt is left alone."""

    def act() -> None:
        with suppress(redis.RedisError, OSError), rig.redis(timeout_s=ANSWER_S) as client:
            action(client)

    await asyncio.to_thread(act)
