"""Sort the ledger's counters by what they count.

Is: field names of the totals' hashes, turned into label values and buckets. Is not: reading them
(`reader.py`) or their metrics (`fleet.py`). Above: `fleet.py`. Below: nothing; the names are those
that `ledger/lua/_prelude.lua` writes.

A plain counter's field is `kind:label:label`; a duration's `kind:edge:label…`, with the upper edge
in ms, `inf`, or `ms` for the sum. Whoever names tools and rules may use colons, so those are last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Labels = tuple[str, ...]


@dataclass(slots=True)
class Durations:
    """How many durations ended in each bucket, not yet cumulated, and their sum.

    Attributes:
        counts: By upper edge, in ms; None is the last, which has no edge.
        sum_ms: Of all.
    """

    counts: dict[int | None, int] = field(default_factory=dict[int | None, int])
    sum_ms: int = 0

    def add(self, edge: str, value: int) -> None:
        """Take one field's value."""
        if edge == "ms":
            self.sum_ms += value
        elif edge == "inf" or edge.isdecimal():
            at = None if edge == "inf" else int(edge)
            self.counts[at] = self.counts.get(at, 0) + value

    def cumulated(self, edges_s: Sequence[float]) -> list[tuple[str, float]]:
        """Return (`le`, how many took at most so long) as Prometheus wants them.

        What was counted under an edge that is not among these, by another version, stands in the
        next one.
        """
        left = sorted((edge, count) for edge, count in self.counts.items() if edge is not None)
        total, at = 0, 0
        buckets: list[tuple[str, float]] = []
        for edge_s in edges_s:
            while at < len(left) and left[at][0] <= round(edge_s * 1000):
                total += left[at][1]
                at += 1
            buckets.append((str(edge_s), total))
        buckets.append(("+Inf", sum(self.counts.values())))
        return buckets


def counted(counters: Mapping[str, int], kind: str, labels: int) -> dict[Labels, int]:
    """Return the counters of a kind by their label values, of which there are `labels`."""
    head = kind + ":"
    found: dict[Labels, int] = {}
    for name, value in counters.items():
        if name.startswith(head):
            values = tuple(name[len(head) :].split(":", labels - 1))
            if len(values) == labels:
                found[values] = value
    return found


def timed(counters: Mapping[str, int], kind: str, labels: int) -> dict[Labels, Durations]:
    """Return the durations of a kind by their label values, of which there are `labels`."""
    found: dict[Labels, Durations] = {}
    for (edge, *values), value in counted(counters, kind, labels + 1).items():
        found.setdefault(tuple(values), Durations()).add(edge, value)
    return found


def finished_by_tool(tools: Mapping[str, int]) -> dict[Labels, int]:
    """Return finished calls by (source, tool, outcome)."""
    found: dict[Labels, int] = {}
    for (edge, outcome, source, tool), value in counted(tools, "ran", 4).items():
        if edge != "ms":
            key = (source, tool, outcome)
            found[key] = found.get(key, 0) + value
    return found


def ran_by_tool(tools: Mapping[str, int]) -> dict[Labels, Durations]:
    """Return how long workers ran calls, by (source, tool); tools that never ran have nothing."""
    found: dict[Labels, Durations] = {}
    for (edge, _, source, tool), value in counted(tools, "ran", 4).items():
        found.setdefault((source, tool), Durations()).add(edge, value)
    return found
