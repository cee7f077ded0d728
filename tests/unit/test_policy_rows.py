"""The worked examples and truth tables of the policy, cell by cell.

Is: semantics 3.4 and 3.5 as data. Is not: laws over all inputs (`test_policy_properties.py`).
Above: nothing. Below: `toolrail.policy`.
"""

from dataclasses import dataclass, field
from itertools import product

import pytest
from pydantic import JsonValue

from tests.policies import DESTRUCTIVE, ext, flags, mcp, native, policy, said
from toolrail.policy.inputs import Facts
from toolrail.policy.selectors import Effect
from toolrail_schemas import (
    Caller,
    Layer,
    Lifecycle,
    Permission,
    PolicyDecision,
    ReasonCode,
    Source,
    ToolSpec,
    Visibility,
)

READ = native("workspace.read_file")
PATCH = native("workspace.apply_patch")
CHAT = native("chat.search")
SKILL = native("skill.read", source=Source.SKILL)
ISSUE = mcp()
DICE = ext()
Written = dict[str, JsonValue]


@dataclass(frozen=True)
class Row:
    """One worked example: what is said, and what follows."""

    number: int
    tool: ToolSpec
    result: str
    code: str
    layer: Layer | None = None
    platform: str | Written = "-"
    user: str | Written = "-"
    plan: str | Written = "-"
    profile: str | Written = "-"
    source: str | Written = "-"
    facts: Facts = field(default_factory=Facts)
    caller: Caller = Caller.ASSISTANT
    also: tuple[Layer, ...] = ()
    approval_by: tuple[Layer, ...] | None = None

    def decide(self) -> PolicyDecision:
        """Resolve the row."""

        def layer(what: str | Written) -> Written:
            return said(what, self.tool.name) if isinstance(what, str) else what

        snapshot = policy(
            platform=layer(self.platform),
            user=layer(self.user),
            plan=layer(self.plan),
            profile=layer(self.profile),
            source=layer(self.source),
        )
        return snapshot.resolve(self.tool, caller=self.caller, facts=self.facts)


OTHER: Written = {"allow": ["other.tool"]}
STRICT: Written = {"mode": "strict", "allow": ["other.tool"]}
HYBRID: Written = {"mode": "hybrid", "allow": ["other.tool"]}
USER_ONLY = native("chat.forget", visibility=Visibility.USER_ONLY)
DENIED = native("chat.purge", Permission.DENY)
INTERNAL = native("workspace.create_checkpoint", visibility=Visibility.INTERNAL)
CODE_ONLY = native("chat.count", allowed_callers=("code_execution",))
DELETING = Facts(dynamic=frozenset({Effect.DESTRUCTIVE}))
WIPE = native("workspace.wipe", Permission.APPROVAL_REQUIRED, annotations=DESTRUCTIVE)
OLD = Facts(lifecycle=Lifecycle.DEPRECATED)
P, U, N, F, S = Layer.PLATFORM, Layer.USER, Layer.PLAN, Layer.PROFILE, Layer.SOURCE
SPEC = Layer.SPEC

