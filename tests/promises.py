"""Every promise of README.md, where it comes from and what is known to be missing.

Is: the list that `tests/unit/test_promises.py` keeps in step with README.md and with the tests that
carry `@promise("id")`. Is not: read by the product. Above: tests. Below: nothing.

To add one: a row here, a row in the README's table that ends in `<!-- promise: id -->` and links to
a test file, and `@promise("id")` on at least one test of that file.
"""

from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One thing users may rely on.

    Attributes:
        text: What holds, in the words of the README row.
        source: The page and section that demands it.
        gaps: What is known not to hold yet; empty when nothing is known.
    """

    text: str
    source: str
    gaps: str = ""


PROMISES: dict[str, Promise] = {
    "call.denied-never-queued": Promise(
        text="What policy denies reaches no queue; "
        "the model reads why, the journal keeps the reason.",
        source="semantics 3.7",
    ),
    "call.dispatched-once": Promise(
        text="The same call dispatched again starts once; "
        "other content under its id is a conflict.",
        source="DESIGN 2",
    ),
    "call.stale-result-refused": Promise(
        text="A worker that lost its lease cannot deliver a result.",
        source="DESIGN 2",
    ),
    "call.survives-its-worker": Promise(
        text="A call whose worker is killed finishes elsewhere if that is safe, "
        "and else says its outcome is unknown.",
        source="DESIGN 2, semantics 2.6",
    ),
    "call.survives-redis": Promise(
        text="A Redis that crashes and comes back with its append-only file has lost no call "
        "and doubles no unsafe effect.",
        source="issue 2, bad input; ops 4.4 row 15",
        gaps="The machine survives: what the kernel had in its cache reaches the file.",
    ),
    "call.never-unaccounted": Promise(
        text="Calls accepted are calls finished plus calls open, at every moment; "
        "`toolrail_calls_unaccounted` reads 0.",
        source="issue 3; ops 1.2",
    ),
    "call.unknown-not-repeated": Promise(
        text="An unknown outcome is not repeated without a person.",
        source="DESIGN 2",
    ),
    "approval.edited-is-checked": Promise(
        text="Arguments that a person edited are checked and judged like a model's; "
        "both digests are journaled.",
        source="DESIGN 2.3",
    ),
    "approval.by-the-right-person": Promise(
        text="Only names that the policy lists decide, and not about their own runs where it says "
        "so; a name is the word of whoever can write to Redis.",
        source="ops 5.2; issue 3, bad input",
        gaps="Nothing proves a name; identities come with the gateway.",
    ),
    "approval.shown-as-plain-text": Promise(
        text="What tools, servers and models write cannot act on an approver's terminal "
        "or pass for our words.",
        source="semantics 6",
        gaps="Letters of right-to-left scripts keep their direction within their own quotes.",
    ),
    "letter.redriven-once": Promise(
        text="A dead letter becomes one new call, however many operators ask; "
        "an unknown outcome none without a word for it.",
        source="DESIGN 2, issue 3",
    ),
    "letter.redriven-under-its-policy": Promise(
        text="A dead letter of a run that has ended is redriven under the policy of that run "
        "and that of whoever redrives; the stricter counts.",
        source="DESIGN 3; issue 3",
    ),
    "worker.drained-loses-nothing": Promise(
        text="A worker that is told to drain claims no call, finishes those it has, "
        "and loses and doubles none.",
        source="issue 3; ops 3.2",
    ),
    "metrics.shown-in-trouble": Promise(
        text="Metrics are shown while Redis is away or the loop blocked, "
        "and hold no word a model, tool or server made up.",
        source="issue 3; ops 1.4, 4.4 row 52",
    ),
    "budget.never-overshot": Promise(
        text="A budget is never overshot, however many calls race.",
        source="semantics 3.6",
    ),
    "approval.decided-once": Promise(
        text="A parked call is decided once, by one person or by the clock.",
        source="semantics 6",
    ),
    "journal.gapless-and-free-of-content": Promise(
        text="The journal has no gap, and no argument or result in it, "
        "beside the redacted summary for an approver.",
        source="semantics 2.1, 2.8",
    ),
    "secrets.kept-out": Promise(
        text="A secret that is known, marked or shaped like one stands in no journal, log, "
        "metric or approval.",
        source="issue 3, what must survive; ops 5.2",
        gaps="A secret in free text that nothing announces; see tooling/README.md, Secrets.",
    ),
    "journal.failure-stops-effects": Promise(
        text="When the journal cannot be written, no further effect of the run starts.",
        source="semantics 2.7",
    ),
    "lifecycle.scripts-agree": Promise(
        text="The scripts in Redis and the life cycle on paper are one machine.",
        source="DESIGN 2.2",
    ),
    "workspace.no-escape": Promise(
        text="No path leads out of a run's workspace.",
        source="semantics 5.1",
    ),
    "settings.refused-by-name": Promise(
        text="A wrong setting stops the start and is named with its fault and its fix.",
        source="house style, Config and Errors",
    ),
    "redis.nothing-leaks": Promise(
        text="Every Redis key expires after its run ends, or is on the permanent list.",
        source="DESIGN 2.1",
        gaps="Checked after every test that uses Redis; the test behind this row checks the check.",
    ),
    "redis.embedded-leaves-nothing": Promise(
        text="An embedded Redis ends with the process that started it, even one that was killed.",
        source="DESIGN 8",
        gaps="Linux only; on macOS it ends when its parent stops it.",
    ),
}


def promise(promise_id: str) -> pytest.MarkDecorator:
    """Mark a test as a proof of the promise."""
    return pytest.mark.promise(promise_id)
