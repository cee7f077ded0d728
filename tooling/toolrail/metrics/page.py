"""Hold the text of the exporter's `/metrics`, made when something is new and not when it is asked.

Is: text and readiness of one moment, given to any thread at once. Is not: a server (`serve.py`) or
a reading (`reader.py`). Above: `exporter.py`. Below: `fleet.py`, prometheus_client.

Five hundred tools are more than 13,000 lines, which take prometheus_client longer to write than a
scrape may take; so they are written here, and again only when their counters have changed. It is
the plain text format, which every Prometheus reads; exemplars, which it lacks, the ledger has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from toolrail.metrics.fleet import cell_families, tool_families
from toolrail.metrics.reading import Reading

NEVER_READ = "Redis has not been read yet."
DOWN = "Redis cannot be read; what is shown is old."


@dataclass(frozen=True, slots=True)
class _Shown:
    """One moment; replaced as a whole, since other threads look at it."""

    reading: Reading | None
    problem: str | None
    text: bytes


class Page:
    """What the exporter shows. One thread changes it, any may look."""

    def __init__(self, *beside: Collector) -> None:
        """Show that nothing was read yet.

        Args:
            beside: Shown as well, each time as they are.
        """
        self._beside = beside
        self._tools: tuple[Mapping[str, int] | None, bytes] = (None, b"")
        self._shown = self._made(None, NEVER_READ)

    def text(self) -> bytes:
        """Return the text of now."""
        return self._shown.text

    def problem(self) -> str | None:
        """Return why what is shown is not of now, or None."""
        return self._shown.problem

    def show(self, reading: Reading) -> None:
        """The reading is shown, and Redis is up."""
        self._shown = self._made(reading, None)

    def show_down(self) -> None:
        """Redis is down; the last reading stays, and so does its time."""
        reading = self._shown.reading
        self._shown = self._made(reading, NEVER_READ if reading is None else DOWN)

    def _made(self, reading: Reading | None, problem: str | None) -> _Shown:
        parts = [_text(cell_families(reading, is_up=problem is None))]
        if reading is not None:
            # A reader gives the same mapping again as long as nothing in it has changed.
            if self._tools[0] is not reading.tools:
                self._tools = (reading.tools, _text(tool_families(reading.tools)))
            parts.append(self._tools[1])
        parts += [generate_latest(collector) for collector in self._beside]
        return _Shown(reading, problem, b"".join(parts))


class _Families(Collector):
    """Families that are there already."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        """Return them."""
        return self._families


def _text(families: Iterable[Family]) -> bytes:
    return generate_latest(_Families(families))
