"""The Lua scripts and the pure life cycle are one machine: both are driven and compared.

Time is either far away or over at once, so that the server's clock and the model's agree.
"""

from dataclasses import replace
from functools import partial

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.promises import promise
from tests.two_lives import TwoLives
from toolrail.closing import cancel_call, close_call, expire_approval
from toolrail.errors import ApprovalConflict, CallConflict
from toolrail.ledger import ANY_UNKNOWN, Held, NewCall, Renewal, StoredCall
from toolrail.ledger import Claim as Granted
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail_schemas import sha256_hex
from toolrail_schemas.lifecycle import (
    Approve,
    Ask,
    CallRecord,
    CallState,
    Cancel,
    Claim,
    DeadlinePassed,
    Deny,
    Dispatch,
    Enqueue,
    ExpireApproval,
    Finish,
    LeaseExpired,
    Outcome,
    Refusal,
    Refuse,
    Reject,
    Renew,
    Repeat,
    step,
)

FAR_MS = 3_600_000
OVER_MS = 0
SPEC_HASH = "0" * 64
leases = st.sampled_from([FAR_MS, OVER_MS])
deadlines = st.sampled_from([*[FAR_MS] * 7, OVER_MS])
edits = st.sampled_from([None, b'{"text":"2"}', b'{"text":"3"}'])
AGES_MS = 10**12
"""As far away on the model's clock."""


