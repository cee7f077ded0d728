"""Look at this machine and its settings, without Redis.

Is: interpreter, packages, disk, secret, policy, tools, named files, the local cluster. Is not: the
cell. Above: `examine.py`. Below: `toolrail.settings`, discovery, policy.
"""

import importlib.util
import platform
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from toolrail.discovery import discover_tools
from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.doctor.servers import unreadable
from toolrail.errors import ConfigError
from toolrail.policy.load import load_policy
from toolrail.settings import Settings
from toolrail.supervisor.state import find_cluster

OLDEST_PYTHON = (3, 11)
MIB = 1024 * 1024
DISK_WARN_BYTES = 1024 * MIB
DISK_FAIL_BYTES = 100 * MIB


def check_python() -> Finding:
    """Look at the interpreter."""
    seen = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return fail("python", seen, "Use Python 3.11 or newer.")
    return ok("python", seen)


def check_packages() -> Finding:
    """Look at the optional part of the installation."""
    if importlib.util.find_spec("celery") is not None:
        return ok("packages", "what workers need is installed")
    fix = "pip install 'toolrail[worker]' where workers shall run; clients do not need it."
    return warn("packages", "what workers need is not installed", fix)


def check_settings(settings: Settings) -> list[Finding]:
    """Look at everything that the settings name on this machine."""
    return [
        ok("settings", f"state in {settings.state_dir.absolute()}"),
        _secret(settings),
        _cluster(settings),
        _policy(settings),
        *_tools(settings),
        *_servers_file(settings),
        *_disk((settings.state_dir, settings.workspace_root)),
    ]


def _secret(settings: Settings) -> Finding:
    if settings.secret is not None:
        return ok("secret", "doorbells can be signed")
    fix = "`toolrail up` makes one; elsewhere set TOOLRAIL_SECRET or TOOLRAIL_SECRET_FILE."
    return warn("secret", "there is none, so this machine can look but not call", fix)


def _cluster(settings: Settings) -> Finding:
    cluster = find_cluster(settings.state_dir)
    if cluster is None:
        fix = "`toolrail up` starts one; elsewhere name its Redis in TOOLRAIL_REDIS_URL."
        return warn("cluster", "none is up in this folder", fix)
    names = ", ".join(child.name for child in cluster.children)
    return ok("cluster", f"up as process {cluster.supervisor_pid}: {names}")


def _policy(settings: Settings) -> Finding:
    try:
        folder = load_policy(settings.policy_dir)
    except ConfigError as error:
        return fail("policy", _problem(error), error.fix or "Correct the file.")
    names = ", ".join(sorted(folder.profiles)) or "none"
    return ok("policy", f"{folder.where}: profiles {names}")


def _tools(settings: Settings) -> list[Finding]:
    try:
        tools = discover_tools(modules=settings.tool_modules)
    except ConfigError as error:
        return [fail("tools", _problem(error), error.fix or "Correct TOOLRAIL_TOOL_MODULES.")]
    findings = [ok("tools", f"{len(tools.tools)} are installed here")]
    for broken in tools.broken:
        seen = f"{broken.place} is broken: {broken.error}"
        findings.append(fail("tools", seen, "Repair or uninstall it."))
    return findings


def _servers_file(settings: Settings) -> list[Finding]:
    found = None if settings.mcp_servers_file is None else unreadable(settings.mcp_servers_file)
    return [] if found is None else [found]


def _disk(places: Iterable[Path]) -> list[Finding]:
    """Look at the free space of each file system once; a full disk stops Redis and workspaces."""
    findings: dict[int, Finding] = {}
    for place in places:
        there = next((path for path in (place, *place.absolute().parents) if path.exists()), None)
        if there is None:
            continue
        free_bytes = shutil.disk_usage(there).free
        findings.setdefault(there.stat().st_dev, judge_disk(place, free_bytes))
    return list(findings.values())


def judge_disk(place: Path, free_bytes: int) -> Finding:
    """Return what so much free space means."""
    seen = f"{free_bytes // MIB} MiB free for {place}"
    fix = "Free space, or move TOOLRAIL_STATE_DIR and TOOLRAIL_WORKSPACE_ROOT."
    if free_bytes < DISK_FAIL_BYTES:
        return fail("disk", seen, fix)
    return warn("disk", seen, fix) if free_bytes < DISK_WARN_BYTES else ok("disk", seen)


def _problem(error: ConfigError) -> str:
    text = error.message
    return text if error.fix is None else text.removesuffix(error.fix).rstrip()
