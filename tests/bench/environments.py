"""Give each queue of the race the environment that it wants.

Is: pinned versions, and environments below `build/bench` that are made once. Is not: the locked
environment of the project, in which Toolrail itself runs. Above: `race.py`. Below: uv.

One environment for all would not do: arq wants another redis-py than kombu, taskiq another pydantic
than we might have. redis-py and hiredis are the same in all of them, and those of our lock.
"""

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.sources import ROOT

BUILD = ROOT / "build" / "bench"
_ALL = ("redis==8.1.0", "hiredis==3.5.0", "psutil==7.2.2")
_LOOP = ("uvloop==0.23.0",)
PEERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        # kombu's Redis transport imports packaging, saq typing-extensions; neither asks for it.
        "celery": ("celery==5.7.0", "kombu==5.7.0", "packaging==25.0", *_ALL),
        "taskiq": ("taskiq==0.13.0", "taskiq-redis==1.2.4", *_ALL, *_LOOP),
        "saq": ("saq==0.26.4", "typing-extensions==4.16.0", *_ALL, *_LOOP),
        "dramatiq": ("dramatiq==2.2.1", *_ALL),
        "huey": ("huey==3.5.4", *_ALL),
    }
)
"""What is installed for each; the newest of December 2026."""
ASYNCIO_PEERS = ("taskiq", "saq")


def python_of(peer: str) -> Path:
    """Return the interpreter of a peer's environment, made when it is absent or outdated."""
    folder = BUILD / "environments" / peer
    python, stamp = folder / "bin" / "python", folder / "pinned.txt"
    pins = "\n".join((*PEERS[peer], sys.version))
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != pins:
        _uv("venv", "--clear", "--python", sys.executable, str(folder))
        _uv("pip", "install", "--python", str(python), *PEERS[peer])
        stamp.write_text(pins, encoding="utf-8")
    return python


def versions(python: Path, *wanted: str) -> list[str]:
    """Return `name==version` of what an environment has of these distributions."""
    lines = _uv("pip", "freeze", "--python", str(python)).splitlines()
    return sorted(line for line in lines if line.partition("==")[0] in wanted)


def _uv(*words: str) -> str:
    program = shutil.which("uv", path=f"{Path(sys.executable).parent}") or shutil.which("uv")
    if program is None:
        raise SystemExit("uv is missing. `make bench` brings it; else `pip install uv`.")
    done = subprocess.run(
        [program, "--quiet", *words], capture_output=True, text=True, check=False, cwd=ROOT
    )
    if done.returncode != 0:
        problem = f"uv {' '.join(words)} failed:\n{done.stderr}"
        raise SystemExit(f"{problem}Without the peers: python -m tests.bench --toolrail-only")
    return done.stdout
