"""Run every doorbell on one asyncio loop, behind Celery's pool interface.

Is: the only pool of Toolrail workers: takes doorbells from Celery's hub thread, runs
`RuntimePort.handle` for each on an event loop in a second thread, and brings the outcomes back in
batches. Is not: what handling a doorbell means (`runtime.py`), nor Celery's private parts.
Above: Celery, which makes it by the setting `worker_pool`. Below: `port.py`, `loop_thread.py`,
`_celery.py`.

Rule of the two threads: everything of Celery's (messages, its books of them) is touched on the hub
thread, everything of the runtime on the loop. A callback on the wrong thread loses messages at a
cold shutdown.
"""

import asyncio
import gc
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from enum import Enum
from typing import TypeVar, cast

from toolrail_schemas import Doorbell
from toolrail_workers import _celery, transport
from toolrail_workers.consumer import Delivery, DoorbellConsumer
from toolrail_workers.loop_thread import LoopThread
from toolrail_workers.port import DoorbellNotTaken, PoolStats, RuntimePort
from toolrail_workers.starting import wait_for_start

log = logging.getLogger(__name__)

Result = TypeVar("Result")

PUMP_S = 0.02
"""How long an acknowledgement may wait while the main thread drains."""

DRAIN_MARGIN_S = 5.0
"""What the runtime may take beyond its grace, to hand over what it cuts off."""

CANCEL_PATIENCE_S = 5.0
"""How long cancelled calls may take to end; a killed child takes milliseconds."""

ANSWER_PATIENCE_S = 1.0
"""How long the event loop may be busy with one thing while everything is over."""

STOP_PATIENCE_S = 15.0
"""How long the runtime may take to close its servers."""

EXIT_MARGIN_S = CANCEL_PATIENCE_S + STOP_PATIENCE_S + DRAIN_MARGIN_S
"""What `exit_worker` allows besides the drain before the process is ended the hard way."""


class Outcome(Enum):
    """How handling a doorbell ended."""

    DONE = "done"
    NOT_TAKEN = "not_taken"
    TERMINATED = "terminated"


class Job:
    """One doorbell in work."""

    __slots__ = ("delivery", "doorbell", "outcome", "task")

    def __init__(self, doorbell: Doorbell, delivery: Delivery) -> None:
        self.doorbell = doorbell
        self.delivery = delivery
        self.task: asyncio.Task[None] | None = None
        self.outcome = Outcome.DONE


