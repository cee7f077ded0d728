"""Be the program of one queue in the race: its worker, or its client with that worker.

Is: the two roles, `work URL` and `race URL PLAN`, and the worker's process. Is not: what is
measured (`phases.py`). Above: the programs in `contenders/`, started by `race.py` with the Python
of their own environment. Below: the standard library, and uvloop where that environment has it.
"""

import asyncio
import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from tests.bench.phases import Async, Blocking, Figures, Plan, run_async, run_blocking

T = TypeVar("T")
STOP_S = 5.0


class WorkerProcess:
    """The same program in its other role, in a process group of its own."""

    def __init__(self, url: str) -> None:
        module = sys.modules["__main__"].__spec__
        assert module is not None, "started with -m"
        self._process = subprocess.Popen(
            [sys.executable, "-m", module.name, "work", url],
            stdout=sys.stderr,  # standard output is for the figures
            process_group=0,
        )

    def pause(self) -> None:
        """Stop it and its children."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let them go on."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def stop(self) -> None:
        """End it, politely at first."""
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def contend_blocking(connect: Callable[[str], Blocking], work: Callable[[str], None]) -> None:
    """Be a queue whose client and worker block."""
    _contend(work, lambda url, worker, plan: run_blocking(connect(url), worker, plan))


def contend_async(
    connect: Callable[[str], Awaitable[Async]], work: Callable[[str], Coroutine[None, None, None]]
) -> None:
    """Be a queue of the event loop."""

    async def race(url: str, worker: WorkerProcess, plan: Plan) -> Figures:
        return await run_async(await connect(url), worker, plan)

    _contend(lambda url: run(work(url)), lambda url, worker, plan: run(race(url, worker, plan)))


def _contend(
    work: Callable[[str], None], race: Callable[[str, WorkerProcess, Plan], Figures]
) -> None:
    role, url = sys.argv[1:3]
    if role == "work":
        work(url)
        return
    worker = WorkerProcess(url)
    try:
        tell(race(url, worker, Plan.loads(sys.argv[3])))
    finally:
        worker.stop()
    os._exit(0)  # the threads of a client library must not hold the program


def tell(figures: Figures) -> None:
    """Hand the figures to whoever started this program: its last line."""
    print(json.dumps(figures), flush=True)


def run(work: Coroutine[None, None, T]) -> T:
    """Run it, on uvloop where that is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.run(work)
    uvloop = importlib.import_module("uvloop")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
