"""A decision that was made before is made again without matching a rule.

Is: the size of the work, counted in calls of functions. Is not: a measurement of time
(`tests/bench/policy.py`). Above: nothing. Below: `toolrail.policy`.
"""

import cProfile
import pstats

from tests.bench.policy import DELETING, RULES, big_policy, many_tools
from toolrail.policy.inputs import Facts
from toolrail.policy.snapshot import PolicySnapshot
from toolrail_schemas import ToolSpec


def function_calls(snapshot: PolicySnapshot, tools: list[ToolSpec], facts: Facts | None) -> float:
    """Return the function calls of one decision, averaged over the tools."""
    profile = cProfile.Profile()
    with profile:
        for tool in tools:
            snapshot.resolve(tool, facts=facts)
    stats = pstats.Stats(profile)
    return float(getattr(stats, "total_calls")) / len(tools)  # noqa: B009  # stub lacks it


def test_a_known_tool_costs_no_matching() -> None:
    """With 100 rules, the first decision looks at each; later ones at none."""
    snapshot, tools = big_policy(), many_tools()

    cold = function_calls(snapshot, tools, None)
    warm = function_calls(snapshot, tools, None)
    raised = [function_calls(snapshot, tools, DELETING) for _ in range(2)]

    assert cold > RULES
    assert warm < RULES
    assert raised[0] > RULES > raised[1]
