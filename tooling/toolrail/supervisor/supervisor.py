"""Keep a set of child processes running, and end them in order.

Is: start by stage, readiness, restart with back-off and a budget, ordered stop. Is not: knowledge
of what the children are; `cluster.py` says which ones make a Toolrail cluster.
Above: `cluster.py`, the test kit. Below: `child.py`, `spec.py`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from toolrail.errors import ClusterStartFailed
from toolrail.supervisor.child import ChildProcess, NotReady
from toolrail.supervisor.console import LineSink
from toolrail.supervisor.spec import ChildSpec, ChildState, RestartBudget, Stage

Clock = Callable[[], float]

log = logging.getLogger(__name__)


class ChildNeverReady(ClusterStartFailed):
    """A process of the cluster never became ready. Read what it printed, and start again.

    Attributes:
        name: The child that was given up or stopped.
        last_lines: What it printed last.
        exit_code: How it ended last; None when it never ran.
    """

    def __init__(self, name: str, last_lines: Sequence[str], exit_code: int | None) -> None:
        super().__init__(f"{name} never became ready. Read what it printed, and start again.")
        self.name = name
        self.last_lines = tuple(last_lines)
        self.exit_code = exit_code


@dataclass
class ChildStatus:
    """What is known about one child now."""

    spec: ChildSpec
    state: ChildState = ChildState.WAITING
    pid: int | None = None
    starts: int = 0
    exit_code: int | None = None
    address: str = ""
    """`host:port` where it listens, while it is ready and if it said so."""
    last_lines: Sequence[str] = field(default_factory=tuple[str, ...])


class _Kept:
    """One child with the task that keeps it running."""

    def __init__(self, spec: ChildSpec) -> None:
        self.status = ChildStatus(spec)
        self.process: ChildProcess | None = None
        self.stop_asked = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Supervisor:
    """Starts children stage by stage, keeps them running, and stops them in the reverse order.

    All methods are called on one event loop. Nothing polls: every wait is for a process, a pipe or
    an event.
    """

    def __init__(
        self,
        sink: LineSink,
        *,
        clock: Clock = time.monotonic,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Supervise nothing yet.

        Args:
            sink: Takes the children's lines and the supervisor's own sentences.
            clock: Any monotonic seconds; counts restarts in their window.
            on_change: Called after each change of any child's state.
        """
        self._sink = sink
        self._clock = clock
        self._on_change = on_change
        self._children: dict[str, _Kept] = {}
        self._changed = asyncio.Condition()
        self._stop_asked = asyncio.Event()
        self._killing = False

    async def start(self, specs: Iterable[ChildSpec]) -> None:
        """Start children, a stage at a time; return when all are ready.

        Raises:
            ChildNeverReady: One was given up first. The others are still running: call `stop`.
        """
        by_stage: dict[Stage, list[ChildSpec]] = {}
        for spec in specs:
            by_stage.setdefault(spec.stage, []).append(spec)
        for stage in sorted(by_stage):
            for spec in by_stage[stage]:
                self._add(spec)
            for spec in by_stage[stage]:
                await self.wait_ready(spec.name)

    async def wait_ready(self, name: str) -> None:
        """Return when the child is ready.

        Raises:
            ChildNeverReady: It was given up or stopped first.
        """
        settled = (ChildState.READY, ChildState.GIVEN_UP, ChildState.STOPPED)
        await self.wait_for(lambda: self.status(name).state in settled)
        status = self.status(name)
        if status.state is not ChildState.READY:
            raise ChildNeverReady(name, status.last_lines, status.exit_code)

    async def wait_for(self, predicate: Callable[[], bool]) -> None:
        """Return when `predicate` holds; it is asked again after each change of any child."""
        async with self._changed:
            await self._changed.wait_for(predicate)

    def status(self, name: str) -> ChildStatus:
        """Return what is known about one child now; KeyError for an unknown name."""
        return self._children[name].status

    def statuses(self) -> list[ChildStatus]:
        """Return what is known about every child, in the order of their start."""
        return [kept.status for kept in self._children.values()]

    def ask_stop(self) -> None:
        """Make `wait_stop_asked` return; the second call kills all children at once.

        For signal handlers: returns immediately and may be called any number of times.
        """
        if not self._stop_asked.is_set():
            self._stop_asked.set()
            return
        self._killing = True
        for kept in self._children.values():
            if kept.process is not None:
                kept.process.kill()

    async def wait_stop_asked(self) -> None:
        """Return when a stop was asked for, by `ask_stop` or by giving up an essential child."""
        await self._stop_asked.wait()

    async def stop(self) -> None:
        """Stop all children: the last stage first, each with its grace."""
        self._stop_asked.set()
        stages = {kept.status.spec.stage for kept in self._children.values()}
        for stage in sorted(stages, reverse=True):
            names = [s.spec.name for s in self.statuses() if s.spec.stage is stage]
            await asyncio.gather(*(self.stop_child(name) for name in names))

    async def stop_child(self, name: str) -> None:
        """Stop one child with its grace and do not start it again."""
        kept = self._children[name]
        kept.stop_asked.set()
        if kept.task is not None:
            await kept.task

    def kill_child(self, name: str) -> int:
        """End a child and its process group at once, as a crash would; return the killed pid.

        It is started again as its restart policy says.
        """
        kept = self._children[name]
        if kept.process is None:
            raise ProcessLookupError(f"{name} is not running")
        kept.process.kill()
        return kept.process.pid

    def _add(self, spec: ChildSpec) -> None:
        if spec.name in self._children:
            raise ValueError(f"two children are named {spec.name}")
        kept = _Kept(spec)
        self._children[spec.name] = kept
        kept.task = asyncio.create_task(self._keep(kept), name=f"keep {spec.name}")

    async def _keep(self, kept: _Kept) -> None:
        """Run one child until it is stopped or given up; nothing else ends it unsaid."""
        try:
            await self._run_again_and_again(kept)
        except Exception as error:
            # Whoever waits for this child would wait for ever; its siblings can still be stopped.
            log.exception("supervisor.defect", extra={"child": kept.status.spec.name})
            await self._give_up(kept, f"given up after a defect of the supervisor ({error!r})")

    async def _run_again_and_again(self, kept: _Kept) -> None:
        spec = kept.status.spec
        budget = RestartBudget(spec.restart)
        while not kept.stop_asked.is_set():
            problem = await self._run_once(kept)
            if kept.stop_asked.is_set():
                break
            if kept.status.exit_code in spec.restart.hopeless_codes:
                await self._give_up(kept, f"{problem}; given up, since its configuration is wrong")
                return
            delay_s = budget.next_delay_s(self._clock())
            if delay_s is None:
                limits = f"{spec.restart.max_restarts} restarts in {spec.restart.window_s:g} s"
                await self._give_up(kept, f"{problem}; given up after {limits}")
                return
            self._sink.event(
                spec.name, f"{problem}; starting it again in {delay_s:g} s", is_problem=True
            )
            await self._move(kept, ChildState.WAITING)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(kept.stop_asked.wait(), delay_s)
        await self._move(kept, ChildState.STOPPED)

    async def _run_once(self, kept: _Kept) -> str:
        """Start the child and return when it has ended, with the reason in words."""
        spec = kept.status.spec
        process = ChildProcess(spec, self._sink)
        kept.status.last_lines = process.last_lines
        kept.status.starts += 1
        kept.status.exit_code = None
        try:
            await process.start()
        except OSError as error:
            return f"could not be started ({error.strerror})"
        kept.process = process
        kept.status.pid = process.pid
        await self._move(kept, ChildState.STARTING)
        if self._killing:
            process.kill()
        try:
            return await self._watch(kept, process)
        finally:
            kept.process = None
            kept.status.pid = None
            kept.status.address = ""

    async def _watch(self, kept: _Kept, process: ChildProcess) -> str:
        """Wait for the end of a running child, or end it when a stop is asked for."""
        life = asyncio.create_task(self._live(kept, process))
        stop_asked = asyncio.create_task(kept.stop_asked.wait())
        try:
            await asyncio.wait({life, stop_asked}, return_when=asyncio.FIRST_COMPLETED)
            if life.done():
                return life.result()
            life.cancel()
            await asyncio.wait({life})
            kept.status.exit_code = await process.stop(kept.status.spec.stop_grace_s)
            return "stopped"
        except asyncio.CancelledError:
            # The loop is being torn down: leave no process behind.
            process.kill()
            raise
        finally:
            life.cancel()
            stop_asked.cancel()

    async def _live(self, kept: _Kept, process: ChildProcess) -> str:
        """Follow a child from its start over its readiness to its end; say how it ended."""
        try:
            await process.wait_ready()
        except NotReady as reason:
            process.kill()
            kept.status.exit_code = await process.wait_end()
            return f"{reason} ({end_in_words(kept.status.exit_code)})"
        kept.status.address = process.address
        await self._move(kept, ChildState.READY)
        self._sink.event(kept.status.spec.name, f"ready (pid {process.pid})")
        kept.status.exit_code = await process.wait_end()
        return end_in_words(kept.status.exit_code)

    async def _give_up(self, kept: _Kept, problem: str) -> None:
        spec = kept.status.spec
        self._sink.event(spec.name, problem, is_problem=True)
        await self._move(kept, ChildState.GIVEN_UP)
        if spec.essential:
            self._stop_asked.set()

    async def _move(self, kept: _Kept, state: ChildState) -> None:
        async with self._changed:
            kept.status.state = state
            self._changed.notify_all()
        self._on_change()


def end_in_words(code: int) -> str:
    """Say how a process ended: `exited with code 1`, `ended by signal 9`."""
    return f"exited with code {code}" if code >= 0 else f"ended by signal {-code}"
