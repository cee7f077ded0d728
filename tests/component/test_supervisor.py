"""The supervisor with real, small child processes: readiness, crash loops, ordered stop.

Is: behaviour of `toolrail.supervisor` alone. Is not: a cluster (`tests/integration`).
Above: nothing. Below: `toolrail.supervisor`.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from toolrail.supervisor.child import ChildProcess, NotReady
from toolrail.supervisor.console import KeepingSink
from toolrail.supervisor.spec import (
    ChildSpec,
    ChildState,
    Readiness,
    ReadyLine,
    ReadyProbe,
    RestartPolicy,
    Stage,
    StartedIsReady,
)
from toolrail.supervisor.supervisor import ChildNeverReady, Supervisor

BOUND_S = 20.0
"""Longest wait for a condition of these tests; two cores start a Python in well under a second."""

ANNOUNCE = "from toolrail.supervisor.ready import announce_ready; announce_ready(int(sys.argv[-1]))"
STEADY = f"import signal, sys; {ANNOUNCE}; signal.pause()"
STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
    f"{ANNOUNCE}\nwhile True: signal.pause()"
)
CRASHING = "import sys; print('no such config'); sys.exit(3)"
QUICK = RestartPolicy(base_s=0.01, cap_s=0.02, max_restarts=2, window_s=60.0)


def child(
    name: str,
    code: str,
    *,
    readiness: Readiness = ReadyLine(),  # noqa: B008  # frozen
    restart: RestartPolicy = QUICK,
    stage: Stage = Stage.WORKER,
    stop_grace_s: float = BOUND_S,
    ready_timeout_s: float = BOUND_S,
    essential: bool = False,
) -> ChildSpec:
    """Return a child that runs a few lines of Python."""
    return ChildSpec(
        name=name,
        argv=(sys.executable, "-u", "-c", code),
        readiness=readiness,
        restart=restart,
        stage=stage,
        stop_grace_s=stop_grace_s,
        ready_timeout_s=ready_timeout_s,
        essential=essential,
    )


@pytest.fixture
def sink() -> KeepingSink:
    return KeepingSink()


@pytest_asyncio.fixture
async def supervisor(sink: KeepingSink) -> AsyncIterator[Supervisor]:
    """A supervisor whose children are gone after the test, however it ended."""
    supervisor = Supervisor(sink)
    yield supervisor
    supervisor.ask_stop()
    supervisor.ask_stop()
    await supervisor.stop()


async def reach(supervisor: Supervisor, name: str, state: ChildState, starts: int = 1) -> None:
    """Wait until a child is in a state after at least so many starts."""

    def there() -> bool:
        status = supervisor.status(name)
        return status.state is state and status.starts >= starts

    async with asyncio.timeout(BOUND_S):
        await supervisor.wait_for(there)


def is_alive(pid: int) -> bool:
    """Say whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_start_returns_when_every_child_has_announced_itself(
    supervisor: Supervisor,
) -> None:
    """A ready line on the given pipe makes a child ready."""
    await supervisor.start([child("a", STEADY), child("b", STEADY)])

    assert [s.state for s in supervisor.statuses()] == [ChildState.READY] * 2


