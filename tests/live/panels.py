"""Ask a live Prometheus what each panel and rule shows.

Is: Grafana's variables filled in, and the results with their legends. Is not: a judgement.
Above: the live test, `draw.py`. Below: `servers.py`, `tests/dashboards.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.dashboards import Panel, panels, rules
from tests.live.servers import Prometheus, Series

RATE_INTERVAL = "10s"
STEP_S = 1.0
SOURCES = ("builtin", "mcp", "extension")


@dataclass(frozen=True)
class Shown:
    """A panel with what it shows."""

    panel: Panel
    source: str
    """What a reader chose on the detail page; empty on the other."""
    results: tuple[tuple[str, str, tuple[Series, ...]], ...]
    """Legend, expression and series of each query."""

    @property
    def title(self) -> str:
        """The panel's, with the source."""
        return f"{self.panel.title} ({self.source})" if self.source else self.panel.title

    @property
    def lines(self) -> list[tuple[str, Series]]:
        """Every line with its legend filled in."""
        return [
            (_fill_legend(legend, series), series)
            for legend, _, found in self.results
            for series in found
        ]


def _fill_legend(legend: str, series: Series) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda match: series.labels.get(match[1], ""), legend)


def fill(expression: str, *, source: str, range_s: float) -> str:
    """Return an expression as Grafana would send it."""
    values = {
        "$__rate_interval": RATE_INTERVAL,
        "$__range": f"{max(int(range_s), 1)}s",
        "$job": "toolrail-.+",
        "$instance": ".+",
        "$source": source,
    }
    for name, value in values.items():
        expression = expression.replace(name, value)
    return expression


def show_panels(prometheus: Prometheus, start: float, end: float) -> list[Shown]:
    """Return every panel of both dashboards; those of the second once per source."""
    return [
        Shown(panel, source, tuple(_results(prometheus, panel, source, start, end)))
        for source in ("", *SOURCES)
        for panel in panels()
        if panel.board.endswith("source") == bool(source)
    ]


def _results(
    prometheus: Prometheus, panel: Panel, source: str, start: float, end: float
) -> Iterator[tuple[str, str, tuple[Series, ...]]]:
    for target in panel.targets:
        legend, expression = str(target["legendFormat"]), str(target["expr"])
        query = fill(expression, source=source, range_s=end - start)
        if panel.raw["type"] == "bargauge":
            found = prometheus.query(query, at=end)
        else:
            found = prometheus.query_range(query, start, end, STEP_S)
        yield legend, query, tuple(series for series in found if series.points)


def show_rules(prometheus: Prometheus, start: float, end: float) -> dict[str, list[Series]]:
    """Return what each recording rule recorded, and for each alert whether it ever was active."""
    found: dict[str, list[Series]] = {}
    for rule in rules():
        query = f'ALERTS{{alertname="{rule.name}"}}' if rule.is_alert else rule.name
        found[rule.name] = prometheus.query_range(query, start, end, STEP_S)
    return found
