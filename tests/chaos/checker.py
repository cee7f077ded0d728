"""Judge what happened from the journals, the clients' histories and the effects alone.

Is: the rules that no fault may break, each with a name. Is not: anything that asks the ledger, a
worker or a counter: those may be wrong in the same way as what they count. Above: tests of faults,
the nemesis. Below: `records.py`; `tests/unit/test_chaos_checker.py` breaks each rule once.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tests.chaos.records import Accepted, Answered, Effect, Event, Records

CLOCK_MS = 2
"""Redis and Python cut the same clock to milliseconds, each its own way."""
STARTED, LOST = "tool_call_started", "tool_attempt_lost"
LATE = "tool_result_late"
ENDS = frozenset({"tool_call_completed", "tool_call_failed", "tool_call_denied"})


class Rule(StrEnum):
    """What must hold."""

    GAPLESS = "a journal counts from 1 without a gap"
    ONE_END = "a call has one terminal event"
    END_IS_LAST = "after its end a call has no event but late results"
    IN_ORDER = "a call is requested, permitted, started and only then completed"
    ONE_ATTEMPT = "an attempt starts once, and the next one after a loss was journaled"
    NO_EARLY_EFFECT = "an effect comes after its start was journaled"
    NO_UNASKED_EFFECT = "an effect belongs to a journaled call"
    NO_SECOND_EFFECT = "a tool that may not run twice has one effect"
    NO_MISSING_EFFECT = "a completed call had its effect"
    NOTHING_LOST = "an accepted call is in its run's journal"
    ALL_ANSWERED = "an accepted call is answered"
    TRUE_ANSWER = "every answer is the journaled outcome"
    HONEST_FAILURE = "a failure that says nothing happened had no effect"
    BUDGET_HELD = "no more calls start than the budget has units"


NOTHING_HAPPENED = re.compile(
    r"mcp\.server_unavailable|extension\.unavailable|tool\.not_found|tool\.spec_changed"
    r"|tool\.(run|turn)?_?budget_exhausted|tool\.invalid_arguments|policy\..+|approval\..+"
)
"""Codes after which a model may well try again."""
LOSSES = frozenset({Rule.NOTHING_LOST, Rule.ALL_ANSWERED, Rule.NO_MISSING_EFFECT})
DOUBLES = frozenset({Rule.ONE_END, Rule.NO_SECOND_EFFECT, Rule.ONE_ATTEMPT, Rule.HONEST_FAILURE})


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that was broken."""

    rule: Rule
    run_id: str
    call_id: str
    words: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.run_id} {self.call_id}: {self.words}"


@dataclass(slots=True)
class Story:
    """All there is about one call."""

    run_id: str
    call_id: str
    events: list[Event] = field(default_factory=list[Event])
    effects: list[Effect] = field(default_factory=list[Effect])
    accepted: list[Accepted] = field(default_factory=list[Accepted])
    answers: list[Answered] = field(default_factory=list[Answered])

    def of(self, *types: str) -> list[Event]:
        """Return the events of some types."""
        return [event for event in self.events if event.type in types]

    @property
    def ends(self) -> list[Event]:
        """Return the terminal events; there should be one."""
        return [event for event in self.events if event.type in ENDS]

    def broken(self, rule: Rule, words: str) -> Violation:
        """Return a violation of this call."""
        return Violation(rule, self.run_id, self.call_id, words)


def check(records: Records, *, caps: Mapping[str, int] | None = None) -> list[Violation]:
    """Return every rule that was broken; everything must be at rest.

    Args:
        records: Of all runs and clients of a test.
        caps: Units per run of the tools that have a budget.
    """
    found: list[Violation] = []
    for run_id, events in records.journals.items():
        found += _check_run(run_id, events, caps or {})
    stories, strays = _stories(records)
    found += strays
    for story in stories:
        for rule in (_ends, _order, _attempts, _effects, _promises, _answers):
            found += rule(story)
    return found


def _stories(records: Records) -> tuple[list[Story], list[Violation]]:
    stories: dict[str, Story] = {}

    def story(run_id: str, call_id: str) -> Story:
        return stories.setdefault(call_id, Story(run_id, call_id))

    for run_id, events in records.journals.items():
        for event in events:
            if event.call_id:
                story(run_id, event.call_id).events.append(event)
    for accepted in records.accepted:
        story(accepted.run_id, accepted.call_id).accepted.append(accepted)
    for answer in records.answered:
        story(answer.run_id, answer.call_id).answers.append(answer)
    strays: list[Violation] = []
    for effect in sorted(records.effects, key=lambda effect: effect.at_ms):
        if effect.call_id in stories:
            stories[effect.call_id].effects.append(effect)
        else:
            words = f"process {effect.pid} had an effect for a call nobody made"
            strays.append(Violation(Rule.NO_UNASKED_EFFECT, "", effect.call_id, words))
    return list(stories.values()), strays


