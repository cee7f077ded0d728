"""The checker of the chaos tests finds every kind of harm, and none where there is none.

Is: one sound history, and one that is broken for each rule. Is not: a run of anything.
Above: nothing. Below: `tests/chaos/checker.py`.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.checker import Rule, check
from tests.chaos.records import Accepted, Answered, Effect, Event, Histories, Records, write_effect

RUN = "run_a"
STARTED, STORED = "tool_call_started", "tool_result_stored"
COMPLETED, FAILED = "tool_call_completed", "tool_call_failed"


def journal(*steps: tuple[str, str, int, str], first: int = 1) -> list[Event]:
    """Return events of (call, kind, attempt, error code), 10 ms apart."""
    return [
        Event(
            seq=seq,
            type=kind,
            at_ms=seq * 10,
            call_id=call,
            name="effects.once" if call else "",
            attempt=attempt,
            error_code=code,
        )
        for seq, (call, kind, attempt, code) in enumerate(steps, start=first)
    ]


SOUND = Records(
    journals={
        RUN: journal(
            ("", "run_created", 0, ""),
            ("once", "tool_call_requested", 0, ""),
            ("again", "tool_call_requested", 0, ""),
            ("once", STARTED, 1, ""),
            ("again", STARTED, 1, ""),
            ("once", STORED, 0, ""),
            ("once", COMPLETED, 0, ""),
            ("again", "tool_attempt_lost", 1, ""),
            ("again", STARTED, 2, ""),
            ("again", STORED, 0, ""),
            ("again", COMPLETED, 0, ""),
            ("again", "tool_result_late", 0, ""),
            ("asked", "tool_call_requested", 0, ""),
            ("asked", "tool_call_awaiting_approval", 0, ""),
            ("asked", "tool_call_approved", 0, ""),
            ("asked", STARTED, 1, ""),
            ("asked", STORED, 0, ""),
            ("asked", FAILED, 0, "tool.outcome_unknown"),
            ("", "run_completed", 0, ""),
        )
    },
    accepted=[
        Accepted(RUN, "once", False, 20),
        Accepted(RUN, "again", True, 30),
        Accepted(RUN, "asked", False, 130),
    ],
    answered=[
        Answered(RUN, "once", "", 70),
        Answered(RUN, "again", "", 110),
        Answered(RUN, "asked", "tool.outcome_unknown", 180),
    ],
    effects=[Effect("once", 45, 1), Effect("again", 55, 1), Effect("again", 95, 2)],
)


def with_events(change: Callable[[list[Event]], list[Event]]) -> Records:
    """Return the sound history with another journal, numbered anew."""
    changed = change(list(SOUND.journals[RUN]))
    numbered = [replace(event, seq=seq) for seq, event in enumerate(changed, start=1)]
    return replace(SOUND, journals={RUN: numbered})


def without(call: str, kind: str) -> Records:
    """Return the sound history without one kind of event of a call."""
    return with_events(lambda events: [e for e in events if (e.call_id, e.type) != (call, kind)])


def with_event(call: str, kind: str, *, attempt: int = 0, code: str = "") -> Records:
    """Return the sound history with one more event at its end."""
    more = journal((call, kind, attempt, code), first=99)
    return with_events(lambda events: [*events, *more])


def with_effect(call: str, at_ms: int) -> Records:
    """Return the sound history with one more effect."""
    return replace(SOUND, effects=[*SOUND.effects, Effect(call, at_ms, 3)])


BROKEN: dict[str, tuple[Rule, Records]] = {
    "gap": (
        Rule.GAPLESS,
        replace(SOUND, journals={RUN: [e for e in SOUND.journals[RUN] if e.seq != 6]}),
    ),
    "journal that begins at 2": (
        Rule.GAPLESS,
        replace(SOUND, journals={**SOUND.journals, "run_b": journal(("", "x", 0, ""), first=2)}),
    ),
    "no end": (Rule.ONE_END, without("once", COMPLETED)),
    "two ends": (Rule.ONE_END, with_event("once", FAILED)),
    "started after its end": (Rule.END_IS_LAST, with_event("once", STARTED, attempt=2)),
    "never requested": (Rule.IN_ORDER, without("once", "tool_call_requested")),
    "started unapproved": (Rule.IN_ORDER, without("asked", "tool_call_approved")),
    "completed unstarted": (Rule.IN_ORDER, without("once", STARTED)),
    "started twice": (
        Rule.ONE_ATTEMPT,
        with_events(lambda events: [*events[:6], events[4], *events[6:]]),
    ),
    "loss not journaled": (Rule.ONE_ATTEMPT, without("again", "tool_attempt_lost")),
    "unrepeatable tool repeated": (
        Rule.ONE_ATTEMPT,
        replace(SOUND, accepted=[replace(each, repeatable=False) for each in SOUND.accepted]),
    ),
    "effect before start": (Rule.NO_EARLY_EFFECT, with_effect("asked", 150)),
    "effect without start": (Rule.NO_EARLY_EFFECT, with_effect("again", 200)),
    "effect of nobody's call": (Rule.NO_UNASKED_EFFECT, with_effect("made up", 50)),
    "second effect": (Rule.NO_SECOND_EFFECT, with_effect("once", 46)),
    "completed without effect": (Rule.NO_MISSING_EFFECT, replace(SOUND, effects=SOUND.effects[1:])),
    "accepted and not journaled": (
        Rule.NOTHING_LOST,
        replace(SOUND, accepted=[*SOUND.accepted, Accepted(RUN, "gone", True, 1)]),
    ),
    "unanswered": (Rule.ALL_ANSWERED, replace(SOUND, answered=SOUND.answered[1:])),
    "refused and done": (
        Rule.HONEST_FAILURE,
        replace(
            with_events(
                lambda events: [
                    replace(e, error_code="extension.unavailable") if e.type == FAILED else e
                    for e in events
                ]
            ),
            effects=[*SOUND.effects, Effect("asked", 165, 3)],
        ),
    ),
    "two answers": (
        Rule.TRUE_ANSWER,
        replace(SOUND, answered=[*SOUND.answered, Answered(RUN, "once", "tool.timeout", 80)]),
    ),
    "answer that is not the outcome": (
        Rule.TRUE_ANSWER,
        replace(SOUND, answered=[replace(each, error_code="") for each in SOUND.answered]),
    ),
}


def test_a_sound_history_has_no_violation() -> None:
    """A retried attempt, its late result and an honest unknown outcome are no harm."""
    assert check(SOUND, caps={"effects.once": 3}) == []


@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_history_is_found(name: str) -> None:
    """Each has one fault, and the rule that forbids it is named."""
    rule, records = BROKEN[name]

    assert rule in {violation.rule for violation in check(records)}


def test_a_budget_that_was_overshot_is_found() -> None:
    """Three calls started, and there were two units."""
    [violation] = check(SOUND, caps={"effects.once": 2})

    assert violation.rule is Rule.BUDGET_HELD


def test_every_rule_has_a_broken_history() -> None:
    """A rule that nothing breaks may check nothing."""
    assert {rule for rule, _ in BROKEN.values()} | {Rule.BUDGET_HELD} == set(Rule)


def test_what_is_written_down_is_read_again(tmp_path: Path) -> None:
    """Clients and tools write from many processes, a line each."""
    histories = Histories(tmp_path)
    histories.accepted(RUN, "c1", repeatable=True)
    histories.answered(RUN, "c1", None)
    write_effect(histories.effects_file, "c1")
    records = histories.read({RUN: []})

    assert [each.call_id for each in records.accepted] == ["c1"]
    assert [(each.call_id, each.error_code) for each in records.answered] == [("c1", "")]
    assert [each.call_id for each in records.effects] == ["c1"]
