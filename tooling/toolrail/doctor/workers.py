"""Look at the workers: do they live, speak, move, and are they of one version.

Is: `WorkerRecord`s judged. Is not: the reading of them (`toolrail.fleet`). Above: `examine.py`.
Below: `toolrail.fleet`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.fleet import WorkerRecord
from toolrail.settings import Settings
from toolrail.spans import age_text

SILENT_SHARE = 1.5
"""Of the time between two announcements; one may be late."""
LAG_WARN_MS = 1_000


def judge_workers(
    workers: Sequence[WorkerRecord],
    *,
    now_ms: int,
    settings: Settings,
    version: str,
    waiting: frozenset[str],
) -> list[Finding]:
    """Return what their records mean.

    Args:
        workers: Records of those that live.
        now_ms: The clock of Redis.
        settings: Announcement interval and limits, assumed to be theirs too.
        version: Of this program; "" when it is not known.
        waiting: Queues in which calls wait.
    """
    if not workers:
        return [warn("workers", "none lives", "toolrail worker SOURCE, or toolrail up")]
    findings: list[Finding] = []
    for worker in workers:
        findings += _one(worker, now_ms=now_ms, settings=settings, waiting=waiting)
    findings += _mixed(workers, version)
    return findings or [ok("workers", _summary(workers))]


def _one(
    worker: WorkerRecord, *, now_ms: int, settings: Settings, waiting: frozenset[str]
) -> Iterator[Finding]:
    silent_ms = now_ms - worker.seen_ms
    if silent_ms > settings.announce_s * 1000 * SILENT_SHARE:
        seen = f"{worker.worker} has been silent for {age_text(silent_ms)}"
        fix = f"Look at process {worker.pid} on {worker.host}; it is forgotten if it stays silent."
        yield warn("workers", seen, fix)
        return
    if worker.draining:
        seen = f"{worker.worker} drains, {worker.busy} calls run to their end"
        yield warn("workers", seen, f"Stop it, or toolrail drain {worker.worker} --undo")
        return
    stuck_ms = now_ms - worker.last_progress_ms
    is_wanted = not waiting.isdisjoint(worker.queues) and worker.busy < worker.slots
    if is_wanted and worker.last_progress_ms and stuck_ms > settings.watchdog_s * 1000:
        seen = f"{worker.worker} has taken nothing for {age_text(stuck_ms)} while calls wait"
        yield fail("workers", seen, f"Restart process {worker.pid} on {worker.host}.")
    if worker.loop_lag_ms > LAG_WARN_MS:
        seen = f"the event loop of {worker.worker} was blocked for {worker.loop_lag_ms} ms"
        fix = "Look for a tool that computes or blocks in the loop; isolation=process takes it out."
        yield warn("workers", seen, fix)


def _mixed(workers: Sequence[WorkerRecord], version: str) -> Iterator[Finding]:
    fix = "Fine during a roll-out. After it: toolrail drain --build OLD, then stop those."
    for name, values in (
        ("versions", Counter(worker.version or "unknown" for worker in workers)),
        ("builds", Counter(worker.build or "unnamed" for worker in workers)),
    ):
        if len(values) > 1:
            mix = ", ".join(f"{count} of {value}" for value, count in sorted(values.items()))
            yield warn("workers", f"{name} are mixed: {mix}", fix)
    others = {worker.version for worker in workers} - {version}
    if version and others and len(others) == len({worker.version for worker in workers}):
        seen = f"workers run {', '.join(sorted(others))}, this program is {version}"
        yield warn("workers", seen, "Install the same version where calls are made and run.")


def _summary(workers: Sequence[WorkerRecord]) -> str:
    by_sources = Counter("+".join(worker.sources) for worker in workers)
    kinds = ", ".join(f"{count} {sources}" for sources, count in sorted(by_sources.items()))
    slots, busy = sum(w.slots for w in workers), sum(w.busy for w in workers)
    version = workers[0].version or "unknown"
    return f"{kinds}; {busy} of {slots} slots busy; version {version}"
