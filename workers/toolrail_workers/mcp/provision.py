"""Install one real third-party MCP server into an environment of its own.

Is: what the demo and the tests need to talk to a server that is not ours. Is not: a package
manager for operators; their servers come from their own servers file.
Above: demo, tests. Below: uv where there is one, else venv and pip.
"""

import fcntl
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import JsonValue

from toolrail.errors import ToolrailError
from toolrail.settings import own_environment

DEMO_SERVER = "time"
REQUIREMENTS = ("mcp-server-time==2026.10.19", "mcp==2.3.0")
"""The reference time server: small, read-only, without secrets or network of its own."""
INSTALL_TIMEOUT_S = 300.0


class ProvisionFailed(ToolrailError):
    """The demo's MCP server could not be installed. Check that packages can be installed here."""

    code = "mcp.provision_failed"


def provision_demo_server(directory: Path) -> dict[str, JsonValue]:
    """Return a servers file with one real server, installed below `directory` if need be.

    The answer is the whole document (`{"mcpServers": {"time": ...}}`), ready to be written as
    JSON. Takes some seconds the first time and nothing later; processes may call it at once.

    Raises:
        ProvisionFailed: The packages cannot be installed.
    """
    home = directory.absolute() / f"mcp-server-{DEMO_SERVER}"
    program = home / "bin" / "mcp-server-time"
    stamp = home / "toolrail-requirements.txt"
    wanted = "\n".join(REQUIREMENTS)
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory / f".{home.name}.lock"):
        if not (stamp.is_file() and stamp.read_text() == wanted and program.is_file()):
            _install(home)
            stamp.write_text(wanted)
    return {
        "mcpServers": {
            DEMO_SERVER: {
                "command": str(program),
                "args": ["--local-timezone", "UTC"],
                "toolrail": {"trusted": True},
            }
        }
    }


def _install(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    uv = _find_uv()
    python = home / "bin" / "python"
    if uv is not None:
        _run([uv, "venv", "--quiet", "--python", sys.executable, str(home)])
        _run([uv, "pip", "install", "--quiet", "--python", str(python), *REQUIREMENTS])
    else:
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(python), "-m", "pip", "install", "--quiet", *REQUIREMENTS])


def _find_uv() -> str | None:
    beside = Path(sys.executable).parent / "uv"
    if beside.is_file():
        return str(beside)
    return shutil.which("uv", path=own_environment().get("PATH"))


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            env=own_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProvisionFailed(f"{ProvisionFailed.default_message()} ({error})") from error
    if done.returncode != 0:
        last_words = done.stderr.strip()[-1_000:]
        raise ProvisionFailed(f"{ProvisionFailed.default_message()}\n{last_words}")


@contextmanager
def locked(file: Path) -> Generator[None]:
    """Let one process install at a time; the lock falls with the process that holds it."""
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
