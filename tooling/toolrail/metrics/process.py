"""Hold what one process counts of itself.

Is: what every process has (build, Redis as seen from here), and what a client adds (calls that were
refused, admission). Is not: the worker's part (`toolrail_workers.metrics`), nor the fleet's totals
(`fleet.py`). Above: `client.py`, workers. Below: `registry.py`, the catalogue, `redis_meter.py`.
"""

import platform
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from toolrail.errors import (
    AdmissionClosed,
    CallConflict,
    CallError,
    RunClosed,
    RunNotFound,
    SystemFailure,
    ToolrailError,
)
from toolrail.metrics import catalogue
from toolrail.metrics.labels import SOURCES
from toolrail.metrics.registry import ProcessRegistry, counter, gauge
from toolrail.redaction import counts
from toolrail.redis_meter import RedisMeter
from toolrail.request import CallTooLarge

NONE = "none"
"""Of a version that this process does not have."""

# In this order: some are subclasses of others.
_REJECTIONS: tuple[tuple[type[ToolrailError], str], ...] = (
    (AdmissionClosed, "overload"),
    (CallConflict, "duplicate_conflict"),
    (RunClosed, "run_closed"),
    (RunNotFound, "run_closed"),
    (CallTooLarge, "too_large"),
    (CallError, "invalid"),
    (SystemFailure, "invalid"),
)


class ProcessMetrics:
    """What every process of ours has.

    Attributes:
        registry: All of it; `generate_latest(registry)` is what `/metrics` shows.
        redis: To be given to `redis_io.connect`.
    """

    def __init__(self, *, build: str = "", celery: str = NONE) -> None:
        """Make the metrics.

        Args:
            build: `Settings.build`.
            celery: Version of Celery; only workers have one.
        """
        self.registry = ProcessRegistry()
        self.redis = RedisMeter()
        self.registry.register(_RedisCollector(self.redis))
        self.registry.register(_RedactionCollector())
        show_build(self.registry, build=build, celery=celery)


class ClientMetrics(ProcessMetrics):
    """What a client adds."""

    def __init__(self, *, build: str = "") -> None:
        """Make the metrics; admission counts as open until somebody looks."""
        super().__init__(build=build)
        self._rejected = counter(catalogue.CALLS_REJECTED, self.registry)
        self._admission = gauge(catalogue.ADMISSION_OPEN, self.registry)
        self._admission.set(1)

    def watch_admission(self, is_open: Callable[[], bool]) -> None:
        """Show from now on what this says; asked on the thread of a scrape."""
        self._admission.set_function(lambda: float(is_open()))

    def note_rejected(self, error: ToolrailError, source: str) -> None:
        """Count a call that was not taken into the ledger.

        Args:
            error: What its caller was told.
            source: Whose tool it asked for; anything unknown counts as of nobody.
        """
        known = source if source in SOURCES else NONE
        self._rejected.labels(known, rejection_of(error)).inc()


def rejection_of(error: ToolrailError) -> str:
    """Return the reason under which a refused call is counted."""
    return next((name for kind, name in _REJECTIONS if isinstance(error, kind)), "unavailable")


def show_build(registry: ProcessRegistry, *, build: str, celery: str = NONE) -> None:
    """The registry says which code runs; see `ProcessMetrics` for the arguments."""
    info = gauge(catalogue.BUILD_INFO, registry)
    info.labels(toolrail_version(), build or NONE, platform.python_version(), celery).set(1)


def toolrail_version() -> str:
    """Return the version of Toolrail that runs."""
    return version_of("toolrail")


def version_of(package: str) -> str:
    """Return the version of an installed package, or `none`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return NONE


class _RedisCollector:
    """Shows the numbers of a `RedisMeter`."""

    def __init__(self, meter: RedisMeter) -> None:
        self._meter = meter

    def describe(self) -> Iterable[Family]:
        """Name the families, so that a registry notices when two show them."""
        return (self._durations(), self._errors())

    def collect(self) -> Iterable[Family]:
        """Yield what was counted so far."""
        durations, errors = self._durations(), self._errors()
        edges = [*map(str, _DURATION.buckets), "+Inf"]
        for operation, span in self._meter.spans.items():
            # A copy: the counts of a scrape belong together.
            counts, total, buckets = list(span.counts), 0, list[tuple[str, float]]()
            for edge, count in zip(edges, counts, strict=True):
                total += count
                buckets.append((edge, total))
            durations.add_metric([operation], buckets, span.sum_s)
        for kind, times in self._meter.errors.items():
            errors.add_metric([kind], times)
        return (durations, errors)

    def _durations(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(_DURATION.family, _DURATION.help, labels=_DURATION.label_names)

    def _errors(self) -> CounterMetricFamily:
        return CounterMetricFamily(_ERRORS.family, _ERRORS.help, labels=_ERRORS.label_names)


class _RedactionCollector:
    """Shows what was redacted in this process, whichever client or worker of it asked."""

    def describe(self) -> Iterable[Family]:
        """Name the family."""
        return (self._family(),)

    def collect(self) -> Iterable[Family]:
        """Yield what was counted so far."""
        family = self._family()
        for kind, times in counts().items():
            family.add_metric([kind], times)
        return (family,)

    def _family(self) -> CounterMetricFamily:
        metric = catalogue.REDACTIONS
        return CounterMetricFamily(metric.family, metric.help, labels=metric.label_names)


_DURATION = catalogue.REDIS_COMMAND_DURATION
_ERRORS = catalogue.REDIS_ERRORS
