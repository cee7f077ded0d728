"""Run the calls of a worker: everything between the pool's doorbells and the executors.

Is: the worker's connections, its background loops, and the order of start, drain and stop.
Is not: one call (`execute.py`), Celery (`pool.py`), or the rules of the reaper (`reaper.py`).
Above: `pool.py`, through `port.RuntimePort`. Below: `assembly.py` and what it puts together.
"""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack

from redis.asyncio import Redis

from toolrail.errors import ToolrailError
from toolrail.fleet import Fleet
from toolrail.keys import Keys
from toolrail.redis_io import check_version, connect
from toolrail.settings import Settings
from toolrail_schemas import Doorbell
from toolrail_workers.assembly import USUAL, Assembly, Tuning, assemble, is_foreign
from toolrail_workers.duty import Duty
from toolrail_workers.executor import Executor
from toolrail_workers.metrics import WorkerMetrics
from toolrail_workers.nudges import Nudges
from toolrail_workers.periodic import Periodic
from toolrail_workers.port import DoorbellNotTaken, PoolControl
from toolrail_workers.presence import Identity
from toolrail_workers.running import StopReason
from toolrail_workers.watchdog import LagWatch, StallWatch, queue_lengths

log = logging.getLogger(__name__)

CUT_S = 1.5
"""After the grace of a drain: for the calls that are cut off to be handed over."""
EXECUTOR_STOP_S = 8.0
STALL_CHECK_S = 5.0
END_AGAIN_S = 0.2


def create_runtime(
    settings: Settings, sources: Sequence[str], control: PoolControl
) -> "WorkerRuntime":
    """Return the runtime of one worker process; see `port.RuntimeFactory`."""
    return WorkerRuntime(settings, sources, control)


def worker_id(sources: Sequence[str]) -> str:
    """Return a name that no other worker, also of another host or time, has."""
    host = socket.gethostname().partition(".")[0][:32]
    return f"{'-'.join(sources)}-{host}-{os.getpid()}-{secrets.token_hex(2)}"


