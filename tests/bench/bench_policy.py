"""Measure one policy decision with 200 tools and 100 rules.

Is: a program that prints medians; run it as `python -m tests.bench.bench_policy`. Is not: a test;
nothing fails when it is slow. Above: nobody. Below: `toolrail.policy`.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable

from pydantic import JsonValue

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


def main() -> None:
    """Print the medians in microseconds."""
    tools, snapshot = many_tools(), big_policy()

    def decide(facts: Facts | None) -> None:
        for tool in tools:
            snapshot.resolve(tool, facts=facts)

    def decide_cold() -> None:
        fresh = big_policy()
        for tool in tools:
            fresh.resolve(tool)

    decide(None)
    rows = {
        "warm": median_us(lambda: decide(None)),
        "warm, arguments with effects": median_us(lambda: decide(DELETING)),
        "cold, policy compiled anew": median_us(decide_cold, rounds=5),
    }
    sys.stdout.write(f"{TOOLS} tools, {RULES} rules, median of one decision\n")
    for name, microseconds in rows.items():
        sys.stdout.write(f"{name:30} {microseconds:8.1f} us\n")


if __name__ == "__main__":
    main()
