"""Measure one policy decision with 200 tools and 100 rules.

Is: the decision about a tool that was asked about before, about one whose arguments have effects,
and under a policy that is compiled anew. Is not: a test (`tests/component/test_policy_cost.py`).
Above: `__main__.py`. Below: `toolrail.policy`.
"""

import gc
import statistics
import time
from collections.abc import Callable

from pydantic import JsonValue

from tests.bench.figures import Size
from tests.bench.phases import Figures
from tests.policies import mcp, native, policy
from toolrail.policy.inputs import Facts
from toolrail.policy.selectors import Effect
from toolrail.policy.snapshot import PolicySnapshot
from toolrail_schemas import ToolSpec

TOOLS, RULES, ROUNDS = 200, 100, 50
DELETING = Facts(dynamic=frozenset({Effect.DESTRUCTIVE}))


def big_policy() -> PolicySnapshot:
    """Return a policy whose five layers share 100 rules."""

    def rules(kind: str, effect: str) -> dict[str, JsonValue]:
        return {
            "rules": [
                {
                    "id": f"{kind}-{number}",
                    "effect": effect,
                    "tools": [f"group{number}.*", f"mcp.server{number}.*_delete", "tag:danger"],
                }
                for number in range(RULES // 5)
            ]
        }

    return policy(
        platform={**rules("platform", "require_approval"), "deny": ["server:evil"]},
        user={**rules("user", "deny"), "allow": ["*"]},
        plan=rules("plan", "deny"),
        profile={**rules("profile", "approval"), "allow": ["source:builtin", "source:mcp"]},
        source=rules("source", "allow"),
    )


def many_tools() -> list[ToolSpec]:
    """Return 200 tools of builtin and MCP sources, with their hashes computed."""
    tools = [native(f"notes.verb_{number}") for number in range(TOOLS // 2)]
    tools += [mcp(f"mcp.server{number}.read") for number in range(TOOLS // 2)]
    assert all(tool.spec_hash for tool in tools)
    return tools


def median_us(round_: Callable[[], None], *, rounds: int = ROUNDS) -> float:
    """Return the median time of one decision, when one round makes one for each tool."""
    times: list[float] = []
    gc.disable()
    for _ in range(rounds):
        start = time.perf_counter()
        round_()
        times.append((time.perf_counter() - start) / TOOLS * 1e6)
    gc.enable()
    return statistics.median(times)


async def measure(_: Size) -> Figures:
    """Return microseconds of a decision: of a known tool, the dearer kind, and of a new policy."""
    tools, snapshot = many_tools(), big_policy()

    def decide(facts: Facts | None) -> None:
        for tool in tools:
            snapshot.resolve(tool, facts=facts)

    def decide_cold() -> None:
        fresh = big_policy()
        for tool in tools:
            fresh.resolve(tool)

    decide(None)
    warm, effects = median_us(lambda: decide(None)), median_us(lambda: decide(DELETING))
    return {
        "policy_us": max(warm, effects),
        "policy_cold_us": median_us(decide_cold, rounds=5),
    }
