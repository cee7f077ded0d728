"""The life of a call keeps its promises under every order of events.

Is: a Hypothesis state machine over `step`, judged by the journal it writes. Is not: single
transitions (`test_lifecycle_*.py`) or the Lua scripts (`tests/integration`).
Below: `toolrail_schemas.lifecycle`.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from toolrail_schemas import EventType
from toolrail_schemas.events import CALL_TERMINAL_EVENTS
from toolrail_schemas.lifecycle import (
    Approve,
    Ask,
    CallRecord,
    CallState,
    Cancel,
    Claim,
    DeadlinePassed,
    Decision,
    Deny,
    Dispatch,
    Effect,
    Enqueue,
    Entry,
    Event,
    ExpireApproval,
    Finish,
    LeaseExpired,
    NotifyInbox,
    Outcome,
    Refusal,
    RefusalReason,
    Refuse,
    Reject,
    Renew,
    Repeat,
    ReserveUnit,
    ReturnUnit,
    RingDoorbell,
    step,
)

LEASE_MS = 1000
DEADLINE_MS = 6000
NEAR = st.sampled_from([0, 0, 0, 0, -1, 1])
"""How far a fence or an attempt is from the present one: mostly right, else nothing gets deep."""
REPEATS = st.sampled_from([False, False, True])
"""Whether an equal call was lost; mostly not, else nothing starts."""
DIGESTS = st.sampled_from(["a", "b"])
DECISIONS: st.SearchStrategy[Decision] = st.one_of(
    st.just(Enqueue()),
    st.just(Enqueue()),
    st.just(Ask(expires_ms=10_000)),
    st.builds(Ask, expires_ms=st.integers(1, 3000)),
    st.just(Enqueue(over_budget=True)),
    st.builds(Refuse, fail_run=st.booleans()),
    st.builds(Reject, error_code=st.just("tool.invalid_arguments")),
)


class CallLife(RuleBasedStateMachine):
    """Throw any event at a call at any time and read its journal like an auditor.

    Events that end a call come only at some instants, so that most lives get long.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.record = CallRecord()
        self.journal: list[Entry] = []
        self.effects: list[Effect] = []
        self.journal_at_cancel: int | None = None

    def take(self, event: Event) -> Outcome | Refusal:
        before, answer = self.record, step(self.record, event)
        assert step(before, event) == answer, "step is not a pure function"
        if before.is_terminal:
            assert not isinstance(answer, Outcome) or answer == Outcome(record=before)
            assert answer.record.state is before.state
            assert answer.record.result_sha256 == before.result_sha256
        if isinstance(answer, Refusal):
            assert answer.record.state is before.state
            assert [e.type for e in answer.journal] in ([], [EventType.TOOL_RESULT_LATE])
        else:
            self.effects += answer.effects
        assert answer.record.fence >= before.fence
        self.record = answer.record
        self.journal += answer.journal
        return answer

    @rule(ms=st.sampled_from([1, LEASE_MS // 2, LEASE_MS, LEASE_MS, 3000]))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @initialize(
        decision=DECISIONS,
        retry_safe=st.sampled_from([True, True, False]),
        most=st.integers(1, 3),
        run_open=st.sampled_from([True, True, True, False]),
    )
    def begin(self, decision: Decision, *, retry_safe: bool, most: int, run_open: bool) -> None:
        self.take(
            Dispatch(
                now_ms=self.now,
                digest="a",
                decision=decision,
                deadline_ms=DEADLINE_MS,
                retry_safe=retry_safe,
                max_attempts=most,
                args_sha256="args",
                spec_hash="spec",
                run_open=run_open,
            )
        )

    @rule(digest=DIGESTS)
    def dispatch_again(self, digest: str) -> None:
        before = self.record
        answer = self.take(
            Dispatch(now_ms=self.now, digest=digest, decision=Enqueue(), deadline_ms=DEADLINE_MS)
        )
        if before.state is not CallState.REQUESTED:
            assert isinstance(answer, Outcome) == (before.digest == digest)
            assert self.record == before

    @rule(args=st.sampled_from(["args", "other"]), edited=st.sampled_from([None, "edited"]))
    def approve(self, args: str, edited: str | None) -> None:
        self.take(
            Approve(now_ms=self.now, args_sha256=args, spec_hash="spec", edited_args_sha256=edited)
        )

    @precondition(lambda self: self.now % 2 == 1)
    @rule()
    def deny(self) -> None:
        self.take(Deny(now_ms=self.now))

    @rule()
    def expire(self) -> None:
        self.take(ExpireApproval(now_ms=self.now))

    @rule(off=NEAR, nonce=st.sampled_from(["n1", "n2", "n3"]), repeats=REPEATS)
    def claim(self, off: int, nonce: str, repeats: bool) -> None:
        before, attempt = self.record, self.record.attempt + off
        answer = self.take(
            Claim(
                now_ms=self.now,
                attempt=attempt,
                nonce=nonce,
                worker="w",
                lease_ms=LEASE_MS,
                repeats_unknown=repeats,
            )
        )
        if before.state is CallState.RUNNING and before.nonce == nonce:
            assert answer == Outcome(record=before), "the same claim again is the same claim"
        elif isinstance(answer, Outcome):
            assert before.state is CallState.QUEUED
            assert before.attempt == attempt
            assert self.now < before.deadline_ms
            assert not repeats or before.retry_safe

    @precondition(lambda self: self.now % 2 == 1)
    @rule(decision=st.sampled_from([Ask(expires_ms=10_000), Refuse(fail_run=False)]))
    def repeat(self, decision: Ask | Refuse) -> None:
        before = self.record
        answer = self.take(Repeat(now_ms=self.now, decision=decision))
        if isinstance(answer, Outcome):
            assert before.state is CallState.QUEUED
            assert not before.has_started

    @rule(off=NEAR)
    def renew(self, off: int) -> None:
        before, fence = self.record, self.record.fence + off
        answer = self.take(Renew(now_ms=self.now, fence=fence, lease_ms=LEASE_MS))
        holds = before.state is CallState.RUNNING and before.fence == fence
        assert isinstance(answer, Outcome) == holds

    @precondition(lambda self: self.record.attempt > 1 or self.now % 2 == 1)
    @rule(off=NEAR, digest=DIGESTS, code=st.sampled_from([None, "tool.timeout"]))
    def finish(self, off: int, digest: str, code: str | None) -> None:
        before, fence = self.record, self.record.fence + off
        event = Finish(now_ms=self.now, fence=fence, result_sha256=digest, error_code=code)
        answer = self.take(event)
        if before.fence != fence or not before.has_started:
            assert isinstance(answer, Refusal), "a stale fence is always refused"
            assert answer.reason is RefusalReason.STALE_FENCE
        elif before.state is CallState.RUNNING:
            assert isinstance(answer, Outcome)
            assert step(self.record, event) == Outcome(record=self.record), "finish is idempotent"

    @precondition(lambda self: self.now % 3 == 1)
    @rule()
    def cancel(self) -> None:
        self.take(Cancel(now_ms=self.now))
        if self.record.cancel_requested and self.journal_at_cancel is None:
            self.journal_at_cancel = len(self.journal)

    @rule(off=NEAR)
    def lose_lease(self, off: int) -> None:
        before, fence = self.record, self.record.fence + off
        answer = self.take(LeaseExpired(now_ms=self.now, fence=fence))
        if isinstance(answer, Outcome):
            assert before.state is CallState.RUNNING
            assert self.now >= before.lease_until_ms
            again = answer.record.state is CallState.QUEUED
            assert not again or (before.retry_safe and not before.cancel_requested)

    # The next three play by the rules, so that lives get long enough to be interesting.

    @precondition(lambda self: self.record.state is CallState.AWAITING_APPROVAL)
    @rule()
    def approve_in_time(self) -> None:
        self.approve("args", None)

    @precondition(lambda self: self.record.state is CallState.QUEUED)
    @rule()
    def claim_what_is_queued(self) -> None:
        self.claim(0, f"n{self.record.attempt}", repeats=False)

    @precondition(lambda self: self.record.state is CallState.RUNNING)
    @rule()
    def lose_what_runs(self) -> None:
        self.now = max(self.now, self.record.lease_until_ms)
        self.lose_lease(0)

    @precondition(lambda self: self.now > DEADLINE_MS)
    @rule()
    def deadline(self) -> None:
        self.take(DeadlinePassed(now_ms=self.now))

    def places(self, *types: EventType) -> list[int]:
        return [i for i, entry in enumerate(self.journal) if entry.type in types]

    @invariant()
    def one_terminal_and_nothing_after_it(self) -> None:
        terminals = self.places(*CALL_TERMINAL_EVENTS)
        assert len(terminals) == int(self.record.is_terminal)
        assert sum(isinstance(e, NotifyInbox) for e in self.effects) == len(terminals)
        for place in terminals:
            after = {entry.type for entry in self.journal[place + 1 :]}
            assert after <= {EventType.TOOL_RESULT_LATE}

    @invariant()
    def approved_before_started(self) -> None:
        asked = self.places(EventType.TOOL_CALL_AWAITING_APPROVAL)
        approved = self.places(EventType.TOOL_CALL_APPROVED)
        assert len(approved) <= len(asked) <= len(approved) + 1
        for started in self.places(EventType.TOOL_CALL_STARTED):
            assert not asked or (approved and asked[-1] < approved[-1] < started)

    @invariant()
    def each_attempt_starts_once_and_retries_are_safe(self) -> None:
        started = [e.attempt for e in self.journal if e.type is EventType.TOOL_CALL_STARTED]
        assert started == list(range(1, len(started) + 1))
        assert len(started) <= 1 or self.record.retry_safe
        assert self.record.attempt <= max(self.record.max_attempts, 1)
        # A call that is asked about in the queue is rung for again, for the same attempt.
        rings = list(dict.fromkeys(e.attempt for e in self.effects if isinstance(e, RingDoorbell)))
        assert rings == list(range(1, len(rings) + 1))

    @invariant()
    def result_before_outcome(self) -> None:
        stored = self.places(EventType.TOOL_RESULT_STORED)
        assert len(stored) <= 1
        for completed in self.places(EventType.TOOL_CALL_COMPLETED):
            assert stored == [completed - 1]

    @invariant()
    def nothing_starts_after_a_cancel(self) -> None:
        if self.journal_at_cancel is not None:
            after = {entry.type for entry in self.journal[self.journal_at_cancel :]}
            assert not after & {
                EventType.TOOL_CALL_STARTED,
                EventType.TOOL_CALL_APPROVED,
                EventType.TOOL_ATTEMPT_LOST,
            }

    @invariant()
    def budget_is_settled(self) -> None:
        taken = sum(isinstance(e, ReserveUnit) for e in self.effects)
        returned = sum(isinstance(e, ReturnUnit) for e in self.effects)
        assert 0 <= taken - returned <= 1
        if self.record.has_started:
            assert taken - returned == 1
        elif self.record.is_terminal:
            assert taken == returned


CallLife.TestCase.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
TestCallLife = CallLife.TestCase