class CallMachine(TwoLives):
    """Everything that can happen to the call."""

    @initialize(
        decision=st.sampled_from(
            [
                *[Enqueue()] * 3,
                *[Ask(expires_ms=expires_ms) for expires_ms in (FAR_MS, FAR_MS, OVER_MS)],
                Refuse(fail_run=False),
                Reject(error_code="tool.not_found"),
            ]
        ),
        retry_safe=st.booleans(),
        deadline=deadlines,
        calm=st.sampled_from([True, True, False]),
    )
    def dispatch(
        self,
        decision: Enqueue | Ask | Refuse | Reject,
        retry_safe: bool,
        deadline: int,
        calm: bool,
    ) -> None:
        """The call comes in, decided one way or another; in a calm life nobody cancels it."""
        self.calm = calm
        call = self.bench.new_call("c1", retry_safe=retry_safe, deadline_ms=deadline)
        match decision:
            case Ask():
                expires = FAR_MS if decision.expires_ms else -1
                parked = self.run_async(self.bench.parked_call("c1", expires_in_ms=expires))
                call = replace(parked, deadline_ms=deadline, fields=call.fields)
                decision = Ask(expires_ms=self.now_ms + (AGES_MS if decision.expires_ms else 0))
            case Refuse():
                call = self.ended(replace(call, state="denied"), "policy.denied")
            case Reject():
                call = self.ended(replace(call, state="failed"), "tool.not_found")
            case Enqueue():
                pass
        said = Dispatch(
            now_ms=0,
            digest=call.digest,
            decision=decision,
            deadline_ms=self.now_ms + (AGES_MS if deadline else 0),
            retry_safe=retry_safe,
            max_attempts=2,
            args_sha256=str(call.fields["args_sha256"]),
            spec_hash=SPEC_HASH,
        )
        self.send(partial(self._dispatch, call, said))
        self.sent.append(partial(self._dispatch, replace(call, digest="other"), said))

    def _dispatch(self, call: NewCall, said: Dispatch) -> None:
        answer = self.expect(replace(said, digest=call.digest))
        try:
            self.run_async(self.bench.ledger.dispatch(call))
        except CallConflict:
            assert isinstance(answer, Refusal)
        else:
            assert isinstance(answer, Outcome)

    @rule(same_spec=st.booleans(), edited=edits, for_run=st.booleans())
    def approve(self, same_spec: bool, edited: bytes | None, for_run: bool) -> None:
        """A person says yes, perhaps about an older version, with other arguments, for the run."""
        spec_hash = SPEC_HASH if same_spec else "f" * 64
        args = self.asked_sha256 or self.record.args_sha256
        said = Approve(
            now_ms=0,
            args_sha256=args,
            spec_hash=spec_hash,
            edited_args_sha256=sha256_hex(edited) if edited else None,
            for_run=for_run,
        )
        answer = self.expect(said)
        self.asked_sha256 = args
        if answer.journal:
            self.told = self.unknown.get(self.record.args_sha256, "")
        approval = self.bench.approval(
            self.key, args_sha256=args, spec_hash=spec_hash, edited=edited, for_run=for_run
        )
        approval = replace(approval, told_unknown=ANY_UNKNOWN)
        try:
            taken = self.run_async(self.bench.ledger.approve(self.bench.run_id, self.key, approval))
        except ApprovalConflict:
            assert isinstance(answer, Refusal), answer
        else:
            assert (taken.status != "superseded") == isinstance(answer, Outcome), answer

    @rule()
    def deny(self) -> None:
        """A person says no."""
        before = self.record
        answer = self.expect(Deny(now_ms=0))
        closed = self.run_async(
            self.bench.ledger.finish(
                self.bench.run_id,
                self.key,
                self.ending("approval.denied", denied=True),
                fence=0,
                actor="user:bob",
                guard="undecided",
                approval_state="denied",
            )
        )

        assert (closed.status == "closed") == (answer.record != before)

    @rule()
    def expire(self) -> None:
        """The reaper looks at the approval."""
        before = self.record
        answer = self.expect(ExpireApproval(now_ms=0))
        call = self.run_async(self.bench.call("c1"))
        closed = self.run_async(
            expire_approval(self.bench.ledger, self.bench.blobs, call, actor="runtime:reaper")
        )

        assert (closed.status == "closed") == (answer.record != before)

    @rule(nonce=st.sampled_from("ab"), lease=leases)
    def claim(self, nonce: str, lease: int) -> None:
        """A worker wants the present attempt."""
        self.send(partial(self._claim, self.record.attempt, nonce, lease))

    @rule(ahead=st.sampled_from([1, -1]), nonce=st.sampled_from("ab"))
    def claim_another_attempt(self, ahead: int, nonce: str) -> None:
        """A doorbell of an attempt that was, or is not yet."""
        self.send(partial(self._claim, self.record.attempt + ahead, nonce, FAR_MS))

    def _claim(self, attempt: int, nonce: str, lease: int) -> None:
        answer = self.expect(
            Claim(
                now_ms=0,
                attempt=attempt,
                nonce=nonce,
                worker="w",
                lease_ms=AGES_MS if lease else 0,
                repeats_unknown=self.repeats_unknown,
            )
        )
        got = self.run_async(
            self.bench.ledger.claim(
                self.bench.run_id,
                self.key,
                attempt=attempt,
                nonce=nonce,
                worker="w",
                lease_ms=lease,
            )
        )

        assert isinstance(got, Granted) == isinstance(answer, Outcome), (got, answer)
        assert not isinstance(got, Granted) or got.fence == self.record.fence

    @precondition(lambda self: self.record.state in {CallState.QUEUED, CallState.AWAITING_APPROVAL})
    @rule(is_claimed=st.booleans())
    def an_equal_call_is_lost(self, is_claimed: bool) -> None:
        """Nobody knows whether the effect of this call has happened already; it may be next."""
        name, arguments = f"lost{len(self.kinds)}", self.record.args_sha256
        field = f"unknown:demo.echo:{arguments}"
        run = self.bench.keys.run(self.bench.run_id)
        self.run_async(command(self.bench.redis, "HSET", run, field, name))
        self.unknown[arguments] = name
        if is_claimed:
            self._claim(self.record.attempt, "a", FAR_MS)

    @precondition(lambda self: self.repeats_unknown and not self.record.retry_safe)
    @rule(
        decision=st.sampled_from(
            [Ask(expires_ms=FAR_MS), Ask(expires_ms=OVER_MS), Refuse(fail_run=False)]
        )
    )
    def repeat(self, decision: Ask | Refuse) -> None:
        """A worker whose claim was refused for it asks a person, or denies the call."""
        if isinstance(decision, Ask):
            expires_ms = self.now_ms + (AGES_MS if decision.expires_ms else 0)
            answer = self.expect(Repeat(now_ms=0, decision=Ask(expires_ms=expires_ms)))
            expires_in_ms = FAR_MS if decision.expires_ms else -1
            taken = self.run_async(self.bench.ask_again("c1", expires_in_ms=expires_in_ms))
            self.asked_sha256 = "" if taken else self.asked_sha256
        else:
            answer = self.expect(Repeat(now_ms=0, decision=decision))
            closed = self.run_async(
                self.bench.ledger.finish(
                    self.bench.run_id,
                    self.key,
                    self.ending("policy.denied", denied=True),
                    fence=0,
                    actor="worker:w",
                    guard="repeats",
                )
            )
            taken = closed.status == "closed"

        assert taken == isinstance(answer, Outcome), answer

    @rule(behind=st.sampled_from([0, 0, 1]), lease=leases)
    def renew(self, behind: int, lease: int) -> None:
        """A worker says that it is still at it."""
        self.send(partial(self._renew, self.record.fence - behind, lease))

    def _renew(self, fence: int, lease: int) -> None:
        answer = self.expect(Renew(now_ms=0, fence=fence, lease_ms=AGES_MS if lease else 0))
        [news] = self.run_async(
            self.bench.ledger.renew([Held(self.bench.run_id, self.key, fence)], lease_ms=lease)
        )

        assert (news is Renewal.LOST) == isinstance(answer, Refusal)
        assert (news is Renewal.CANCEL) == (
            isinstance(answer, Outcome) and self.record.cancel_requested
        )

    @rule(
        behind=st.sampled_from([0, 0, 0, 1]),
        code=st.sampled_from(["", "", "tool.execution_failed"]),
        text=st.sampled_from(["x", "y"]),
    )
    def finish(self, behind: int, code: str, text: str) -> None:
        """A worker hands in a result."""
        self.send(partial(self._finish, self.record.fence - behind, code, text))

    def _finish(self, fence: int, code: str, text: str) -> None:
        ending = self.ending(code, text=text)
        before = self.record
        answer = self.expect(
            Finish(
                now_ms=0,
                fence=fence,
                result_sha256=ending.result_sha256,
                error_code=code or None,
            )
        )
        finished = self.bench.ledger.finish(
            self.bench.run_id, self.key, ending, fence=fence, actor="worker:w"
        )
        closed = self.run_async(finished)

        self.ran_to_its_end |= closed.status == "closed"

        assert (closed.status == "late") == isinstance(answer, Refusal), (closed, answer, before)

    @precondition(lambda self: not self.calm)
    @rule()
    def cancel(self) -> None:
        """The user wants the call gone."""
        self.expect(Cancel(now_ms=0))
        bench = self.bench
        books = (bench.ledger, bench.reader, bench.blobs)
        self.run_async(cancel_call(*books, bench.run_id, self.key, actor="runtime:client"))

    @precondition(lambda self: not self.calm and not self.record.is_terminal)
    @rule(is_claimed=st.sampled_from([True, True, False]))
    def a_cancel_dies_half_way(self, is_claimed: bool) -> None:
        """The call is marked, and whoever cancels is gone before it could be closed."""
        self.expect(Cancel(now_ms=0, only_marked=True))
        self.run_async(self.bench.ledger.cancel(self.bench.run_id, self.key))
        if is_claimed:
            self.send(partial(self._claim, self.record.attempt, "a", FAR_MS))

    @rule()
    def lease_expires(self) -> None:
        """The reaper looks at the lease, and decides by what it saw."""
        call = self.run_async(self.bench.call("c1"))
        seen = step(self.record, LeaseExpired(now_ms=AGES_MS * 9, fence=self.record.fence)).record
        self.send(partial(self._lease_expires, call, seen))

    def _lease_expires(self, call: StoredCall, decided: CallRecord) -> None:
        event = LeaseExpired(now_ms=self.now_ms + 1000, fence=call.number("fence"))
        present = step(self.record, event).record
        is_stale = (present.state, present.error_code) != (decided.state, decided.error_code)
        # Decided before a cancel: refused, and the next look decides anew.
        answer = None if is_stale else self.expect(event)
        if decided.state is CallState.QUEUED:
            taken = self.run_async(
                self.bench.ledger.requeue(
                    self.bench.run_id,
                    self.key,
                    fence=call.number("fence"),
                    attempt=decided.attempt,
                    envelope=self.bench.envelope(self.key, decided.attempt),
                    actor="runtime:reaper",
                )
            )
        else:
            closed = self.run_async(
                close_call(
                    self.bench.ledger,
                    self.bench.blobs,
                    call,
                    guard="lost",
                    code=decided.error_code or "tool.worker_lost",
                    actor="runtime:reaper",
                )
            )
            taken = closed.status == "closed"

        assert taken == isinstance(answer, Outcome), (taken, answer)

    @precondition(lambda self: not self.record.is_terminal)
    @rule()
    def deadline_passes(self) -> None:
        """The reaper looks at the deadline."""
        answer = self.expect(DeadlinePassed(now_ms=0))
        call = self.run_async(self.bench.call("c1"))
        closed = self.run_async(
            close_call(
                self.bench.ledger,
                self.bench.blobs,
                call,
                guard="deadline_over",
                code="tool.timeout",
                actor="runtime:reaper",
            )
        )

        assert (closed.status == "closed") == isinstance(answer, Outcome)


@pytest.mark.timeout(3600)
@promise("lifecycle.scripts-agree")
def test_the_scripts_and_the_pure_life_cycle_agree(settings: Settings, examples: int) -> None:
    """Whatever happens in whatever order, state, fence, journal and budget are the same."""
    machine = type("BoundMachine", (CallMachine,), {"settings_of_test": settings})
    run_state_machine_as_test(
        machine,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[hypothesis.HealthCheck.too_slow],
        ),
    )
