"""Read what a process shows to Prometheus.

Is: the text of a registry or of a server as samples, and the checks that hold for every process.
Is not: a metric. Above: tests of metrics. Below: prometheus_client's own parser.
"""

import threading
import urllib.request
from collections.abc import Iterable

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from toolrail.metrics.catalogue import METRICS
from toolrail.metrics.metric import Metric

SERIES_MAX = 2_000
"""Of one process. Source: the research on metrics, 1.4."""


def scrape(address: str, path: str = "/metrics", *, timeout_s: float = 5.0) -> str:
    """Return what a server at `host:port` answers."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=timeout_s) as answer:
        text: bytes = answer.read()
        return text.decode()


def server_leftovers(port: int) -> list[str]:
    """Return the threads and connections that a server in this process has besides its own."""
    threads = [t.name for t in threading.enumerate() if "process_request" in t.name]
    sockets = [
        str(connection)
        for connection in psutil.Process().net_connections("tcp")
        if connection.laddr and connection.laddr.port == port
        if connection.status not in {psutil.CONN_LISTEN, psutil.CONN_TIME_WAIT}
    ]
    return threads + sockets


def exposed(source: CollectorRegistry | str) -> list[Sample]:
    """Return every sample of a registry, or of a text that was scraped."""
    text = source if isinstance(source, str) else generate_latest(source).decode()
    return [s for family in text_string_to_metric_families(text) for s in family.samples]


def value(samples: Iterable[Sample], name: str, **labels: str) -> float:
    """Return the sum of a metric's samples that have at least these labels.

    Raises:
        AssertionError: There is none.
    """
    found = [s for s in samples if s.name == name and labels.items() <= s.labels.items()]
    assert found, f"no {name} with {labels}"
    return sum(s.value for s in found)


def check_series(samples: Iterable[Sample]) -> None:
    """Every series is in the catalogue, with its labels and their values, and they are few."""
    listed = list(samples)
    by_name = {name: metric for metric in METRICS for name in _names(metric)}
    for sample in listed:
        metric = by_name[sample.name]
        labels = {name: text for name, text in sample.labels.items() if name != "le"}
        assert metric.producer == "process", sample
        assert set(labels) == set(metric.label_names), sample
        for label in metric.labels:
            assert not label.values or labels[label.name] in label.values, sample
    assert len({(s.name, tuple(sorted(s.labels.items()))) for s in listed}) == len(listed)
    assert len(listed) <= SERIES_MAX


def _names(metric: Metric) -> list[str]:
    if metric.kind != "histogram":
        return [metric.name]
    return [f"{metric.name}{part}" for part in ("_bucket", "_count", "_sum")]