def _check_run(
    run_id: str, events: Sequence[Event], caps: Mapping[str, int]
) -> Iterator[Violation]:
    for place, event in enumerate(events, start=1):
        if event.seq != place:
            yield Violation(Rule.GAPLESS, run_id, "", f"event {place} has the number {event.seq}")
            break
    started: dict[str, set[str]] = defaultdict(set)
    for event in events:
        if event.type == STARTED:
            started[event.name].add(event.call_id)
    for name, cap in caps.items():
        if len(started[name]) > cap:
            words = f"{len(started[name])} calls of {name} started, with {cap} units"
            yield Violation(Rule.BUDGET_HELD, run_id, "", words)


def _ends(story: Story) -> Iterator[Violation]:
    ends = story.ends
    if story.events and len(ends) != 1:
        yield story.broken(Rule.ONE_END, f"it has {[end.type for end in ends]}")
    if ends:
        after = [e.type for e in story.events if e.seq > ends[0].seq and e.type not in {LATE}]
        if [kind for kind in after if kind not in ENDS]:
            yield story.broken(Rule.END_IS_LAST, f"after {ends[0].type} came {after}")


def _order(story: Story) -> Iterator[Violation]:
    kinds = [event.type for event in story.events]
    if kinds and kinds[0] != "tool_call_requested":
        yield story.broken(Rule.IN_ORDER, f"it begins with {kinds[0]}")
    for event in story.events:
        before = [other.type for other in story.events if other.seq < event.seq]
        asked = "tool_call_awaiting_approval" in before
        if event.type == STARTED and asked and "tool_call_approved" not in before:
            yield story.broken(Rule.IN_ORDER, "it started and nobody had approved it")
        if event.type == "tool_call_completed" and STARTED not in before:
            yield story.broken(Rule.IN_ORDER, "it completed and never started")


def _attempts(story: Story) -> Iterator[Violation]:
    expected, free = 1, True
    for event in story.of(STARTED, LOST):
        if event.type == LOST:
            expected, free = expected + 1, True
            continue
        if not free or event.attempt != expected:
            yield story.broken(Rule.ONE_ATTEMPT, f"attempt {event.attempt} started out of turn")
        free = False
    if len(story.of(STARTED)) > 1 and _runs_once(story):
        yield story.broken(Rule.ONE_ATTEMPT, "a tool that may not run twice was started again")


def _effects(story: Story) -> Iterator[Violation]:
    starts = story.of(STARTED)
    for place, effect in enumerate(story.effects):
        if place >= len(starts):
            words = f"effect {place + 1} had {len(starts)} starts"
            yield story.broken(Rule.NO_EARLY_EFFECT, words)
        elif effect.at_ms + CLOCK_MS < starts[place].at_ms:
            early_ms = starts[place].at_ms - effect.at_ms
            yield story.broken(Rule.NO_EARLY_EFFECT, f"effect {place + 1} came {early_ms} ms early")
    if len(story.effects) > 1 and _runs_once(story):
        pids = [effect.pid for effect in story.effects]
        yield story.broken(Rule.NO_SECOND_EFFECT, f"{len(pids)} effects, in processes {pids}")


def _promises(story: Story) -> Iterator[Violation]:
    if not story.accepted:
        return
    if not story.events:
        yield story.broken(Rule.NOTHING_LOST, "it was accepted, and its run does not know it")
    if not story.answers:
        kinds = [event.type for event in story.events]
        yield story.broken(Rule.ALL_ANSWERED, f"its client waits, and its journal says {kinds}")
    if [end.type for end in story.ends] == ["tool_call_completed"] and not story.effects:
        yield story.broken(Rule.NO_MISSING_EFFECT, "it completed and did nothing")
    codes = {end.error_code for end in story.ends if NOTHING_HAPPENED.fullmatch(end.error_code)}
    if codes and story.effects:
        yield story.broken(Rule.HONEST_FAILURE, f"{sorted(codes)}, and there was an effect")


def _answers(story: Story) -> Iterator[Violation]:
    told = {answer.error_code for answer in story.answers}
    # What a denied call answers has its code in the result alone.
    truth = {end.error_code for end in story.ends if end.type != "tool_call_denied"}
    if truth and told - truth:
        yield story.broken(Rule.TRUE_ANSWER, f"answered {sorted(told)}, journaled {sorted(truth)}")


def _runs_once(story: Story) -> bool:
    return any(not accepted.repeatable for accepted in story.accepted)
