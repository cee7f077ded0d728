"""A worker without Celery: the real runtime, fed from the real queue.

Is: runtimes and a loop that pops doorbells as the pool would. Is not: the pool or a transport,
which have tests of their own. Above: component tests of the worker. Below: `tests/calls.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from redis.exceptions import RedisError as RedisPyError

from tests.calls import LedgerBench, ledger_bench
from tests.functions import FunctionExecutor, echo, make_spec
from tests.waiting import POLL_S, await_until
from toolrail.closing import cancel_call
from toolrail.doorbell import RedisDoorbell, read_envelope
from toolrail.ledger import NewCall, StoredCall, unaccounted
from toolrail.redis_io import command
from toolrail.results import load_result
from toolrail.settings import Settings
from toolrail_schemas import Doorbell, ToolResult, ToolSpec
from toolrail_workers.assembly import USUAL, Tuning, create_reaper
from toolrail_workers.executor import Executor
from toolrail_workers.port import DoorbellNotTaken, PoolStats
from toolrail_workers.reaper import Reaper
from toolrail_workers.runtime import WorkerRuntime

NEVER_S = 3600.0
"""Work of the background that a test does itself, when it wants it."""


class FakeControl:
    """The pool's side, which notes what it is asked."""

    def __init__(self) -> None:
        self.doorbells = 0
        self.busy = 0
        self.reasons: list[str] = []
        self.paused = False

    def stats(self) -> PoolStats:
        """Return the numbers."""
        return PoolStats(
            slots=10,
            busy=self.busy,
            pops=0,
            doorbells=self.doorbells,
            invalid_doorbells=0,
            failed_handles=0,
            last_poll_at=None,
            paused=self.paused,
        )

    def pause(self) -> None:
        """Note it; the bench goes on popping, as a pool does for a moment."""
        self.paused = True

    def resume(self) -> None:
        """Note it."""
        self.paused = False

    def exit_worker(self, reason: str) -> None:
        """Note the reason."""
        self.reasons.append(reason)


