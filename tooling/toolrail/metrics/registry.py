"""Make the metrics of one process from the catalogue.

Is: a registry, and a counter, gauge or histogram in it for a line of the catalogue. Is not: which
process has which (`process.py`). Above: `process.py`, the worker's metrics. Below: `metric.py`,
prometheus-client.

No global registry is used, so that two clients in one process, or two tests, share nothing.
"""

import itertools
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import Metric as Family

from toolrail.metrics.metric import Kind, Metric

CREATED = "_created"


class ProcessRegistry(CollectorRegistry):
    """A registry that leaves out when each series was created.

    prometheus_client adds it as a series beside each counter and histogram; nobody asks for it,
    and its switch is one for the whole process, which may be somebody else's.
    """

    def describe(self) -> Iterable[Family]:
        """Yield the families, for another registry that this one is added to."""
        return self.collect()

    def collect(self) -> Iterable[Family]:
        """Yield the families."""
        for family in super().collect():
            family.samples = [s for s in family.samples if not s.name.endswith(CREATED)]
            yield family


def counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    """Return the counter of a line of the catalogue; combinations of closed labels are 0."""
    _check(metric, "counter")
    made = Counter(metric.family, metric.help, metric.label_names, registry=registry)
    for values in combinations(metric):
        made.labels(*values)
    return made


def gauge(metric: Metric, registry: CollectorRegistry) -> Gauge:
    """Return the gauge of a line of the catalogue."""
    _check(metric, "gauge")
    return Gauge(metric.family, metric.help, metric.label_names, registry=registry)


def histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    """Return the histogram of a line of the catalogue."""
    _check(metric, "histogram")
    return Histogram(
        metric.family, metric.help, metric.label_names, buckets=metric.buckets, registry=registry
    )


def combinations(metric: Metric) -> Iterator[tuple[str, ...]]:
    """Yield every combination of label values; none when there is no label, or an open one."""
    if metric.labels and all(label.values for label in metric.labels):
        yield from itertools.product(*(label.values for label in metric.labels))


def _check(metric: Metric, kind: Kind) -> None:
    if metric.kind != kind or metric.producer != "process":
        raise ValueError(f"{metric.name} is a {metric.kind} of the {metric.producer}")