async def test_a_later_stage_starts_only_after_an_earlier_one_is_ready(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """The worker finds the file that the slow first stage wrote before it got ready."""
    mark = tmp_path / "mark"
    release = tmp_path / "release"
    os.mkfifo(release)
    slow = f"import sys; open({str(release)!r}).read(); open({str(mark)!r}, 'w'); {ANNOUNCE}"
    needy = f"import os, sys; assert os.path.exists({str(mark)!r}); {STEADY}"
    starting = asyncio.create_task(
        supervisor.start(
            [child("needy", needy), child("redis", f"{slow}; {STEADY}", stage=Stage.REDIS)]
        )
    )
    await asyncio.to_thread(release.write_text, "go")
    async with asyncio.timeout(BOUND_S):
        await starting

    assert supervisor.status("needy").starts == 1


async def test_a_probe_decides_readiness_of_programs_that_cannot_tell(
    supervisor: Supervisor,
) -> None:
    """The child stays in `starting` until its probe returns."""
    asked, answered = asyncio.Event(), asyncio.Event()

    async def probe() -> None:
        asked.set()
        await answered.wait()

    spec = child("redis", "import signal; signal.pause()", readiness=ReadyProbe(probe))
    starting = asyncio.create_task(supervisor.start([spec]))
    async with asyncio.timeout(BOUND_S):
        await asked.wait()
        state_before = supervisor.status("redis").state
        answered.set()
        await starting

    assert state_before is ChildState.STARTING
    assert supervisor.status("redis").state is ChildState.READY


async def test_a_killed_child_is_started_again(supervisor: Supervisor) -> None:
    """SIGKILL of a ready child gives a new process under the same name."""
    await supervisor.start([child("a", STEADY)])
    killed_pid = supervisor.kill_child("a")
    await reach(supervisor, "a", ChildState.READY, starts=2)

    assert supervisor.status("a").pid not in (None, killed_pid)
    assert not is_alive(killed_pid)


async def test_a_crash_loop_is_given_up_with_its_last_words(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """After the budget the start fails and carries what the child printed."""
    with pytest.raises(ChildNeverReady) as caught:
        async with asyncio.timeout(BOUND_S):
            await supervisor.start([child("a", CRASHING)])
    status = supervisor.status("a")

    assert caught.value.last_lines == ("no such config",)
    assert status.state is ChildState.GIVEN_UP
    assert status.starts == 1 + QUICK.max_restarts
    assert status.exit_code == 3
    assert "given up" in sink.events("a")[-1]


async def test_a_wrong_configuration_is_not_tried_again(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """Exit code 78 means that no restart can help."""
    with pytest.raises(ChildNeverReady):
        await supervisor.start([child("a", "import sys; sys.exit(78)")])

    assert supervisor.status("a").starts == 1
    assert "its configuration is wrong" in sink.events("a")[-1]


async def test_giving_up_an_essential_child_asks_for_the_stop_of_all(
    supervisor: Supervisor,
) -> None:
    """Workers without Redis are of no use, so the cluster ends."""
    with pytest.raises(ChildNeverReady):
        await supervisor.start([child("redis", CRASHING, essential=True)])

    async with asyncio.timeout(BOUND_S):
        await supervisor.wait_stop_asked()


async def test_a_child_that_never_gets_ready_is_killed_and_counts_as_a_crash(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """Hanging at the start is not hidden by patience."""
    with pytest.raises(ChildNeverReady):
        await supervisor.start([child("a", "import signal; signal.pause()", ready_timeout_s=0.05)])

    assert supervisor.status("a").exit_code == -signal.SIGKILL
    assert "not ready after 0.05 s" in sink.events("a")[0]


async def test_a_program_that_does_not_exist_is_named(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """A wrong path is one clear line, not a traceback."""
    spec = ChildSpec(name="a", argv=("no-such-program-here",), restart=QUICK)
    with pytest.raises(ChildNeverReady):
        await supervisor.start([spec])

    assert sink.lines("a")[0] == "cannot start no-such-program-here: No such file or directory"


async def test_stop_goes_from_the_front_to_redis(supervisor: Supervisor, tmp_path: Path) -> None:
    """Each stage is gone before the next one is asked to end."""
    ended = tmp_path / "ended"
    say = (
        "import signal, sys\n"
        "def bye(*_):\n"
        f"    with open({str(ended)!r}, 'a') as f: f.write(NAME + ' ')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, bye)\n"
    )
    specs = [
        child(name, f"NAME = {name!r}\n{say}{STEADY}", stage=stage)
        for name, stage in (
            ("front", Stage.FRONT),
            ("redis", Stage.REDIS),
            ("worker", Stage.WORKER),
        )
    ]
    await supervisor.start(specs)
    await supervisor.stop()

    assert ended.read_text().split() == ["front", "worker", "redis"]
    assert {s.exit_code for s in supervisor.statuses()} == {0}
    assert {s.state for s in supervisor.statuses()} == {ChildState.STOPPED}


async def test_a_child_that_ignores_sigterm_is_killed_after_its_grace(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """Stopping always ends, and says what it had to do."""
    await supervisor.start([child("a", STUBBORN, stop_grace_s=0.05)])
    await supervisor.stop()

    assert supervisor.status("a").exit_code == -signal.SIGKILL
    assert "still running 0.05 s after SIGTERM; killed" in sink.events("a")


async def test_a_second_stop_request_kills_without_waiting_for_the_grace(
    supervisor: Supervisor,
) -> None:
    """The second Ctrl-C ends even a child with an endless grace."""
    await supervisor.start([child("a", STUBBORN, stop_grace_s=3600.0)])
    supervisor.ask_stop()
    stopping = asyncio.create_task(supervisor.stop())
    supervisor.ask_stop()
    async with asyncio.timeout(BOUND_S):
        await stopping

    assert supervisor.status("a").exit_code == -signal.SIGKILL


async def test_what_a_child_left_behind_in_its_group_is_killed_with_it(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """A grandchild does not outlive its parent's end."""
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c',"
        f" 'import signal; signal.pause()']); print(p.pid); {STEADY}"
    )
    await supervisor.start([child("a", code)])
    watch = os.pidfd_open(int(sink.lines("a")[0]))
    try:
        await supervisor.stop()

        await until_readable(watch)
    finally:
        os.close(watch)


async def test_children_die_with_a_supervisor_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL of the supervisor leaves no orphan."""
    pid_pipe = tmp_path / "pid"
    os.mkfifo(pid_pipe)
    grandchild = f"import os; open({str(pid_pipe)!r}, 'w').write(str(os.getpid())); {STEADY}"
    code = f"""
import asyncio, sys
from toolrail.supervisor.console import KeepingSink
from toolrail.supervisor.spec import ChildSpec
from toolrail.supervisor.supervisor import Supervisor
async def main():
    supervisor = Supervisor(KeepingSink())
    await supervisor.start([ChildSpec(name="a", argv=(sys.executable, "-c", {grandchild!r}))])
    await supervisor.wait_stop_asked()
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    grandchild_pid = int(await asyncio.to_thread(pid_pipe.read_text))
    watch = os.pidfd_open(grandchild_pid)
    try:
        parent.kill()
        await parent.wait()

        await until_readable(watch)
    finally:
        os.close(watch)


async def test_output_is_kept_by_child_and_survives_bad_bytes_and_endless_lines(
    supervisor: Supervisor, sink: KeepingSink
) -> None:
    """A child cannot break its reader by what it prints."""
    code = (
        "import sys; out = sys.stdout.buffer; out.write(b'caf\\xe9\\n' + b'x' * 200_000 + b'\\n');"
        f"out.flush(); print('err', file=sys.stderr); {STEADY}"
    )
    await supervisor.start([child("a", code), child("b", STEADY)])
    await supervisor.stop()
    lines = sink.lines("a")

    assert lines[0] == "caf\ufffd"
    assert "".join(lines[1:-1]) == "x" * 200_000
    assert lines[-1] == "err"
    assert sink.lines("b") == []


async def test_a_ready_pipe_closed_without_the_line_is_not_readiness(
    sink: KeepingSink,
) -> None:
    """Only the line counts; a child that lost its pipe is told apart from one that ended."""
    code = "import os, signal, sys; os.close(int(sys.argv[-1])); signal.pause()"
    process = ChildProcess(child("a", code), sink)
    await process.start()
    try:
        with pytest.raises(NotReady, match="closed its ready pipe"):
            await process.wait_ready()
    finally:
        process.kill()
        await process.wait_end()


async def test_a_child_without_readiness_is_ready_at_once(supervisor: Supervisor) -> None:
    """Programs that cannot tell are taken at their start."""
    await supervisor.start(
        [child("a", "import signal; signal.pause()", readiness=StartedIsReady())]
    )

    assert supervisor.status("a").state is ChildState.READY


async def until_readable(fd: int) -> None:
    """Wait until a descriptor is readable; a pidfd is when its process has ended."""
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, readable.set)
    try:
        async with asyncio.timeout(BOUND_S):
            await readable.wait()
    finally:
        loop.remove_reader(fd)
