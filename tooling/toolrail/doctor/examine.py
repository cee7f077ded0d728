"""Look at everything, one noun after the other, and go on when one cannot be looked at.

Is: the order of the checks and what is asked for them. Is not: any judgement (the other modules).
Above: `toolrail doctor`. Below: the other modules here.
"""

import asyncio
from collections.abc import Awaitable, Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

from kombu import Connection
from redis.asyncio import Redis

from toolrail.doctor.books import check_books
from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.doctor.machine import check_packages, check_python, check_settings
from toolrail.doctor.queues import judge_queue
from toolrail.doctor.server import check_server
from toolrail.doctor.servers import OWNERS, judge_owners, judge_servers_file, unreadable
from toolrail.doctor.workers import judge_workers
from toolrail.embedded import find_program
from toolrail.errors import ConfigError, RedisUnavailable, ToolrailError
from toolrail.fleet import Fleet
from toolrail.queues import Queues
from toolrail.redis_io import connect
from toolrail.registry import Registry
from toolrail.settings import Settings
from toolrail.urls import redact_url

PATIENCE_S = 2.0


async def examine(settings: Settings | ConfigError) -> list[Finding]:
    """Return everything that can be said about this machine and its cell.

    Args:
        settings: Of this process, or why there are none.
    """
    findings = [check_python(), check_packages()]
    if isinstance(settings, ConfigError):
        return [*findings, fail("settings", settings.message, "Correct the variable.")]
    findings += check_settings(settings)
    redis = connect(settings.redis_url, timeout_s=PATIENCE_S, name="toolrail-doctor")
    try:
        findings += await check_cell(settings, redis)
    finally:
        await redis.aclose()
    if settings.has_foreign_broker:
        findings.append(await asyncio.to_thread(_broker, settings))
    return findings


async def check_cell(settings: Settings, redis: Redis) -> list[Finding]:
    """Return what can be said about Redis and what our keys in it say."""
    try:
        findings = await check_server(
            redis, admission_ratio=settings.admission_memory_ratio, deadline_s=PATIENCE_S
        )
    except RedisUnavailable as error:
        return _away(settings, error)
    except ToolrailError as error:
        findings = [fail("redis", error.message, "Let this user run INFO, CONFIG GET and TIME.")]
    for check in (_check_work, _check_owners):
        findings += await _guarded(check, settings, redis)
    return findings


async def _guarded(
    check: Callable[[Settings, Redis], Awaitable[list[Finding]]], settings: Settings, redis: Redis
) -> list[Finding]:
    try:
        return await check(settings, redis)
    except ToolrailError as error:
        return [fail("redis", error.message, "Repair that first, then look again.")]


async def _check_work(settings: Settings, redis: Redis) -> list[Finding]:
    prefix = settings.key_prefix
    fleet = Fleet(redis, prefix=prefix, deadline_s=PATIENCE_S)
    queues = Queues(
        redis, prefix=prefix, deadline_s=PATIENCE_S, is_foreign=settings.has_foreign_broker
    )
    workers, states = await fleet.workers(), await queues.read()
    books = await check_books(
        redis,
        prefix=prefix,
        place=f"{prefix} in {redact_url(settings.redis_url)}",
        deadline_s=PATIENCE_S,
        has_workers=bool(workers),
    )
    judged = judge_workers(
        workers,
        now_ms=await fleet.now_ms(),
        settings=settings,
        version=_version(),
        waiting=frozenset(state.source for state in states if state.queued),
    )
    return [*books, *map(judge_queue, states), *judged]


async def _check_owners(settings: Settings, redis: Redis) -> list[Finding]:
    registry = Registry(redis, prefix=settings.key_prefix, deadline_s=PATIENCE_S)
    findings: list[Finding] = []
    for queue in OWNERS:
        owners = await registry.offers(queue)
        findings += judge_owners(queue, owners)
        file = settings.mcp_servers_file if queue == "mcp" else None
        # One that cannot be read was told with the settings of this machine.
        if file is not None and unreadable(file) is None:
            findings += judge_servers_file(file, owners)
    return findings


def _away(settings: Settings, error: RedisUnavailable) -> list[Finding]:
    where = redact_url(settings.redis_url)
    if "redis_url" in settings.model_fields_set:
        fix = "Start it, or correct TOOLRAIL_REDIS_URL; look at its log and at firewalls between."
        return [fail("redis", f"{where}: {error.message}", fix)]
    try:
        program = find_program()
    except ToolrailError as missing:
        return [fail("redis", missing.message, "Do one of these.")]
    return [warn("redis", f"none at {where}", f"`toolrail up` starts {program}")]


def _broker(settings: Settings) -> Finding:
    url = settings.broker_url or ""
    where = redact_url(url)
    try:
        with Connection(url, connect_timeout=int(PATIENCE_S)) as connection:
            connection.ensure_connection(max_retries=1, timeout=int(PATIENCE_S))
    except Exception as error:  # noqa: BLE001  # each transport has errors of its own
        seen = f"{where} does not take doorbells: {type(error).__name__}"
        fix = "Start it, or correct TOOLRAIL_BROKER_URL. Calls wait meanwhile; none is lost."
        return fail("broker", seen, fix)
    return ok("broker", f"{where} answers")


def _version() -> str:
    try:
        return version_of("toolrail")
    except PackageNotFoundError:
        return ""