class WorkerRuntime:
    """The running half of a worker. Used on one event loop."""

    def __init__(
        self,
        settings: Settings,
        sources: Sequence[str],
        control: PoolControl,
        *,
        executors: dict[str, Executor] | None = None,
        tuning: Tuning = USUAL,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            settings: Of this process.
            sources: Names of the queues that are served.
            control: The pool.
            executors: By queue; None makes those of the table in `sources.py`.
            tuning: Bounds that are no settings.
        """
        self.worker = worker_id(sources)
        self._settings = settings
        self._sources = tuple(sources)
        self._control = control
        self._secret = settings.require_secret()
        self._given = executors
        self._tuning = tuning
        self._closing = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self.metrics = WorkerMetrics(sources, build=settings.build)
        self._is_ready = False
        self._is_ending = False
        self._made: Assembly | None = None
        self._duty: Duty | None = None

    @property
    def metrics_address(self) -> str:
        """See `port.RuntimePort`."""
        return self.metrics.address

    @property
    def waiting_bytes(self) -> int:
        """Size of the answers that are being stored; they pile up while Redis is away."""
        return 0 if self._made is None else self._made.parts.finisher.waiting_bytes

    async def start(self) -> None:
        """Connect, start the executors, announce what they have, begin the background loops.

        Raises:
            RedisUnavailable, RedisTooOld: The ledger cannot be used.
            ConfigError: A source is unknown or its settings are wrong.
        """
        settings = self._settings
        self.metrics.serve(settings, why_not_ready=self._why_not_ready)
        self._closing.push_async_callback(self.metrics.close)
        redis = self._connect(blocking=False)
        blocking = self._connect(blocking=True)
        await check_version(redis, deadline_s=settings.lease_s)
        made = self._made = assemble(
            settings,
            self._sources,
            redis,
            worker=self.worker,
            given=self._given,
            tuning=self._tuning,
            metrics=self.metrics,
        )
        self._closing.push_async_callback(made.doorbell.close)
        duty = self._duty = self._create_duty(made, redis)
        duty.presence.metrics_address = self.metrics.address
        self._closing.push_async_callback(duty.presence.withdraw)

        def on_change() -> None:
            made.parts.specs.note_change()
            duty.announce_soon()

        made.parts.specs.start()
        for executor in made.executors.values():
            self._closing.push_async_callback(_stop_executor, executor)
            await executor.start(on_change)
        await duty.begin()
        self._begin_loops(made, duty, blocking)
        self._is_ready = True
        log.info("worker.started", extra={"worker": self.worker, "sources": self._sources})

    def _begin_loops(self, made: Assembly, duty: Duty, blocking: Redis) -> None:
        settings, renewals = self._settings, made.parts.renewals
        nudges = Nudges(
            blocking,
            keys=Keys(settings.key_prefix),
            worker=self.worker,
            renewals=renewals,
            on_drain=duty.look_soon,
        )
        reaping = Periodic("reaper", made.reaper.tick, interval_s=settings.reaper_interval_s)
        for name, loop in duty.loops().items():
            self._spawn(name, loop.run())
        self._spawn("renew", renewals.run())
        self._spawn("leases", renewals.watch())
        self._spawn("nudges", nudges.run())
        self._spawn("reaper", reaping.run())

    def _connect(self, *, blocking: bool) -> Redis:
        redis = connect(
            self._settings.redis_url,
            timeout_s=self._settings.redis_timeout_s,
            name=f"toolrail-{self.worker}",
            blocking=blocking,
            meter=None if blocking else self.metrics.redis,
        )
        self._closing.push_async_callback(redis.aclose)
        return redis

    def _create_duty(self, made: Assembly, redis: Redis) -> Duty:
        settings = self._settings
        lag, stall = self._watch(redis, Keys(settings.key_prefix))
        duty = Duty(
            Fleet(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s),
            Identity(
                worker=self.worker,
                sources=self._sources,
                build=settings.build,
                every_s=settings.announce_s,
            ),
            announcer=made.announcer,
            control=self._control,
            lag=lag,
            stall=stall,
        )
        self.metrics.watch(
            self._control,
            lag=lag,
            stall=stall,
            is_draining=lambda: duty.is_draining,
            running=made.parts.renewals.running,
        )
        return duty

    def _why_not_ready(self) -> str | None:
        """Return why no call would be claimed now; asked on another thread."""
        if not self._is_ready:
            return "The worker is starting."
        if self._duty is not None and self._duty.is_draining:
            return "The worker is draining; it claims no calls."
        return None

    def _watch(self, redis: Redis, keys: Keys) -> tuple[LagWatch, StallWatch]:
        settings = self._settings
        lag = LagWatch(settings.loop_lag_limit_s, on_lag=self.metrics.note_lag)
        lag.start()
        self._closing.callback(lag.stop)
        stall = StallWatch(
            redis,
            control=self._control,
            lengths=queue_lengths(keys, self._sources, is_foreign=is_foreign(settings)),
            limit_s=settings.watchdog_s,
            deadline_s=settings.redis_timeout_s,
        )
        check_s = min(STALL_CHECK_S, settings.watchdog_s / 4)
        self._spawn("watchdog", Periodic("watchdog", stall.check, interval_s=check_s).run())
        return lag, stall

    def _spawn(self, name: str, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"toolrail-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or self._is_ending:
            return
        # These loops end only by a defect; a worker without one of them is not a worker.
        log.critical(
            "worker.loop_ended", exc_info=task.exception(), extra={"loop": task.get_name()}
        )
        self._control.exit_worker(f"the loop {task.get_name()} ended")

    async def handle(self, doorbell: Doorbell) -> None:
        """Run the call that the doorbell names, if it is ours to run.

        Raises:
            DoorbellNotTaken: The worker is draining.
        """
        if self._made is None or self._duty is None or self._duty.is_draining:
            raise DoorbellNotTaken
        if not doorbell.verify(self._secret):
            # Whoever wrote it does not have the secret; the ledger would not know the call either.
            log.warning("doorbell.forged", extra={"call_key": doorbell.call_key})
            return
        self._busy += 1
        self._idle.clear()
        try:
            await self._made.runner.run(doorbell)
        except ToolrailError as error:
            log.warning("call.left_to_reaper", extra=_fields(doorbell, error.message))
        except Exception:
            # The edge: whatever went wrong, the lease runs out and the reaper settles the call.
            log.exception("call.crashed", extra=_fields(doorbell, "a defect of the worker"))
        finally:
            self._busy -= 1
            if self._busy == 0:
                self._idle.set()

    async def drain(self, grace_s: float) -> None:
        """Take no new call; wait for the running ones, and hand over those that take too long.

        A call that is cut off is queued again at once when its tool may run twice; any other ends
        as `tool.outcome_unknown`, because nobody can say how far it came.
        """
        self._end_duty()
        if self._made is None:
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + grace_s
        await self._hand_over_duties(self._made)
        if await self._is_idle_within(until - loop.time()):
            return
        log.warning("worker.cuts_calls", extra={"worker": self.worker, "running": self._busy})
        self._made.parts.renewals.stop_all(StopReason.SHUTDOWN)
        await self._is_idle_within(CUT_S)

    def _end_duty(self) -> None:
        self._is_ending = True
        if self._duty is not None:
            self._duty.end()

    async def _hand_over_duties(self, made: Assembly) -> None:
        for task in list(self._tasks):
            if task.get_name() in {"toolrail-reaper", "toolrail-announce", "toolrail-watchdog"}:
                await _end(task)
        try:
            async with asyncio.timeout(CUT_S):
                await made.reaper.release()
                await made.announcer.withdraw()
        except (TimeoutError, ToolrailError) as error:
            # Both run out by themselves.
            log.warning("worker.duties_kept", extra={"reason": type(error).__name__})

    async def _is_idle_within(self, patience_s: float) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Close executors, loops and connections, also after a start that failed."""
        self._end_duty()
        if self._made is not None:
            self._made.parts.renewals.stop_all(StopReason.SHUTDOWN)
        for task in list(self._tasks):
            await _end(task)
        await self._closing.aclose()
        log.info("worker.stopped", extra={"worker": self.worker})


async def _stop_executor(executor: Executor) -> None:
    try:
        async with asyncio.timeout(EXECUTOR_STOP_S):
            await executor.stop()
    except TimeoutError:
        log.error("executor.stop_too_slow", extra={"source": executor.source.value})
    except Exception:
        # The edge: the other executors and the connections are closed all the same.
        log.exception("executor.stop_failed", extra={"source": executor.source.value})


async def _end(task: asyncio.Task[None]) -> None:
    while not task.done():
        task.cancel()
        # Libraries may swallow a cancellation: `asyncio.wait_for` does before Python 3.12.
        await asyncio.wait({task}, timeout=END_AGAIN_S)


def _fields(doorbell: Doorbell, reason: str) -> dict[str, str]:
    return {"run_id": doorbell.run_id, "call_key": doorbell.call_key, "reason": reason}
