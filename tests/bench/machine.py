"""Say on what a measurement was made, since its figures mean nothing elsewhere.

Is: the machine, its load and the versions. Is not: a measurement. Above: `__main__.py`. Below:
psutil, `environments.py`.
"""

import os
import platform
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from tests.bench.environments import PEERS, python_of, versions
from toolrail.embedded import find_program

OURS = ("celery", "kombu", "redis", "hiredis", "orjson", "uvloop", "pydantic")
CPUS = Path("/proc/cpuinfo")


def describe() -> dict[str, str]:
    """Return what is true of this machine now."""
    memory_gib = psutil.virtual_memory().total / 2**30
    return {
        "cpu": _cpu(),
        "cores": str(psutil.cpu_count()),
        "memory": f"{memory_gib:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "redis": find_program().name,
        "load": f"{os.getloadavg()[0]:.2f}",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def used_versions(peers: Iterable[str]) -> dict[str, list[str]]:
    """Return what is installed, by environment."""
    found = {"toolrail": versions(Path(sys.executable), *OURS)}
    for peer in peers:
        names = [pin.partition("==")[0] for pin in PEERS[peer]]
        found[peer] = versions(python_of(peer), *names)
    return found


def _cpu() -> str:
    if not CPUS.exists():
        return platform.processor() or platform.machine()
    lines = CPUS.read_text(encoding="utf-8").splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()
