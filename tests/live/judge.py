"""Judge a live run: does every panel and rule say something, and is it true.

Is: one row per claim, with what was seen. Is not: the run. Above: `python -m tests.live`.
Below: `panels.py`, the ledger's totals, the journals.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from tests.dashboards import alerts
from tests.live.faults import ledger_client
from tests.live.panels import SOURCES, Shown, show_rules
from tests.live.servers import Series
from tests.live.world import World
from toolrail.keys import Keys
from toolrail.ledger.reader import LedgerReader
from toolrail.redis_io import command
from toolrail_schemas import CALL_TERMINAL_EVENTS, EventType

CALM = frozenset(
    {
        "Alerts firing: pages",
        "Alerts firing: warnings",
        "Calls unaccounted: calls",
        "Refused before the ledger: {{reason}}",
        "Ledger events that are wrong: calls unaccounted",
        "Approvals waiting: {{source}}",
        "Oldest approval: {{source}}",
        "Decisions: {{decision}}",
        "Budget refusals, redactions: budget per {{cap}}",
        "Redis errors: {{kind}}",
        "Attempts started: {{kind}}",
        "Leases, doorbells, late results: lease expired",
        "Leases, doorbells, late results: doorbell re-rung",
        "Leases, doorbells, late results: late result",
        "Dead letters: unhandled",
        "Dead letters: new in 15 min",
        "Restarts: {{server}} {{reason}}",
        "Tool lists changed: {{server}}",
        "Extension sessions ended: {{extension}} {{reason}}",
    }
)
"""Lines that are empty or 0 while all is well."""
ZERO = {
    "Ledger events that are wrong: journal append refused, in an hour": "no fault makes it refuse",
    "Evicted keys, admission: evicted in an hour": "Redis has the policy noeviction",
}
"""Lines that are 0 even after all faults, and why."""
SOMETIMES = frozenset({"Failing tools"})
"""Panels that may be empty for a source; the script makes only some of its tools fail."""


@dataclass(frozen=True)
class Finding:
    """One claim."""

    claim: str
    holds: bool
    seen: str


def judge_panels(shown: Sequence[Shown], calm: float) -> Iterator[Finding]:
    """Every query of every panel has finite data: 0 in the calm if it tells of trouble, then not.

    Args:
        shown: The panels with their results.
        calm: When the faults began.
    """
    lines: dict[str, list[Series]] = {}
    for one in shown:
        for legend, _, found in one.results:
            lines.setdefault(f"{one.panel.title}: {legend}", []).extend(found)
    empty = [name for name, found in lines.items() if not found]
    yield _none("every query of every panel has data", empty, of=len(lines))
    endless = [name for name, found in lines.items() if any(map(_is_endless, found))]
    yield _none("no query is ever infinite", endless, of=len(lines))
    silent = [
        name
        for name, found in lines.items()
        if found and name not in ZERO and max(series.peak for series in found) == 0
    ]
    yield _none("after the faults, every query was other than 0", silent, of=len(lines))
    loud = [name for name in CALM if any(_is_loud(series, calm) for series in lines[name])]
    yield _none("before them, those that tell of trouble were 0", loud, of=len(CALM))
    lacking = [
        f"{one.title}: {legend}"
        for one in shown
        for legend, query, found in one.results
        if one.source and "source=" in query and not found and one.panel.title not in SOMETIMES
    ]
    yield _none(f"those about a source have data for all {len(SOURCES)}", lacking, of=len(lines))


def _is_endless(series: Series) -> bool:
    return any(math.isinf(value) for _, value in series.points)


def _is_loud(series: Series, calm: float) -> bool:
    # Attempts happen in any weather, and scripts are loaded at their first use.
    if series.labels.get("kind") in ("first", "noscript"):
        return False
    return any(value for at, value in series.points if at < calm)


def judge_rules(world: World, start: float, end: float, fired: set[str]) -> Iterator[Finding]:
    """Every recording rule recorded; alerts fired that were to, and none fires at the end."""
    found = show_rules(world.prometheus, start, end)
    names = {alert.name for alert in alerts()}
    empty = [name for name, series in found.items() if name not in names and not series]
    yield _none("every recording rule has data", empty, of=len(found) - len(names))
    active = {
        name
        for name in names
        if any(series.labels["alertstate"] == "firing" for series in found[name])
    }
    yield _none("every alert that was to fire fired", sorted(fired - active), of=len(fired))
    yield _none("and no other", sorted(active - fired), of=len(names))


async def judge_truth(world: World) -> list[Finding]:
    """What Prometheus says, what the ledger counts and what the journals tell is the same."""
    counted = await _ledger(world)
    told = await _journals(world)
    prometheus = world.prometheus
    seen = {
        kind: {
            "|".join(series.labels[label] for label in labels): int(series.last)
            for series in prometheus.query(f"sum by ({', '.join(labels)}) ({metric})")
            if series.last
        }
        for kind, metric, labels in (
            ("accepted", "toolrail_calls_accepted_total", ["source"]),
            ("finished", "toolrail_calls_finished_total", ["source", "outcome"]),
            ("attempts", "toolrail_call_attempts_total", ["source", "kind"]),
        )
    }
    accepted, finished = sum(seen["accepted"].values()), sum(seen["finished"].values())
    started = sum(seen["attempts"].values())
    return [
        *(
            Finding(
                f"{kind}: Prometheus and ledger agree",
                seen[kind] == counted[kind],
                _many(seen[kind]),
            )
            for kind in seen
        ),
        Finding(
            "accepted = requested in the journals", accepted == told["requested"], str(accepted)
        ),
        Finding("finished = outcomes in the journals", finished == told["ended"], str(finished)),
        Finding("attempts = starts in the journals", started == told["started"], str(started)),
        Finding("accepted = finished, for nothing is open", accepted == finished, str(finished)),
    ]


async def _ledger(world: World) -> dict[str, dict[str, int]]:
    async with ledger_client(world) as client:
        reader = LedgerReader(client, prefix=world.settings.key_prefix, deadline_s=5.0)
        totals = await reader.totals()
    counted: dict[str, dict[str, int]] = {"accepted": {}, "finished": {}, "attempts": {}}
    for name, value in totals.items():
        kind, *labels = name.split(":")
        if kind in counted and value:
            counted[kind]["|".join(labels)] = value
    return counted


async def _journals(world: World) -> Counter[str]:
    told: Counter[str] = Counter()
    async with ledger_client(world) as client:
        key = Keys(world.settings.key_prefix).journal_all
        entries = cast(
            "list[tuple[str, dict[str, str]]]", await command(client, "XRANGE", key, "-", "+")
        )
    for _, fields in entries:
        kind = fields["type"]
        told["requested"] += kind == EventType.TOOL_CALL_REQUESTED
        told["started"] += kind == EventType.TOOL_CALL_STARTED
        told["ended"] += kind in CALL_TERMINAL_EVENTS
    return told


def judge_pages(world: World, paged: Sequence[str]) -> Iterator[Finding]:
    """A page arrives once, and its end once; a warning wakes nobody."""
    for name in paged:
        on, off = world.receiver.told(name, "firing"), world.receiver.told(name, "resolved")
        yield Finding(
            f"{name} paged once and was resolved once", on == off == ["page"], f"{on}, {off}"
        )
    warned = {alert.name for alert in alerts() if alert.severity == "warn"}
    wrong = [name for name in warned if "page" in world.receiver.told(name, "firing")]
    yield _none("no warning went to the pager", wrong, of=len(warned))


def _none(claim: str, wrong: Sequence[object], *, of: int) -> Finding:
    return Finding(
        claim, not wrong, f"{of - len(wrong)} of {of}" + "".join(f"\n    {one}" for one in wrong)
    )


def _many(numbers: dict[str, int]) -> str:
    return f"{sum(numbers.values())} in {len(numbers)} series"
