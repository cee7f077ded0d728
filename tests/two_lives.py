"""Live one call twice, in the real ledger and on paper, and compare the two lives at their end.

Is: what the state machine of `integration/test_ledger_machine.py` stands on. Is not: what can
happen to the call. Above: that test. Below: `tests/calls.py`, `toolrail_schemas.lifecycle`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pydantic import JsonValue

from tests.calls import LedgerBench, ledger_bench
from tests.life_totals import check_totals
from tests.totals import Totals
from toolrail.ledger import Ending, NewCall
from toolrail.results import ending_of, store_result
from toolrail.settings import Settings
from toolrail_schemas import TextBlock, ToolResult
from toolrail_schemas.lifecycle import CallRecord, Event, Outcome, Refusal, step

T = TypeVar("T")
TOLD: dict[str, JsonValue] = {
    "denied_by": "user",
    "policy_reason": "a test",
    "on_denied": "return_result",
}


HELD = {
    "queued": {"queued", "deadlines"},
    "running": {"leases"},
    "awaiting_approval": {"approvals", "approvals of its run"},
}
"""Which lists hold a call in a state; none holds one that has ended."""


class TwoLives(RuleBasedStateMachine):
    """One call, lived twice."""

    settings_of_test: Settings

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._context = ledger_bench(self.settings_of_test)
        self.bench: LedgerBench = self.run_async(self._context.__aenter__())
        self.record = CallRecord()
        self.kinds: list[str] = []
        self.asked_sha256 = ""  # of the arguments that people are asked about
        self.ran_to_its_end = False
        self.before = self.run_async(Totals.read(self.bench.redis, self.bench.keys))
        self.now_ms = 1_000_000
        self.calm = False
        self.unknown: dict[str, str] = {}  # arguments of equal calls whose effect may have happened
        self.told = ""  # which of them the approver of this call knew of
        self.sent: list[Callable[[], None]] = []

    @property
    def repeats_unknown(self) -> bool:
        """Whether the call would repeat what nobody was told of."""
        lost = self.unknown.get(self.record.args_sha256, "")
        return lost not in {"", self.told}

    def run_async(self, coroutine: Coroutine[object, object, T]) -> T:
        """Return what a coroutine returns, on the machine's own loop."""
        return self._runner.run(cast("Coroutine[None, None, T]", coroutine))

    def expect(self, event: Event) -> Outcome | Refusal:
        """Let the model take the event; return its answer."""
        self.now_ms += 1000
        answer = step(self.record, replace(event, now_ms=self.now_ms))
        self.record = answer.record
        self.kinds += [entry.type.value for entry in answer.journal]
        return answer

    def send(self, message: Callable[[], None]) -> None:
        """Deliver a message, which may come again at any time."""
        self.sent.append(message)
        message()

    @precondition(lambda self: bool(self.sent))
    @rule(which=st.integers(0, 9), times=st.sampled_from([1, 1, 2]))
    def a_message_comes_again(self, which: int, times: int) -> None:
        """A reply was lost and its sender tries again, or a doorbell, worker or reaper is late."""
        message = self.sent[-1 - which % len(self.sent)]
        for _ in range(times):
            message()

    @property
    def key(self) -> str:
        """The key of the one call."""
        return self.bench.key("c1")

    def ended(self, call: NewCall, code: str) -> NewCall:
        """Return the call as one that ended before the queue."""
        ending = self.ending(code, denied=call.state == "denied")
        return replace(call, ending=ending, events=(*call.events, *ending.events))

    def ending(self, code: str = "", *, denied: bool = False, text: str = "") -> Ending:
        """Return an ending of the call with a result that says `text`, or fails with `code`."""
        if code:
            result = ToolResult.failure("c1", "demo.echo", code=code, text=text or None)
        else:
            result = ToolResult(call_id="c1", name="demo.echo", content=(TextBlock(text=text),))
        stored = self.run_async(store_result(result, self.bench.blobs, inline_bytes=65_536))
        return ending_of(self.key, result, stored, denied=TOLD if denied else None)

    @invariant()
    def it_stands_in_the_lists_of_its_state(self) -> None:
        """Who sweeps, asks and claims finds it where its state says, and nowhere else."""
        held = self.run_async(self._held())

        assert held == HELD.get(self.record.state.value, set()), self.record.state

    async def _held(self) -> set[str]:
        run_id, keys = self.bench.run_id, self.bench.keys
        member = f"{run_id}|{self.key}"
        places = {
            "queued": (keys.queued("builtin"), member),
            "deadlines": (keys.deadlines, member),
            "leases": (keys.leases, member),
            "approvals": (keys.approvals, member),
            "approvals of its run": (keys.run_approvals(run_id), self.key),
        }
        pipe = self.bench.redis.pipeline(transaction=False)
        for key, held in places.values():
            pipe.zscore(key, held)
        scores = cast("list[float | None]", await pipe.execute())
        return {name for name, score in zip(places, scores, strict=True) if score is not None}

    def teardown(self) -> None:
        """Both lives tell the same story, and the books balance."""
        call = self.run_async(self.bench.call("c1"))
        kinds = self.run_async(self.bench.kinds())
        used = self.run_async(self.bench.reader.run_used(self.bench.run_id))
        totals = self.run_async(Totals.read(self.bench.redis, self.bench.keys))
        grown = totals.since(self.before)
        self.run_async(self._context.__aexit__(None, None, None))
        self._runner.close()

        assert call.state == self.record.state.value
        assert call.number("attempt") == self.record.attempt
        assert call.number("fence") == self.record.fence
        assert kinds[2:] == self.kinds
        assert (call.fields.get("error_code") or None) == self.record.error_code
        assert used.get("demo.echo", 0) == int(self.record.unit_reserved)
        check_totals(grown, self.record, self.kinds, ran_to_its_end=self.ran_to_its_end)
