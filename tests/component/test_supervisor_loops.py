"""A supervisor on uvloop, and one with a defect.

Is: what is not about a child's life (`test_supervisor.py`). Above: nothing.
Below: `toolrail.supervisor`.
"""

import asyncio
import os
import sys
from dataclasses import replace

import pytest
import uvloop

from toolrail.supervisor.console import KeepingSink
from toolrail.supervisor.spec import ChildSpec, ChildState, ReadyLine, RestartPolicy, Stage
from toolrail.supervisor.supervisor import ChildNeverReady, Supervisor

BOUND_S = 20.0
STEADY = ChildSpec(
    name="a",
    argv=(
        sys.executable,
        "-c",
        "import signal, sys; from toolrail.supervisor.ready import announce_ready;"
        "announce_ready(int(sys.argv[-1])); signal.pause()",
    ),
    readiness=ReadyLine(),
    restart=RestartPolicy(base_s=0.01, cap_s=0.02, max_restarts=2, window_s=60.0),
    stage=Stage.WORKER,
    stop_grace_s=BOUND_S,
    ready_timeout_s=BOUND_S,
    essential=False,
)


def test_children_start_on_the_loop_of_a_worker_too() -> None:
    """Uvloop does not know every argument of a subprocess."""

    async def live() -> tuple[list[ChildState], int, int]:
        supervisor = Supervisor(KeepingSink())
        await supervisor.start([STEADY])
        states = [status.state for status in supervisor.statuses()]
        pid = supervisor.status("a").pid or 0
        group = os.getpgid(pid)
        await supervisor.stop()
        return states, pid, group

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        states, pid, group = runner.run(asyncio.wait_for(live(), BOUND_S))
    assert states == [ChildState.READY]
    assert group == pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_defect_of_the_supervisor_ends_the_wait_for_its_child() -> None:
    """Else whoever waits for the child would wait for ever, and be told nothing."""
    sink = KeepingSink()
    supervisor = Supervisor(sink)
    broken = replace(STEADY, env={"A": 1})  # type: ignore[dict-item]
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(ChildNeverReady):
            await supervisor.start([broken])
    assert "defect of the supervisor" in "".join(sink.events("a"))
