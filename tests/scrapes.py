"""Read what `/metrics` says, as Prometheus would.

Is: the text format to numbers. Is not: an HTTP client of the product. Above: tests of metrics.
Below: prometheus_client's parser.
"""

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scrape:
    """One answer of `/metrics`."""

    text: str

    def __getitem__(self, series: str) -> float:
        """Return the value of a series such as `name{source="mcp"}`; labels in the text's order.

        The text sorts labels by name, so a test spells them sorted.
        """
        found = [line for line in self.text.splitlines() if line.startswith(series + " ")]
        assert len(found) == 1, f"{series}: {len(found)} series"
        return float(found[0].rpartition(" ")[2])

    def sum(self, name: str, **labels: str) -> float:
        """Return the sum over all series of a name with these labels, among others."""
        return sum(value for _, value in self.series(name, **labels))

    def series(self, name: str, **labels: str) -> Iterator[tuple[dict[str, str], float]]:
        """Yield labels and value of each series of a name with these labels, among others."""
        for family in text_string_to_metric_families(self.text):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    yield sample.labels, sample.value

    def has(self, name: str) -> bool:
        """Say whether there is a series of this name."""
        return next(self.series(name), None) is not None

    @property
    def lines(self) -> list[str]:
        """One line per series."""
        return [line for line in self.text.splitlines() if line and not line.startswith("#")]

    @property
    def types(self) -> dict[str, str]:
        """The type of each family, by the name that stands in the text."""
        words = [line.split() for line in self.text.splitlines() if line.startswith("# TYPE ")]
        return {name: kind for _, _, name, kind in words}


def scrape(url: str, *, timeout_s: float = 5.0) -> Scrape:
    """Return the answer of a server to a scrape."""
    with urllib.request.urlopen(url, timeout=timeout_s) as answer:  # noqa: S310  # ours
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return Scrape(answer.read().decode())
