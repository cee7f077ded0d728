"""Hold the counters of one call's life against what the pure life cycle knows of it.

Is: what each life must have counted. Is not: how it was lived
(`tests/integration/test_ledger_machine.py`). Above: that test. Below: `tests/totals.py`.
"""

from collections import Counter
from collections.abc import Sequence

from tests.totals import Totals
from toolrail.ledger import unaccounted
from toolrail_schemas.lifecycle import Answer, CallRecord

OUTCOMES = {
    None: "ok",
    "tool.execution_failed": "tool_error",
    "tool.not_found": "tool_error",
    "tool.cancelled": "cancelled",
    "tool.timeout": "timeout",
    "tool.worker_lost": "lost",
    "tool.outcome_unknown": "lost",
    "tool.dead_lettered": "lost",
    "approval.denied": "denied",
    "approval.expired": "approval_expired",
    "policy.denied": "denied",
}


def check_totals(
    grown: Totals,
    record: CallRecord,
    kinds: Sequence[str],
    *,
    ran_to_its_end: bool,
) -> None:
    """The counters tell of the one call what the model knows of it.

    Args:
        grown: By what the counters grew since before the call.
        record: How it ended, or where it stands.
        kinds: Its events.
        ran_to_its_end: A worker's result was taken.
    """
    started = kinds.count("tool_call_started")
    ended = {OUTCOMES[record.error_code]} if record.is_terminal else set[str]()
    waits = {} if record.is_terminal else {f"builtin:{record.state.value}": 1}

    assert unaccounted(grown.plain) == 0
    assert grown.open_calls() == waits
    assert grown.of("accepted") == {"builtin": 1}
    assert grown.of("finished") == {f"builtin:{outcome}": 1 for outcome in ended}
    assert grown.ran() == {f"{outcome}:builtin:demo.echo": 1 for outcome in ended}
    assert sum(grown.ran(to_its_end=True).values()) == ran_to_its_end
    assert grown.observed("took") == len(ended)
    assert grown.observed("wait") == sum(grown.of("attempts").values()) == started
    assert sum(grown.of("late").values()) == kinds.count("tool_result_late")
    assert grown.of("approval") == _approval(record, kinds)


def _approval(record: CallRecord, kinds: Sequence[str]) -> dict[str, int]:
    words = ["asked"] * kinds.count("tool_call_awaiting_approval")
    words += ["approved"] * kinds.count("tool_call_approved")
    if record.answer in {Answer.DENIED, Answer.EXPIRED, Answer.CANCELLED}:
        words.append(record.answer.value)
    return {f"builtin:{word}": n for word, n in Counter(words).items()}
