"""Say what one metric is.

Is: the shape of a line of the catalogue, and how to write one. Is not: the catalogue
(`catalogue.py`). Above: the catalogue. Below: `labels.py`.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from toolrail.metrics.labels import Label

Kind = Literal["counter", "gauge", "histogram"]
Producer = Literal["ledger", "process"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of the catalogue.

    Attributes:
        name: With its unit and, for a counter, `_total`.
        kind: What Prometheus calls its type.
        producer: Who exports it.
        help: One sentence; says what a value means.
        labels: In the order in which values are given.
        buckets: Upper edges in seconds, ascending, without +Inf; empty unless a histogram.
    """

    name: str
    kind: Kind
    producer: Producer
    help: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def label_names(self) -> tuple[str, ...]:
        """The names of the labels, in order."""
        return tuple(label.name for label in self.labels)

    @property
    def family(self) -> str:
        """The name without `_total`, which prometheus_client adds to counters by itself."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name


def _plain(kind: Kind, producer: Producer, name: str, says: str, *of: Label) -> Metric:
    return Metric(name, kind, producer, says, of)


def _histogram(
    producer: Producer, name: str, edges: tuple[float, ...], says: str, *of: Label
) -> Metric:
    return Metric(name, "histogram", producer, says, of, edges)


ledger_counter = partial(_plain, "counter", "ledger")
ledger_gauge = partial(_plain, "gauge", "ledger")
ledger_histogram = partial(_histogram, "ledger")
process_counter = partial(_plain, "counter", "process")
process_gauge = partial(_plain, "gauge", "process")
process_histogram = partial(_histogram, "process")
