"""Put the parts of a worker together, once and in one place.

Is: which object gets which other one. Is not: their lives (`runtime.py`).
Above: `runtime.py`. Below: every part of a worker.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from redis.asyncio import Redis

from toolrail.blobs import Blobs
from toolrail.doorbell import DoorbellPort, KombuDoorbell, RedisDoorbell
from toolrail.keys import Keys
from toolrail.ledger import Ledger, LedgerReader
from toolrail.registry import Registry
from toolrail.settings import Settings
from toolrail_workers.announce import Announcer
from toolrail_workers.books import Books
from toolrail_workers.execute import CallRunner, Parts
from toolrail_workers.executor import Executor
from toolrail_workers.finishing import PATIENCE_S, WAITING_MAX_BYTES, Finisher
from toolrail_workers.leader import Leadership
from toolrail_workers.letter_sweep import ForgottenLetters
from toolrail_workers.lost import LostCalls
from toolrail_workers.metrics import WorkerMetrics
from toolrail_workers.name_sweep import FormerTools
from toolrail_workers.passing import Passing
from toolrail_workers.reaper import Reaper
from toolrail_workers.rebell import LostDoorbells
from toolrail_workers.renewals import Renewals
from toolrail_workers.repeats import Repeats
from toolrail_workers.run_sweeps import RunSweeps
from toolrail_workers.running import STOP_GRACE_S
from toolrail_workers.sources import ExecutorParts, create_executors
from toolrail_workers.specs import SpecIndex
from toolrail_workers.sweeps import CallSweeps

LEADER_TICKS = 5
"""Ticks after which a silent reaper is replaced."""
LEADER_MIN_MS = 3000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Bounds that are no settings: nobody but a test has a reason to change them."""

    stop_grace_s: float = STOP_GRACE_S
    """How long a stopped tool may clean up."""
    waiting_max_bytes: int = WAITING_MAX_BYTES
    """All answers that may wait for Redis together."""


USUAL = Tuning()


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The parts of one worker that its runtime starts and stops."""

    executors: dict[str, Executor]
    announcer: Announcer
    parts: Parts
    runner: CallRunner
    reaper: Reaper
    doorbell: DoorbellPort


def assemble(
    settings: Settings,
    sources: Sequence[str],
    redis: Redis,
    *,
    worker: str,
    metrics: WorkerMetrics,
    given: dict[str, Executor] | None = None,
    tuning: Tuning = USUAL,
) -> Assembly:
    """Return the parts of a worker; nothing is started and nobody is asked anything.

    Args:
        settings: Of this process.
        sources: Queues that are served.
        redis: Of the ledger.
        worker: Id of this worker.
        metrics: Where to count.
        given: Executors by queue, instead of those of the table in `sources.py`.
        tuning: Bounds.

    Raises:
        ConfigError: A source is unknown or its settings are wrong.
    """
    doorbell = create_doorbell(settings)
    # A claim, or a blob of a call that runs, is worth waiting for as long as the lease lasts.
    books = create_books(
        settings, redis, doorbell=doorbell, actor=f"worker:{worker}", deadline_s=settings.lease_s
    )
    executors = given or create_executors(sources, _wanted(settings, books, metrics, worker))
    registry = Registry(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s)
    specs = SpecIndex(list(executors.values()))
    parts = Parts(
        worker=worker,
        books=books,
        renewals=Renewals(books.ledger, lease_s=settings.lease_s, renew_s=settings.renew_s),
        specs=specs,
        passing=Passing(books, registry, specs, worker=worker, queues=executors.keys()),
        finisher=create_finisher(settings, books, tuning=tuning, metrics=metrics),
        repeats=Repeats(books, specs, approval_ms=int(settings.approval_expiry_s * 1000)),
        stop_grace_s=tuning.stop_grace_s,
    )
    return Assembly(
        executors=executors,
        announcer=Announcer(registry, executors, worker=worker),
        parts=parts,
        runner=CallRunner(parts),
        reaper=create_reaper(settings, redis, doorbell=doorbell, token=worker),
        doorbell=doorbell,
    )


def _wanted(settings: Settings, books: Books, metrics: WorkerMetrics, worker: str) -> ExecutorParts:
    return ExecutorParts(
        settings=settings,
        worker=worker,
        redis=books.redis,
        blobs=books.blobs,
        registry=metrics.registry,
    )


def create_finisher(
    settings: Settings, books: Books, *, tuning: Tuning, metrics: WorkerMetrics
) -> Finisher:
    """Return what ends a worker's calls; it waits longer for Redis than anything else."""
    redis = books.redis
    prefix, patience_s = settings.key_prefix, settings.lease_s + PATIENCE_S
    return Finisher(
        Ledger(redis, prefix=prefix, deadline_s=patience_s),
        Blobs(redis, prefix=prefix, ttl_s=settings.blob_ttl_s, deadline_s=patience_s),
        actor=books.actor,
        inline_bytes=settings.inline_result_bytes,
        patience_s=patience_s,
        waiting_max_bytes=tuning.waiting_max_bytes,
        on_finished=metrics.note_call,
    )


def create_reaper(
    settings: Settings, redis: Redis, *, doorbell: DoorbellPort, token: str
) -> Reaper:
    """Return a candidate for the fleet's reaper.

    Args:
        settings: Of this process.
        redis: Of the ledger.
        doorbell: To ring again with.
        token: Names the candidate.
    """
    deadline_s = settings.redis_timeout_s
    books = create_books(
        settings, redis, doorbell=doorbell, actor="runtime:reaper", deadline_s=deadline_s
    )
    tick_ms = int(settings.reaper_interval_s * 1000)
    return Reaper(
        leadership=Leadership(
            redis,
            key=books.keys.reaper_leader,
            token=token,
            ttl_ms=max(tick_ms * LEADER_TICKS, LEADER_MIN_MS),
            deadline_s=deadline_s,
        ),
        reader=books.reader,
        calls=CallSweeps(books, LostCalls(books)),
        runs=RunSweeps(books),
        letters=ForgottenLetters(books),
        names=FormerTools(books),
        doorbells=LostDoorbells(
            books,
            Registry(redis, prefix=settings.key_prefix, deadline_s=deadline_s),
            grace_ms=int(settings.ring_grace_s * 1000),
            is_blind=is_foreign(settings),
        ),
    )


def create_books(
    settings: Settings, redis: Redis, *, doorbell: DoorbellPort, actor: str, deadline_s: float
) -> Books:
    """Return the books of the settings' cell, as one actor writes them."""
    prefix = settings.key_prefix
    return Books(
        redis=redis,
        ledger=Ledger(redis, prefix=prefix, deadline_s=deadline_s),
        reader=LedgerReader(redis, prefix=prefix, deadline_s=deadline_s),
        blobs=Blobs(redis, prefix=prefix, ttl_s=settings.blob_ttl_s, deadline_s=deadline_s),
        keys=Keys(prefix),
        doorbell=doorbell,
        secret=settings.require_secret(),
        actor=actor,
        deadline_s=deadline_s,
    )


def create_doorbell(settings: Settings) -> DoorbellPort:
    """Return how this cell's calls are rung for."""
    if settings.broker_url is None or not is_foreign(settings):
        return RedisDoorbell()
    return KombuDoorbell(settings.broker_url, timeout_s=settings.redis_timeout_s)


def is_foreign(settings: Settings) -> bool:
    """Whether doorbells travel through another broker than the ledger's Redis."""
    return settings.broker_url is not None and settings.broker_url != settings.redis_url