@dataclass
class WorkerBench:
    """One run, one executor per queue, and any number of workers and reapers."""

    calls: LedgerBench
    settings: Settings
    executor: FunctionExecutor
    executors: dict[str, Executor]
    control: FakeControl = field(default_factory=FakeControl)
    runtimes: list[WorkerRuntime] = field(default_factory=list[WorkerRuntime])
    pumps: dict[WorkerRuntime, asyncio.Task[None]] = field(
        default_factory=dict[WorkerRuntime, asyncio.Task[None]]
    )

    async def start_worker(
        self, *, pops: bool = True, tuning: Tuning = USUAL, **changes: object
    ) -> WorkerRuntime:
        """Start a worker; one that does not pop runs only what a test hands it.

        Args:
            pops: Take doorbells from the queues.
            tuning: Bounds that are no settings.
            changes: Of the settings.
        """
        settings = self.settings.model_copy(update=changes)
        sources = list(self.executors)
        runtime = WorkerRuntime(
            settings,
            sources,
            self.control,
            executors=self.executors,
            tuning=tuning,
        )
        self.runtimes.append(runtime)
        await runtime.start()
        if pops:
            self.pop_for(runtime)
        return runtime

    def pop_for(self, runtime: WorkerRuntime) -> None:
        """Hand a worker every doorbell that can be popped, until `stop_pop`."""
        self.pumps[runtime] = asyncio.create_task(self._pump(runtime))

    async def stop_pop(self, runtime: WorkerRuntime) -> None:
        """Pop no more for a worker; what it runs goes on."""
        pump = self.pumps.pop(runtime)
        pump.cancel()
        with suppress(asyncio.CancelledError):
            await pump

    async def _pump(self, runtime: WorkerRuntime) -> None:
        jobs: set[asyncio.Task[None]] = set()
        while True:
            try:
                text = await self.pop()
            except (RedisPyError, OSError):
                # As a pool whose connection broke: what was popped is lost, and the rest waits.
                text = None
            if text is None:
                await asyncio.sleep(POLL_S)
                continue
            job = asyncio.create_task(self._handle(runtime, text))
            jobs.add(job)
            job.add_done_callback(jobs.discard)

    async def pop(self) -> str | None:
        """Take the next doorbell out of its queue."""
        for queue in self.executors:
            text = await command(self.calls.redis, "RPOP", self.calls.keys.queue(queue))
            if isinstance(text, str):
                return text
        return None

    async def _handle(self, runtime: WorkerRuntime, text: str) -> None:
        bell = read_envelope(text)
        assert bell is not None
        with suppress(DoorbellNotTaken):
            await runtime.handle(bell)

    def bell(self, call_id: str, *, attempt: int = 1) -> Doorbell:
        """Return the doorbell of a call."""
        return Doorbell.ring(
            self.settings.require_secret(),
            run_id=self.calls.run_id,
            call_key=self.calls.key(call_id),
            attempt=attempt,
        )

    def reaper(self, name: str = "first", **changes: object) -> Reaper:
        """Return a candidate for the reaper that moves when it is ticked."""
        settings = self.settings.model_copy(update=changes)
        return create_reaper(settings, self.calls.redis, doorbell=RedisDoorbell(), token=name)

    async def tick(self, reaper: Reaper) -> None:
        """Make this candidate the leader, and tick it; the workers' own reapers sleep."""
        await command(self.calls.redis, "DEL", self.calls.keys.reaper_leader)
        await reaper.tick()

    async def tick_until(
        self, reaper: Reaper, condition: Callable[[], Awaitable[object]], what: str
    ) -> None:
        """Tick the reaper until the condition holds."""

        async def tick() -> object:
            await self.tick(reaper)
            return await condition()

        await await_until(tick, what)

    async def cancel(self, call_id: str) -> str:
        """Cancel a call, as its client does."""
        calls = self.calls
        key = calls.key(call_id)
        return await cancel_call(
            calls.ledger, calls.reader, calls.blobs, calls.run_id, key, actor="runtime:test"
        )

    async def dispatch(self, call_id: str, spec: ToolSpec, **fields: str | int) -> None:
        """Queue a call of a tool; `fields` of its record are put instead of the usual ones."""
        await self.calls.ledger.dispatch(self._new_call(call_id, spec, fields))

    async def dispatch_unheard(self, call_id: str, spec: ToolSpec) -> None:
        """Queue a call whose doorbell was lost."""
        await self.calls.ledger.dispatch(replace(self._new_call(call_id, spec, {}), envelope=""))

    def _new_call(self, call_id: str, spec: ToolSpec, fields: Mapping[str, str | int]) -> NewCall:
        call = self.calls.new_call(
            call_id,
            tool=spec.name,
            # Of its own, because the same arguments after an unknown outcome need a person.
            arguments={"id": call_id, "text": "hello"},
            retry_safe=spec.annotations.retry_safe,
        )
        about = {"source": spec.source.value, "spec_hash": spec.spec_hash}
        return replace(call, fields={**call.fields, **about, **fields})

    async def ended(self, call_id: str) -> StoredCall:
        """Return a call's record when it has its outcome."""

        async def is_over() -> bool:
            return (await self.calls.call(call_id)).is_terminal

        await await_until(is_over, f"call {call_id} has ended")
        return await self.calls.call(call_id)

    async def result(self, call_id: str) -> ToolResult:
        """Return a call's result when it has one."""
        return await load_result(await self.ended(call_id), self.calls.blobs)

    async def run_call(
        self, spec: ToolSpec, call_id: str = "c1", **fields: str | int
    ) -> ToolResult:
        """Queue a call, and return its result."""
        await self.dispatch(call_id, spec, **fields)
        return await self.result(call_id)

    async def end_lease(self, call_id: str) -> None:
        """Make the lease of a running call look long over."""
        member = f"{self.calls.run_id}|{self.calls.key(call_id)}"
        await command(self.calls.redis, "ZADD", self.calls.keys.leases, "XX", 1, member)

    async def queue_length(self) -> int:
        """Return how many doorbells are in the queue of builtin tools."""
        length = await command(self.calls.redis, "LLEN", self.calls.keys.queue("builtin"))
        return int(str(length))

    async def total(self, name: str) -> int:
        """Return one of the fleet's counters."""
        return (await self.calls.reader.totals()).get(name, 0)

    async def clock_moves(self, by_ms: int) -> None:
        """Return when the server's clock has moved by so much."""
        start = await self.calls.reader.now_ms()

        async def has_moved() -> bool:
            return await self.calls.reader.now_ms() > start + by_ms

        await await_until(has_moved, f"{by_ms} ms on the server's clock")

    async def run_status(self) -> str:
        """Return the status of the run."""
        run = await self.calls.reader.run(self.calls.run_id)
        return "" if run is None else run["status"]

    async def wait_for_status(self, status: str) -> None:
        """Return when the run has the status."""

        async def has_it() -> bool:
            return await self.run_status() == status

        await await_until(has_it, f"the run is {status}")

    def add(self, name: str, function: Callable[..., object] = echo, **about: object) -> ToolSpec:
        """Offer a tool."""
        return self.executor.add(make_spec(name, **about), function)  # type: ignore[arg-type]

    async def close(self) -> None:
        """Stop every worker."""
        for pump in self.pumps.values():
            pump.cancel()
        for runtime in self.runtimes:
            await runtime.stop()


@asynccontextmanager
async def worker_bench(settings: Settings) -> AsyncGenerator[WorkerBench]:
    """Give a bench; afterwards the books balance and no journal has a gap."""
    own = settings.model_copy(
        update={"renew_s": 0.05, "ring_grace_s": 0.1, "reaper_interval_s": NEVER_S}
    )
    async with ledger_bench(own) as calls:
        executor = FunctionExecutor()
        bench = WorkerBench(calls, own, executor, {"builtin": executor})
        try:
            yield bench
        finally:
            await bench.close()
        assert unaccounted(await calls.reader.totals()) == 0
