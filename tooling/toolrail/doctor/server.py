"""Look at the Redis server: can it hold what must not be lost.

Is: INFO, the clock, the way to the server, judged one by one. Is not: what our keys say
(`books.py`). Above: `examine.py`. Below: `redis_io`.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from redis.asyncio import Redis

from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.errors import RedisError, RedisTooOld
from toolrail.redis_io import command, retrying
from toolrail.redis_version import read_version

MIB = 1024 * 1024
PINGS = 5
LATENCY_WARN_S = 0.010
"""A call takes four round trips, a lease is renewed in one."""
LATENCY_FAIL_S = 1.0
SKEW_WARN_S = 2.0
NEAR = 0.8
"""Share of a limit from which it is near."""


async def check_server(redis: Redis, *, admission_ratio: float, deadline_s: float) -> list[Finding]:
    """Return what can be said about the server.

    Args:
        redis: To look at.
        admission_ratio: Share of maxmemory above which new calls are refused.
        deadline_s: Patience with it.

    Raises:
        RedisUnavailable: It does not answer.
        RedisError: It refuses INFO.
    """
    info: dict[str, object] = await retrying(lambda: redis.info(), deadline_s=deadline_s)
    synced = await _setting(redis, "appendfsync", deadline_s)
    return [
        *judge_info(info, admission_ratio=admission_ratio, appendfsync=synced),
        judge_latency(await _latency_s(redis, deadline_s)),
        judge_clock(await _skew_s(redis, deadline_s)),
    ]


def judge_info(
    info: Mapping[str, object], *, admission_ratio: float, appendfsync: str
) -> list[Finding]:
    """Return what INFO means; what a server does not say is not judged."""
    return [
        *_kind(info),
        _eviction(info),
        _memory(info, admission_ratio),
        *_persistence(info, appendfsync),
        *_clients(info),
    ]


def judge_latency(latency_s: float) -> Finding:
    """Return what the median round trip means."""
    seen = f"{latency_s * 1000:.1f} ms for a round trip"
    fix = "Run clients and workers near Redis; look for swapping, slow commands (SLOWLOG GET)."
    if latency_s >= LATENCY_FAIL_S:
        return fail("latency", seen, fix)
    return warn("latency", seen, fix) if latency_s >= LATENCY_WARN_S else ok("latency", seen)


def judge_clock(skew_s: float) -> Finding:
    """Return what it means that our clock is so far ahead of that of Redis."""
    seen = f"this machine is {abs(skew_s):.1f} s {'ahead of' if skew_s > 0 else 'behind'} Redis"
    if abs(skew_s) < SKEW_WARN_S:
        return ok("clock", seen)
    fix = "Set both by NTP. Redis alone decides what is due, but logs and run ids are off here."
    return warn("clock", seen, fix)


def _kind(info: Mapping[str, object]) -> Iterator[Finding]:
    try:
        yield ok("redis", str(read_version(info)))
    except RedisTooOld as error:
        yield fail("redis", error.message, "Upgrade it.")
    if str(info.get("role", "master")) not in {"master", "primary"}:
        seen = "it is a replica, which takes no writes"
        yield fail("redis", seen, "Name its primary in TOOLRAIL_REDIS_URL.")
    if str(info.get("cluster_enabled", "0")) == "1":
        seen = "it is a Redis Cluster, in which a script cannot reach all keys"
        yield fail("redis", seen, "Use a single primary; more cells make it larger.")


def _eviction(info: Mapping[str, object]) -> Finding:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy == "noeviction":
        return ok("eviction", "noeviction: nothing is thrown away")
    seen = f"maxmemory-policy is {policy}: Redis may throw calls away"
    return fail("eviction", seen, "CONFIG SET maxmemory-policy noeviction")


def _memory(info: Mapping[str, object], admission_ratio: float) -> Finding:
    used, most = _number(info, "used_memory"), _number(info, "maxmemory")
    if most == 0:
        seen = f"{used // MIB} MiB used without a maxmemory: the kernel ends Redis when it is full"
        return warn("memory", seen, "CONFIG SET maxmemory to what the machine can spare.")
    share = used / most
    seen = (
        f"{used // MIB} of {most // MIB} MiB used ({share:.0%}); "
        f"new calls are refused above {admission_ratio:.0%}"
    )
    fix = "Raise maxmemory, or shorten TOOLRAIL_RETENTION_S."
    if share > admission_ratio:
        return fail("memory", seen, fix)
    return warn("memory", seen, fix) if share > NEAR * admission_ratio else ok("memory", seen)


def _persistence(info: Mapping[str, object], appendfsync: str) -> Iterator[Finding]:
    subject = "persistence"
    if _number(info, "loading"):
        yield fail(subject, "Redis still loads its data", "Wait until it has.")
    if str(info.get("aof_last_write_status", "ok")) != "ok":
        seen = "the last write to the append-only file failed: Redis refuses writes"
        yield fail(subject, seen, "Free disk space at Redis, or repair the disk; see its log.")
    if str(info.get("rdb_last_bgsave_status", "ok")) != "ok":
        seen = "the last snapshot failed: Redis refuses writes unless it is told not to"
        yield fail(subject, seen, "Free disk space and memory at Redis, then BGSAVE.")
    if str(info.get("aof_last_bgrewrite_status", "ok")) != "ok":
        seen = "the last rewrite of the append-only file failed, so it grows"
        yield warn(subject, seen, "Free disk space and memory at Redis, then BGREWRITEAOF.")
    if not _number(info, "aof_enabled"):
        seen = "no append-only file: a crash of Redis loses what it held"
        yield warn(subject, seen, "CONFIG SET appendonly yes, and the same in its file.")
    elif appendfsync == "no":
        seen = "appendfsync is no: a crash of the machine may lose half a minute"
        yield warn(subject, seen, "CONFIG SET appendfsync everysec, and the same in its file.")
    else:
        yield ok(subject, f"append-only file is on{', ' if appendfsync else ''}{appendfsync}")


def _clients(info: Mapping[str, object]) -> Iterator[Finding]:
    connected, most = _number(info, "connected_clients"), _number(info, "maxclients")
    if most and connected > NEAR * most:
        seen = f"{connected} of {most} connections are taken"
        yield warn("clients", seen, "Raise maxclients, or look who holds them: CLIENT LIST.")


async def _latency_s(redis: Redis, deadline_s: float) -> float:
    took: list[float] = []
    for _ in range(PINGS):
        start = time.perf_counter()
        await retrying(lambda: command(redis, "PING"), deadline_s=deadline_s)
        took.append(time.perf_counter() - start)
    return sorted(took)[PINGS // 2]


async def _skew_s(redis: Redis, deadline_s: float) -> float:
    before_s = time.time()
    reply = await retrying(lambda: command(redis, "TIME"), deadline_s=deadline_s)
    after_s = time.time()
    seconds, micros = cast("tuple[int, int]", reply)
    theirs_s = int(seconds) + int(micros) / 1_000_000
    # Within the round trip nobody can say when Redis looked at its clock.
    if before_s <= theirs_s <= after_s:
        return 0.0
    return before_s - theirs_s if before_s > theirs_s else after_s - theirs_s


async def _setting(redis: Redis, name: str, deadline_s: float) -> str:
    """Return a setting of the server; "" where we may not ask."""
    try:
        reply = await retrying(lambda: command(redis, "CONFIG", "GET", name), deadline_s=deadline_s)
    except RedisError:
        return ""
    pair = cast("Sequence[str]", reply)
    return pair[1] if len(pair) == 2 else ""


def _number(info: Mapping[str, object], name: str) -> int:
    text = str(info.get(name, "0"))
    return int(text) if text.isdigit() else 0
