"""Examples beside rules, and plan nodes: what is checked beyond the keys.

Is: the tests that a policy brings along. Is not: the folder (`test_policy_load.py`).
Above: nothing. Below: `toolrail.policy.load`, `toolrail.policy.examples`.
"""

from pathlib import Path

import pytest

from tests.policies import refusals, write
from toolrail.errors import ConfigError
from toolrail.policy.load import load_plan
from toolrail_schemas import JsonObject


def test_a_failing_example_names_rule_example_and_outcome(tmp_path: Path) -> None:
    """`match` and `not_match` are tests of a rule that run when it is read."""
    rules = """\
allow = ["mcp.*"]

[[rules]]
id = "no-deletes"
effect = "deny"
tools = ["mcp.*.delete_*", "effect:destructive"]
match = [
    "mcp.gh.delete_repo",
    "mcp.gh.remove_repo",
    { tool = "mcp.gh.wipe", effects = ["destructive"] },
]
not_match = ["mcp.gh.get_issue", "mcp.fs.delete_file", "notes.add"]
"""

    assert refusals(write(tmp_path, {"profiles/p.toml": rules})) == [
        "profiles/p.toml:9: rules[no-deletes].match: rule 'no-deletes' does not select "
        "'mcp.gh.remove_repo', which is allowed by allow[mcp.*] in this file. "
        "Correct the rule's tools or the example.",
        "profiles/p.toml:12: rules[no-deletes].not_match: rule 'no-deletes' selects "
        "'mcp.fs.delete_file', which is denied by no-deletes in this file. "
        "Correct the rule's tools or the example.",
    ]


def test_an_example_of_an_untrusted_tool_does_not_count_for_a_grant(tmp_path: Path) -> None:
    """Examples believe no more than the resolver does."""
    rule = '[[rules]]\nid = "r"\neffect = "allow"\ntools = ["tag:x"]\n'
    untrusted = 'match = [{ tool = "mcp.s.t", tags = ["x"] }]\n'
    trusted = untrusted.replace("] }]", "], trusted = true }]")

    (refusal,) = refusals(write(tmp_path, {"users/u.toml": rule + untrusted}))

    assert "'mcp.s.t', which nothing speaks of in this file" in refusal
    assert refusals(write(tmp_path, {"users/u.toml": rule + trusted})) == []


def test_an_example_is_one_tool(tmp_path: Path) -> None:
    """A pattern as an example would prove nothing."""
    rule = '[[rules]]\nid = "r"\neffect = "deny"\ntools = ["a.*"]\nmatch = ["a.*"]\n'

    assert refusals(write(tmp_path, {"users/u.toml": rule})) == [
        "users/u.toml:5: rules[r].match: 'a.*' is a selector, not the name of a tool. "
        "Examples name one tool each."
    ]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (
            {"mode": "strickt"},
            "plan.mode: unknown value 'strickt'. Did you mean 'strict'?",
        ),
        (
            {"allowed_tools": ["a.b"]},
            "plan.allowed_tools: the plan layer has no allowed_tools. Write allow.",
        ),
        (
            {"allow": ["*"]},
            "plan.allow: '*' grants every tool at once, which a plan may not. "
            'Name groups or sources, such as "workspace.*" or "source:builtin".',
        ),
        ({"locked": "yes"}, "plan.locked: must be true or false."),
    ],
)
def test_a_plan_node_is_checked_like_a_file(plan: JsonObject, message: str) -> None:
    """It came with a run, so there is no file and no line."""
    with pytest.raises(ConfigError) as caught:
        load_plan(plan)

    assert str(caught.value) == message