ROWS = [
    Row(1, READ, "FFF", "policy.not_allowed"),
    Row(2, READ, "TTF", "allowed", S, source="A"),
    Row(3, READ, "FFF", "policy.not_allowed", profile=OTHER, source="A"),
    Row(4, READ, "TTF", "allowed", F, profile="A"),
    Row(5, PATCH, "FFF", "deny", U, user="D", plan="A", profile="A", source="A"),
    Row(6, PATCH, "FFF", "deny", P, platform="D", user="A", plan="A", profile="A", source="A"),
    Row(7, PATCH, "FFF", "deny", U, platform="D", user="D", profile="A", also=(P,)),
    Row(8, CHAT, "FFF", "deny", N, plan="D", profile="A"),
    Row(9, CHAT, "TTF", "allowed", N, plan="A"),
    Row(10, CHAT, "FFF", "deny", F, plan="A", profile="D"),
    Row(11, CHAT, "FFF", "plan.unlisted", N, plan=STRICT, profile="A", source="A"),
    Row(12, CHAT, "TTF", "allowed", F, plan=HYBRID, profile="A"),
    Row(13, ISSUE, "TTT", "allowed", F, profile="A", source="A", approval_by=(SPEC,)),
    Row(14, ISSUE, "TTF", "allowed", F, user="W", profile="A", source="A"),
    Row(
        15,
        ISSUE,
        "TTT",
        "allowed",
        F,
        platform="q",
        user="W",
        profile="A",
        source="A",
        approval_by=(P,),
    ),
    Row(16, ISSUE, "TTT", "allowed", F, profile="WA", source="A", approval_by=(SPEC,)),
    Row(17, ISSUE, "FFF", "policy.not_allowed", profile="q"),
    Row(18, ISSUE, "FFF", "deny", S, profile="A", source="D"),
    Row(
        19,
        ISSUE,
        "TFT",
        "source.unavailable",
        S,
        profile="A",
        source="A",
        facts=Facts(source_available=False),
    ),
    Row(20, DICE, "FFF", "policy.not_allowed", plan="A"),
    Row(21, DICE, "TTT", "allowed", F, profile="A", approval_by=(SPEC,)),
    Row(22, DICE, "TTF", "allowed", U, user="AW"),
    Row(
        23,
        SKILL,
        "TFF",
        "budget.exhausted",
        Layer.BUDGET,
        profile={"allow": ["skill.read"], "budgets": {"skill.*": {"max_calls_per_run": 5}}},
        facts=Facts(used=5),
    ),
    Row(
        24,
        SKILL,
        "TTF",
        "allowed",
        F,
        plan={"budget": {"max_calls_per_run": 2}},
        profile={"allow": ["skill.read"], "budget": {"max_calls_per_run": 10}},
        source={"budget": {"max_calls_per_run": 5}},
        facts=Facts(used=1),
    ),
    Row(25, DENIED, "FFF", "deny", SPEC, user="A", plan="A", profile="A", source="A"),
    Row(26, INTERNAL, "FFF", "not_model_visible", SPEC, user="A", profile="A", source="A"),
    Row(27, USER_ONLY, "FFF", "user_only", SPEC, profile="A"),
    Row(28, USER_ONLY, "TTF", "allowed", F, profile="A", caller=Caller.USER),
    Row(29, CODE_ONLY, "FFF", "context.caller", Layer.CONTEXT, profile="A"),
    Row(
        30,
        ISSUE,
        "TFT",
        "tool.not_loaded",
        Layer.CONTEXT,
        profile="A",
        source="A",
        facts=Facts(deferred=True),
    ),
    Row(
        31,
        ISSUE,
        "TTT",
        "allowed",
        F,
        profile="A",
        source="A",
        facts=Facts(deferred=True, loaded=True),
    ),
    Row(
        32,
        CHAT,
        "FFF",
        "catalog.deprecated",
        Layer.CATALOG,
        profile={"allow": ["chat.*"]},
        facts=OLD,
    ),
    Row(33, CHAT, "TTF", "allowed", F, profile="A", facts=OLD),
    Row(
        34,
        PATCH,
        "TTT",
        "allowed",
        F,
        profile={"allow": ["workspace.apply_patch"], "require_approval": ["effect:destructive"]},
        facts=DELETING,
        approval_by=(F,),
    ),
    Row(35, WIPE, "TTF", "allowed", F, profile="AW"),
    Row(
        36,
        CHAT,
        "FFF",
        "platform.not_listed",
        P,
        platform={"allow_only": ["workspace.*"]},
        user="A",
        profile="A",
    ),
    Row(37, CHAT, "TTF", "allowed", U, user={"allow": ["*"]}, profile=OTHER),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row{row.number}")
def test_a_worked_example_resolves_as_written(row: Row) -> None:
    """Each numbered row of semantics 3.5 gives its result, code, layer and further layers."""
    decision = row.decide()

    assert flags(decision) == row.result
    assert decision.reason.code == row.code
    assert decision.reason.layer == row.layer
    assert decision.reason.also == row.also
    if row.approval_by is not None:
        assert decision.approval_required_by == row.approval_by


def test_every_row_that_is_a_policy_result_is_here() -> None:
    """Rows 1 to 37 are tested above, each once."""
    assert [row.number for row in ROWS] == list(range(1, 38))


def test_row_38_an_unknown_tool_is_not_a_policy_result() -> None:
    """The resolver takes a spec and has no code for a tool that does not exist."""
    assert "tool.not_found" not in set(ReasonCode)


def test_row_16_says_that_the_profiles_waiver_was_ignored() -> None:
    """A waiver that reaches no MCP tool is a warning, not silence."""
    (warning,) = ROWS[15].decide().warnings

    assert warning == "profile rule waive[mcp.gh.create_issue] cannot waive approvals of mcp tools"


def test_row_23_leaves_the_spent_tool_visible_with_nothing_remaining() -> None:
    """The prompt stays stable when a budget ends."""
    budget = ROWS[22].decide().budget

    assert (budget.calls_remaining, budget.exhausted) == (0, True)
    assert budget.source_of["calls"] is Layer.PROFILE


def test_row_24_names_the_layer_of_the_smallest_cap() -> None:
    """The plan's cap of two is the smallest; one call of it is left."""
    budget = ROWS[23].decide().budget

    assert (budget.calls_remaining, budget.source_of["calls"]) == (1, Layer.PLAN)


def test_rows_30_and_31_are_exposed_only_once_loaded() -> None:
    """A deferred tool enters the prompt when a search loaded it."""
    assert not ROWS[29].decide().exposed
    assert ROWS[30].decide().exposed


def test_row_33_warns_that_the_tool_is_deprecated() -> None:
    """Who still uses a deprecated tool by name is told."""
    (warning,) = ROWS[32].decide().warnings

    assert "deprecated" in warning


WORDS = ("-", "A", "Q", "D", "q")
SINGLE = {"-": "FFF", "A": "TTF", "Q": "TTT", "D": "FFF", "q": "FFF"}
GRANTING = ("user", "profile", "plan")


@pytest.mark.parametrize(("layer", "word"), list(product(GRANTING, WORDS)))
def test_a_single_layer_decides_as_in_the_table(layer: str, word: str) -> None:
    """Every cell of the one-layer table, for each layer that may grant."""
    decision = policy(**{layer: said(word, PATCH.name)}).resolve(PATCH)

    assert flags(decision) == SINGLE[word]


PAIRS = [("user", "plan"), ("user", "profile"), ("plan", "profile")]
TABLE = {
    "-": {"-": "FFF", "A": "TTF", "Q": "TTT", "D": "FFF"},
    "A": {"-": "TTF", "A": "TTF", "Q": "TTT", "D": "FFF"},
    "Q": {"-": "TTT", "A": "TTT", "Q": "TTT", "D": "FFF"},
    "D": {"-": "FFF", "A": "FFF", "Q": "FFF", "D": "FFF"},
}


@pytest.mark.parametrize(("pair", "high", "low"), list(product(PAIRS, "-AQD", "-AQD")))
def test_two_layers_decide_as_in_the_table(pair: tuple[str, str], high: str, low: str) -> None:
    """Every cell of the two-layer table, for each pair of user, plan and profile."""
    upper, lower = pair
    layers = {upper: said(high, PATCH.name), lower: said(low, PATCH.name)}

    assert flags(policy(**layers).resolve(PATCH)) == TABLE[high][low]


ALL_LAYERS = ("user", "platform", "plan", "profile", "source")


@pytest.mark.parametrize(
    ("denier", "other"), [(a, b) for a, b in product(ALL_LAYERS, ALL_LAYERS) if a != b]
)
def test_a_denial_of_any_layer_beats_an_allow_of_any_other(denier: str, other: str) -> None:
    """Deny beats allow for every pair of layers; the platform grants by listing."""
    allow: Written = {"allow": [PATCH.name]}
    if other == "platform":
        allow = {"allow_only": [PATCH.name]}
    decision = policy(**{denier: said("D", PATCH.name), other: allow}).resolve(PATCH)

    assert flags(decision) == "FFF"
    assert (decision.reason.code, decision.reason.layer) == ("deny", denier)
