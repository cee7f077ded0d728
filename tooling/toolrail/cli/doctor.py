"""`toolrail doctor`: is everything here that Toolrail needs, and what to do if not.

Is: one finding per thing that people stumble over. Is not: monitoring (`/metrics`).
Above: `main.py`. Below: `toolrail.settings`, `toolrail.embedded`, `toolrail.registry`.
"""

import asyncio
import importlib.util
import logging
import platform
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import typer
from redis.asyncio import Redis

from toolrail.cli.options import CommandExit
from toolrail.cli.start import options_of, start
from toolrail.discovery import discover_tools
from toolrail.embedded import find_program
from toolrail.errors import ConfigError, ToolrailError
from toolrail.policy.load import load_policy
from toolrail.redaction import clean
from toolrail.redis_io import connect, retrying
from toolrail.redis_version import read_version
from toolrail.registry import QUEUES, Registry
from toolrail.settings import Settings, redact_url
from toolrail.supervisor.state import find_cluster

_PATIENCE_S = 2.0
_OLDEST_PYTHON = (3, 11)


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Fine as it is, but good to know."""
    PROBLEM = "problem"


_COLOURS = {
    Level.OK: typer.colors.GREEN,
    Level.NOTE: typer.colors.YELLOW,
    Level.PROBLEM: typer.colors.RED,
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    subject: str
    text: str
    fix: str | None = None


def doctor(context: typer.Context) -> None:
    """Check this machine and its settings; exit code 1 when something must be done."""
    findings = [check_python(), *check_packages()]
    try:
        settings = start(context)
        if not options_of(context).is_debugging:
            # What is found is said below, once, and not in the log as well.
            logging.disable(logging.CRITICAL)
    except ConfigError as error:
        findings.append(Finding(Level.PROBLEM, "settings", str(error)))
    else:
        findings += check_settings(settings)
        findings += asyncio.run(check_redis(settings))
    for finding in findings:
        _show(finding)
    if any(finding.level is Level.PROBLEM for finding in findings):
        raise CommandExit(1)


def check_python() -> Finding:
    """Look at the interpreter."""
    text = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < _OLDEST_PYTHON:
        return Finding(Level.PROBLEM, "python", text, "Use Python 3.11 or newer.")
    return Finding(Level.OK, "python", text)


def check_packages() -> list[Finding]:
    """Look at the optional parts of the installation."""
    found = importlib.util.find_spec("celery") is not None
    if found:
        return [Finding(Level.OK, "workers", "worker packages are installed")]
    fix = "pip install 'toolrail[worker]' where workers shall run; clients do not need it."
    return [Finding(Level.NOTE, "workers", "worker packages are not installed", fix)]


def check_settings(settings: Settings) -> list[Finding]:
    """Look at what can be judged without Redis."""
    findings = [
        Finding(Level.OK, "settings", f"state in {settings.state_dir.absolute()}"),
        _check_secret(settings),
        _check_cluster(settings),
        _check_policy(settings),
    ]
    try:
        tools = discover_tools(modules=settings.tool_modules)
    except ConfigError as error:
        return [*findings, Finding(Level.PROBLEM, "tools", str(error))]
    findings.append(Finding(Level.OK, "tools", f"{len(tools.tools)} are installed here"))
    for broken in tools.broken:
        text = f"{broken.place} is broken: {broken.error}"
        findings.append(Finding(Level.PROBLEM, "tools", text, "Repair or uninstall it."))
    return findings


async def check_redis(settings: Settings) -> list[Finding]:
    """Look at the server and at who announced tools in it."""
    redis = connect(settings.redis_url, timeout_s=_PATIENCE_S, name="toolrail-doctor")
    try:
        return [*await _check_server(redis), *await _check_workers(redis, settings)]
    except ToolrailError as error:
        where = redact_url(settings.redis_url)
        if "redis_url" in settings.model_fields_set:
            return [Finding(Level.PROBLEM, "redis", f"{where}: {error}")]
        return [Finding(Level.NOTE, "redis", f"none at {where}"), _check_embedded()]
    finally:
        await redis.aclose()


def _check_secret(settings: Settings) -> Finding:
    if settings.secret is not None:
        return Finding(Level.OK, "secret", "doorbells can be signed")
    fix = "`toolrail up` makes one; elsewhere set TOOLRAIL_SECRET or TOOLRAIL_SECRET_FILE."
    return Finding(Level.NOTE, "secret", "there is none", fix)


def _check_cluster(settings: Settings) -> Finding:
    cluster = find_cluster(settings.state_dir)
    if cluster is None:
        return Finding(Level.NOTE, "cluster", "none is up in this folder", "`toolrail up`")
    names = ", ".join(child.name for child in cluster.children)
    return Finding(Level.OK, "cluster", f"up as process {cluster.supervisor_pid}: {names}")


def _check_policy(settings: Settings) -> Finding:
    try:
        folder = load_policy(settings.policy_dir)
    except ConfigError as error:
        return Finding(Level.PROBLEM, "policy", str(error))
    return Finding(
        Level.OK, "policy", f"{folder.where}: profiles {_names(sorted(folder.profiles))}"
    )


def _check_embedded() -> Finding:
    try:
        return Finding(Level.OK, "redis", f"`toolrail up` starts {find_program()}")
    except ToolrailError as error:
        return Finding(Level.PROBLEM, "redis", str(error))


async def _check_server(redis: Redis) -> list[Finding]:
    info: dict[str, object] = await retrying(lambda: redis.info(), deadline_s=_PATIENCE_S)
    findings = [Finding(Level.OK, "redis", str(read_version(info)))]
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        text = f"maxmemory-policy is {policy}: Redis may throw calls away"
        findings.append(
            Finding(Level.PROBLEM, "redis", text, "CONFIG SET maxmemory-policy noeviction")
        )
    if str(info.get("aof_enabled", "0")) == "0":
        text = "no append-only file: a crash of Redis loses what it held"
        findings.append(Finding(Level.NOTE, "redis", text, "CONFIG SET appendonly yes"))
    return findings


async def _check_workers(redis: Redis, settings: Settings) -> list[Finding]:
    registry = Registry(redis, prefix=settings.key_prefix, deadline_s=_PATIENCE_S)
    tools = await registry.tools()
    findings: list[Finding] = []
    for queue in QUEUES:
        owners = sorted({tool.owner for tool in tools if tool.queue == queue})
        workers = {w for owner in owners for w in await registry.live_workers(queue, owner)}
        count = sum(tool.queue == queue for tool in tools)
        text = f"{queue}: {len(workers)} live, {count} tools of {_names(owners)}"
        fix = None if workers else f"toolrail worker {queue}"
        level = Level.OK if workers else Level.NOTE
        findings.append(Finding(level, "workers", text, fix))
    return findings


def _names(owners: Iterable[str]) -> str:
    return ", ".join(owners) or "nobody"


def _show(finding: Finding) -> None:
    mark = typer.style(finding.level.value.ljust(8), fg=_COLOURS[finding.level])
    typer.echo(f"{mark}{finding.subject.ljust(10)}{clean(finding.text)}")
    if finding.fix is not None:
        typer.echo(f"{' ' * 18}fix: {finding.fix}")