class AsyncioPool(_celery.BasePool):
    """Celery's view of the event loop."""

    signal_safe = False
    task_join_will_block = False
    body_can_be_buffer = True

    app: _celery.WorkerApp
    limit: int

    def on_start(self) -> None:
        """Start the loop and the runtime; a runtime that cannot start ends the worker."""
        self._hub: _celery.Hub | None = None
        self._jobs: set[Job] = set()
        self._incoming: list[Job] = []
        self._finished: deque[Job] = deque()
        self._flushing = False
        self._news = threading.Event()
        self._cold = False
        self._ended = False
        self._paused = False
        self._consumer: DoorbellConsumer | None = None
        self._counts = dict.fromkeys(("doorbells", "invalid", "failed"), 0)
        self._runtime: RuntimePort | None = None
        self._thread = LoopThread("toolrail-loop")
        sources = tuple(self.app.amqp.queues.consume_from)
        starting = self._thread.submit(self._start_runtime(sources))
        code = wait_for_start(starting, is_stopping=_celery.is_stopping)
        if code is not None:
            self._end()
            _celery.abort_start(code)
        # What stands now lives as long as the process: not worth a look per collection.
        gc.collect()
        gc.freeze()

    async def _start_runtime(self, sources: Sequence[str]) -> None:
        self._runtime = self.app.create_runtime(self.app.settings, sources, self)
        await self._runtime.start()

    def register_with_event_loop(self, loop: _celery.Hub) -> None:
        """Remember the hub; Celery calls this on every connection anew."""
        self._hub = loop

    def note_consumer(self, consumer: DoorbellConsumer) -> None:
        """Hear who takes messages from the broker; hub thread, on every connection anew."""
        self._consumer = consumer
        self._obey_pause()

    def pause(self) -> None:
        """Take no more doorbells until `resume`; any thread."""
        self._set_paused(paused=True)

    def resume(self) -> None:
        """Take doorbells again; any thread."""
        self._set_paused(paused=False)

    def _set_paused(self, *, paused: bool) -> None:
        self._paused = paused
        if self._hub is not None:
            self._hub.call_soon(self._obey_pause)

    def _obey_pause(self) -> None:
        """Make the consumer do what was asked for last; hub thread."""
        if self._consumer is not None:
            self._consumer.set_consuming(wanted=not self._paused)

    def take(self, fields: object, delivery: Delivery) -> None:
        """Take one message; hub thread, does not block. See `consumer.DoorbellPool`."""
        job = Job(Doorbell.model_validate(fields), delivery)
        delivery.enter()
        self._counts["doorbells"] += 1
        self._jobs.add(job)
        self._incoming.append(job)
        if len(self._incoming) == 1:
            if self._hub is None:
                self._submit()
            else:
                # Runs when the hub is through with this read: the whole batch crosses at once.
                self._hub.call_soon(self._submit)

    def note_invalid(self, reason: str) -> None:
        """Count a message that is no doorbell; hub thread."""
        self._counts["invalid"] += 1
        log.warning("doorbell.invalid: dropped, %s", reason)

    def _submit(self) -> None:
        jobs, self._incoming = self._incoming, []
        if jobs:
            self._thread.call_soon(lambda: self._spawn(jobs))

    def _spawn(self, jobs: list[Job]) -> None:
        for job in jobs:
            job.task = self._thread.loop.create_task(self._run(job))

    async def _run(self, job: Job) -> None:
        try:
            await cast(RuntimePort, self._runtime).handle(job.doorbell)
        except DoorbellNotTaken:
            job.outcome = Outcome.NOT_TAKEN
        except asyncio.CancelledError:
            job.outcome = Outcome.TERMINATED
        except Exception:
            # The edge: the doorbell is dropped, the ledger and the reaper know the rest.
            self._counts["failed"] += 1
            log.exception("doorbell.handle_failed")
        self._finished.append(job)
        if not self._flushing:
            self._flushing = True
            self._thread.loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Wake the hub thread once for all that finished in this turn of the loop."""
        self._flushing = False
        self._news.set()
        if self._hub is not None:
            self._hub.call_soon(self._pump)

    def _pump(self) -> None:
        """Settle what finished; hub thread only."""
        while self._finished:
            job = self._finished.popleft()
            self._jobs.discard(job)
            try:
                self._report(job)
            except Exception:
                # The edge: the hub's loop must survive whatever settling a message does.
                log.exception("doorbell.report_failed")

    def _report(self, job: Job) -> None:
        if job.outcome is Outcome.NOT_TAKEN:
            job.delivery.put_back()
        elif job.outcome is Outcome.DONE or not _celery.is_stopping():
            job.delivery.acknowledge()
        else:
            # The message stays unacknowledged, so that it goes back when the channel closes.
            job.delivery.leave()

    def on_stop(self) -> None:
        """Drain: main thread, the hub's loop stands still, so acknowledgements are pumped here."""
        if self._ended:
            return
        self._return_unsubmitted()
        grace_s = self.app.settings.drain_s
        draining = self._thread.submit(self._drain(grace_s))
        self._pump_until(
            lambda: self._cold or (draining.done() and not self._jobs),
            patience_s=grace_s + DRAIN_MARGIN_S,
        )
        self._end()

    def on_terminate(self) -> None:
        """End without a drain."""
        if not self._ended:
            self._cold = True
            self._end()

    def go_cold(self) -> None:
        """Give up a drain. Called in a signal handler, so it takes no lock."""
        self._cold = True

    async def _drain(self, grace_s: float) -> None:
        try:
            await cast(RuntimePort, self._runtime).drain(grace_s)
        except Exception:
            log.exception("worker.drain_failed")

    def _return_unsubmitted(self) -> None:
        jobs, self._incoming = self._incoming, []
        for job in jobs:
            job.outcome = Outcome.NOT_TAKEN
            self._finished.append(job)

    def _end(self) -> None:
        """Cancel what runs, stop the runtime, end the loop; bounded."""
        self._ended = True
        self._thread.call_soon(self._cancel_all)
        self._pump_until(lambda: not self._jobs, patience_s=CANCEL_PATIENCE_S)
        if not self._thread.answers(patience_s=ANSWER_PATIENCE_S):
            # Something blocks it for good. The thread is a daemon: it ends with the process.
            log.error("worker.loop_stuck: the event loop does not answer")
            return
        if self._runtime is not None:
            self._wait("stop", self._runtime.stop(), patience_s=STOP_PATIENCE_S)
        self._thread.stop(patience_s=CANCEL_PATIENCE_S)

    def _cancel_all(self) -> None:
        for job in list(self._jobs):
            if job.task is not None:
                job.task.cancel()

    def _wait(
        self, name: str, work: Coroutine[object, object, Result], *, patience_s: float
    ) -> None:
        future = self._thread.submit(work)
        self._pump_until(future.done, patience_s=patience_s)
        if not future.done():
            log.error("worker.%s_too_slow", name)
            future.cancel()
            return
        error = future.exception()
        if error is not None:
            log.error("worker.%s_failed", name, exc_info=error)

    def _pump_until(self, done: Callable[[], bool], *, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while True:
            self._news.clear()
            self._pump()
            _celery.run_timers()
            if done() or time.monotonic() > deadline:
                return
            self._news.wait(PUMP_S)

    def grow(self, n: int = 1) -> None:
        """Allow more doorbells at once."""
        self.limit += n

    def shrink(self, n: int = 1) -> None:
        """Allow fewer doorbells at once; running ones are left alone."""
        self.limit = max(1, self.limit - n)

    def flush(self) -> None:
        """Keep everything: calls outlive the connection they came by."""

    @property
    def num_processes(self) -> int:
        """Return how many doorbells may be in work; Celery prefetches as many."""
        return self.limit

    def stats(self) -> PoolStats:
        """Return the numbers of this moment; any thread."""
        return PoolStats(
            slots=self.limit,
            busy=len(self._jobs),
            pops=transport.METER.pops,
            doorbells=self._counts["doorbells"],
            invalid_doorbells=self._counts["invalid"] + transport.METER.invalid,
            failed_handles=self._counts["failed"],
            last_poll_at=transport.METER.last_reply_at,
            paused=self._paused,
        )

    def exit_worker(self, reason: str) -> None:
        """End this worker with exit code 1; any thread."""
        log.critical("worker.exits: %s", reason)
        _celery.request_stop(_celery.EX_FAILURE)
        # A hub that hangs never looks at the flag, and that may be why we are here.
        patience_s = self.app.settings.drain_s + EXIT_MARGIN_S
        timer = threading.Timer(patience_s, os._exit, args=(_celery.EX_FAILURE,))
        timer.daemon = True
        timer.start()

    def _get_info(self) -> dict[str, object]:
        stats = self.stats()
        return {
            "implementation": f"{__name__}:{type(self).__name__}",
            "max-concurrency": stats.slots,
            "busy": stats.busy,
            "doorbells": stats.doorbells,
            "invalid_doorbells": stats.invalid_doorbells,
            "failed_handles": stats.failed_handles,
        }
