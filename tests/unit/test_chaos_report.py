"""What the nemesis reports of a run that went wrong."""

import json
from pathlib import Path

from tests.chaos.checker import check
from tests.chaos.nemesis import Report, Round
from tests.chaos.records import Accepted, Answered, Event, Records

RUN = "run_a"
RECORDS = Records(
    journals={RUN: [Event(seq=1, type="tool_call_requested", at_ms=10, call_id="gone")]},
    accepted=[Accepted(RUN, "gone", True, 1_000), Accepted(RUN, "fine", True, 1_000)],
    answered=[Answered(RUN, "fine", "", 4_000)],
)


def test_a_lost_call_is_counted_for_its_fault_and_kept(tmp_path: Path) -> None:
    """The row of the fault says so; the file has the seed, the rule and the call's events."""
    rounds = [Round("worker SIGKILL", 2_000, 2_500), Round("partition", 100, 900)]
    report = Report(7, rounds, RECORDS, check(RECORDS), 1.0)
    rows = {row[0]: row[1:4] for row in report.rows()}
    kept = json.loads(report.keep(tmp_path).read_text(encoding="utf-8"))

    assert rows["worker SIGKILL"][:2] == (1, 2), "unanswered, and one accepted call not journaled"
    assert rows["partition"] == (1, 0, 0)
    assert kept["seed"] == 7
    assert any("gone" in violation for violation in kept["violations"])
    assert [event["call_id"] for event in kept["journals"][RUN]] == ["gone"]
