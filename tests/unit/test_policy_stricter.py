"""Two policies that hold together allow what both allow, and ask whatever one asks.

Is: `PolicySnapshot.bound_by` and the decision it gives. Is not: who makes such a policy
(`integration/test_redriving_policy.py`). Above: nothing. Below: `toolrail.policy.stricter`.
"""

import itertools

import pytest
from pydantic import JsonValue

from tests.policies import native, policy
from toolrail.errors import PolicySnapshotCorrupt
from toolrail.policy.snapshot import PolicySnapshot
from toolrail_schemas import Layer

TOOL = native("demo.tool")
PROFILES: dict[str, dict[str, JsonValue]] = {
    "hidden": {},
    "denied": {"allow": ["demo.*"], "deny": ["demo.*"]},
    "spent": {"allow": ["demo.*"], "budget": {"max_calls_per_run": 0}},
    "asked": {"allow": ["demo.*"], "require_approval": ["demo.*"]},
    "free": {"allow": ["demo.*"]},
}
STRICTEST_FIRST = list(PROFILES)
POLICIES = {name: policy(profile=profile) for name, profile in PROFILES.items()}


@pytest.mark.parametrize(
    ("now", "earlier"), list(itertools.product(PROFILES, PROFILES)), ids="-".join
)
def test_of_two_answers_the_stricter_counts(now: str, earlier: str) -> None:
    """Denied beats used up, that beats asked, and that beats free, whoever says it."""
    both = POLICIES[now].bound_by(POLICIES[earlier]).resolve(TOOL)
    alone = POLICIES[min(now, earlier, key=STRICTEST_FIRST.index)].resolve(TOOL)

    def rank(visible: bool, callable_: bool, asks: bool) -> tuple[bool, ...]:
        return visible, callable_, not asks

    assert rank(both.visible, both.callable, both.approval_required) == rank(
        alone.visible, alone.callable, alone.approval_required
    )


def test_a_policy_that_binds_from_before_is_named() -> None:
    """Whoever looks into today's files finds no such rule, and is told why."""
    bound = POLICIES["free"].bound_by(POLICIES["denied"]).resolve(TOOL)
    asked = POLICIES["free"].bound_by(POLICIES["asked"]).resolve(TOOL)

    assert "policy of the run that this one repeats a call of" in bound.reason.message
    assert "policy of the run that this one repeats a call of" in asked.approval_rules[0]


def test_both_who_ask_are_heard_and_the_smaller_cap_holds() -> None:
    """A question of the platform cannot be answered for a run, so it must not get lost."""
    now = policy(
        platform={"require_approval": ["demo.*"], "budget": {"timeout_ms": 2000}},
        profile={"allow": ["demo.*"], "budget": {"max_calls_per_run": 3}},
    )
    earlier = policy(
        profile={
            "allow": ["demo.*"],
            "require_approval": ["demo.*"],
            "budget": {"timeout_ms": 1000, "max_calls_per_run": 5},
        }
    )
    decision = now.bound_by(earlier).resolve(TOOL)

    assert decision.approval_required_by == (Layer.PLATFORM, Layer.PROFILE)
    assert len(decision.approval_rules) == 2
    assert (decision.budget.calls_remaining, decision.budget.timeout_ms) == (3, 1000)
    assert decision.budget.source_of["timeout_ms"] is Layer.PROFILE


def test_a_bound_policy_is_stored_whole() -> None:
    """Another process reads the same hash and decides the same; a part cut off is noticed."""
    bound = POLICIES["free"].bound_by(POLICIES["denied"])
    again = PolicySnapshot.loads(bound.dumps(), expected_hash=bound.policy_hash)
    cut = bound.dumps().replace('"also":', '"olso":')

    assert again.resolve(TOOL) == bound.resolve(TOOL)
    assert again.dumps() == bound.dumps()
    assert bound.policy_hash != POLICIES["free"].policy_hash
    with pytest.raises(PolicySnapshotCorrupt, match="hash"):
        PolicySnapshot.loads(cut)


def test_the_same_policy_binds_once() -> None:
    """A chain of runs under one folder keeps one policy, and its hash; order makes no other."""
    free, asked, denied = POLICIES["free"], POLICIES["asked"], POLICIES["denied"]
    chain = free.bound_by(asked.bound_by(denied)).bound_by(free.bound_by(denied))

    assert free.bound_by(free).policy_hash == free.policy_hash
    assert chain.policy_hash == free.bound_by(denied).bound_by(asked).policy_hash
    assert not chain.resolve(TOOL).visible
