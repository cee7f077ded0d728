"""What was promised and what was seen.

Is: one row per promise, and the checks that need a whole journal or all totals. Is not: the
script that brings them about (`agent.py`).
Above: `agent.py`, `show.py`. Below: `toolrail.ledger`, `toolrail_schemas`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolrail.ledger import unaccounted
from toolrail_schemas import CALL_TERMINAL_EVENTS, EventType, JournalEvent, UnknownEvent


@dataclass(frozen=True)
class Finding:
    """One row of the table."""

    promise: str
    seen: str
    holds: bool


def check_journal(name: str, events: Sequence[JournalEvent | UnknownEvent]) -> list[Finding]:
    """Return the rows that hold for the journal of any run that has ended."""
    numbers = [event.seq for event in events]
    gapless = numbers == list(range(1, len(numbers) + 1))
    asked = _calls(events, frozenset({EventType.TOOL_CALL_REQUESTED}))
    ended = _calls(events, CALL_TERMINAL_EVENTS)
    once = asked == ended and set(ended.values()) <= {1}
    return [
        Finding(
            f"The journal of the {name} run has no gap.",
            f"events 1 to {len(numbers)}" if gapless else f"numbers {numbers}",
            gapless,
        ),
        Finding(
            f"Every call of the {name} run has exactly one outcome.",
            f"{ended.total()} outcomes of {asked.total()} calls",
            once,
        ),
    ]


def check_books(totals: Mapping[str, int]) -> Finding:
    """Return the row about the ledger's counters, at the end of everything.

    Args:
        totals: As `LedgerReader.totals` gives them.
    """
    sums = Counter[str]()
    for name, value in totals.items():
        sums[name.partition(":")[0]] += value
    seen = f"{sums['accepted']} accepted, {sums['finished']} finished, {sums['open']} open"
    lost = unaccounted(totals)
    return Finding(
        "No call is unaccounted for: accepted = finished + open.",
        seen if lost == 0 else f"{seen}: {lost} calls were lost or doubled",
        lost == 0 and sums["accepted"] > 0,
    )


def _calls(
    events: Sequence[JournalEvent | UnknownEvent], types: frozenset[EventType]
) -> Counter[str]:
    return Counter(str(event.payload.get("call_key")) for event in events if event.type in types)
