"""Explanations: the deciding rule, and what became of everybody else.

Is: the data and the text of `explain`. Is not: the decision itself (`test_policy_rows.py`).
Above: nothing. Below: `toolrail.policy.explain`.
"""

from itertools import product

import pytest
from pydantic import JsonValue

from tests.policies import LETTERS, ext, mcp, native, policy, said
from toolrail.policy.explain import Explanation, Outcome, explain
from toolrail.policy.inputs import Facts
from toolrail.policy.rules import Say
from toolrail.policy.selectors import Effect
from toolrail_schemas import Lifecycle, Permission, ToolSpec

ISSUE = mcp()
PATCH = native("workspace.apply_patch")
DICE = ext()
Written = dict[str, JsonValue]


def story(told: Explanation) -> dict[tuple[str, str], str]:
    """Return what became of what each layer says, silent layers left out."""
    return {
        (voice.layer.value, voice.says.value): voice.outcome.value
        for voice in told.voices
        if voice.says is not None
    }


def tell(tool: ToolSpec, facts: Facts | None = None, **layers: Written) -> Explanation:
    """Explain a tool under the layers."""
    return explain(policy(**layers).ask(tool, facts=facts))


def test_a_denial_lists_the_allows_it_outvoted() -> None:
    """The reader sees who decided, who agreed and who lost."""
    told = tell(
        PATCH, user=said("D", PATCH.name), platform=said("D", "*"), profile=said("A", PATCH.name)
    )

    assert story(told) == {
        ("user", "deny"): "decided",
        ("platform", "deny"): "agrees",
        ("profile", "allow"): "outvoted",
    }
    (loser,) = told.losers
    assert (loser.rule, loser.note) == ("allow[workspace.apply_patch]", "a denial beats any allow")


def test_an_approval_that_was_waived_names_who_waived_it() -> None:
    """The tool's own caution is shown even when it does not count."""
    told = tell(ISSUE, user=said("W", ISSUE.name), profile=said("A", ISSUE.name))

    assert story(told) == {
        ("user", "waive"): "counts",
        ("profile", "allow"): "decided",
        ("spec", "require_approval"): "waived",
    }
    assert told.losers[-1].note == "by user rule waive[mcp.gh.create_issue]"


@pytest.mark.parametrize(
    ("tool", "layers", "facts", "note"),
    [
        (DICE, {"plan": said("A", DICE.name)}, None, "only profile and user can grant"),
        (
            PATCH,
            {"source": said("A", PATCH.name), "profile": {"allow": []}},
            None,
            "the profile has a list of its own",
        ),
        (
            PATCH,
            {"source": said("A", PATCH.name)},
            Facts(lifecycle=Lifecycle.COMPAT),
            "a compat tool is never granted by the source layer",
        ),
        (
            PATCH,
            {"user": said("A", "effect:destructive")},
            Facts(dynamic=frozenset({Effect.DESTRUCTIVE})),
            "effects of arguments alone grant nothing",
        ),
        (
            ISSUE,
            {"profile": said("AW", ISSUE.name)},
            None,
            "a profile cannot waive approvals of mcp tools",
        ),
        (
            PATCH,
            {"profile": said("AW", PATCH.name)},
            None,
            "there is no approval it could waive",
        ),
        (PATCH, {"user": said("q", PATCH.name)}, None, "there is no call to approve"),
    ],
)
def test_a_rule_that_could_not_count_says_why(
    tool: ToolSpec, layers: dict[str, Written], facts: Facts | None, note: str
) -> None:
    """A rule that looks right and does nothing is the hardest mistake to find."""
    void = [v for v in tell(tool, facts, **layers).voices if v.outcome is Outcome.VOID]

    assert [note in voice.note for voice in void] == [True]


def test_facts_that_deny_are_voices_too() -> None:
    """The tool's own permission, its callers and the catalog stand beside the layers."""
    tool = native("chat.purge", Permission.DENY, allowed_callers=())

    told = tell(tool, Facts(lifecycle=Lifecycle.DEPRECATED), profile=said("A", "chat.*"))

    assert story(told) == {
        ("profile", "allow"): "outvoted",
        ("spec", "deny"): "decided",
        ("context", "deny"): "agrees",
        ("catalog", "deny"): "agrees",
    }


@pytest.mark.parametrize(
    ("user", "profile", "source"), list(product(["-", *LETTERS], ["-", *LETTERS], ["-", "A", "D"]))
)
def test_the_story_agrees_with_the_decision(user: str, profile: str, source: str) -> None:
    """At most one voice decided, it is the reason's layer, and approval has a voice that counts."""
    told = tell(
        ISSUE,
        user=said(user, ISSUE.name),
        profile=said(profile, ISSUE.name),
        source=said(source, ISSUE.name),
    )
    decision = told.decision

    decided = [voice.layer for voice in told.voices if voice.outcome is Outcome.DECIDED]
    asking = {
        voice.layer
        for voice in told.voices
        if voice.says is Say.REQUIRE_APPROVAL and voice.outcome is Outcome.COUNTS
    }

    assert decided == ([] if decision.reason.layer is None else [decision.reason.layer])
    assert asking == set(decision.approval_required_by)


def test_the_text_is_what_a_person_reads() -> None:
    """One headline, the reason, a table of voices, the budget, the warnings."""
    told = tell(
        ISSUE,
        platform={"budget": {"max_calls_per_run": 50}},
        profile={**said("W", ISSUE.name), "name": "coder", "tools": {"mcp.gh.*": "approval"}},
        source=said("A", ISSUE.name),
    )

    assert (
        told.as_text()
        == """\
mcp.gh.create_issue for caller assistant on surface core: ALLOWED WITH APPROVAL
  Allowed by profile coder, rule tools[mcp.gh.*]. Approval is required by profile coder, \
tools[mcp.gh.*]. Approval is required by the tool itself, permission.
  code allowed

  layer            says              rule                        outcome
  profile coder    allow             tools[mcp.gh.*]             decided
  profile coder    require_approval  tools[mcp.gh.*]             counts
  source           allow             allow[mcp.gh.create_issue]  \
void: the profile has a list of its own
  the tool itself  require_approval  permission                  counts
  silent: user, platform, plan

  budget: 50 calls left in the run (platform), 16 in the turn (spec), 30000 ms (spec), \
4000 tokens of output (spec)
"""
    )


def test_the_text_of_a_denial_says_what_it_does_to_the_run() -> None:
    """Why a run ended is the first thing somebody asks."""
    rule: Written = {
        "id": "no-issues",
        "effect": "deny",
        "tools": ["server:gh"],
        "reason": "Issues are made by people.",
        "on_denied": "return_result",
    }
    text = tell(ISSUE, user={"rules": [rule]}).as_text()

    assert text.startswith(
        "mcp.gh.create_issue for caller assistant on surface core: DENIED\n"
        "  Denied by user, rule no-issues. Issues are made by people.\n"
        "  code deny, on_denied return_result\n"
    )


def test_the_data_is_plain_json() -> None:
    """Consoles and scripts read the same story."""
    data = tell(ISSUE, profile=said("A", ISSUE.name)).as_data()

    assert data["tool"] == ISSUE.name
    assert data["voices"] == [
        {
            "layer": layer,
            "title": title,
            "says": says,
            "rule": rule,
            "outcome": outcome,
            "note": "",
        }
        for layer, title, says, rule, outcome in [
            ("user", "user", None, None, "silent"),
            ("platform", "platform", None, None, "silent"),
            ("plan", "plan", None, None, "silent"),
            ("profile", "profile", "allow", "allow[mcp.gh.create_issue]", "decided"),
            ("source", "source", None, None, "silent"),
            ("spec", "the tool itself", "require_approval", "permission", "counts"),
        ]
    ]
