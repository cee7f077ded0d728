"""The rulings that sharpen the worked examples: caps, effects, memory, callers, surfaces.

Is: semantics 3.8 and the notes of 3.3, one by one. Is not: the rows (`test_policy_rows.py`).
Above: nothing. Below: `toolrail.policy`.
"""

import pytest
from pydantic import JsonValue

from tests.policies import COSTLY, DESTRUCTIVE, ext, flags, mcp, native, policy, said
from toolrail.policy.inputs import Facts, Remembered
from toolrail.policy.selectors import Effect
from toolrail_schemas import (
    Caller,
    Layer,
    Lifecycle,
    Permission,
    ToolSpec,
    Visibility,
)

READ = native("workspace.read_file")
PATCH = native("workspace.apply_patch")
CHAT = native("chat.search")
ISSUE = mcp()
DICE = ext()
WIPE = native("workspace.wipe", Permission.APPROVAL_REQUIRED, annotations=DESTRUCTIVE)
Written = dict[str, JsonValue]
ALL_LAYERS = ("user", "platform", "plan", "profile", "source")
STRICT: Written = {"mode": "strict", "allow": ["other.tool"]}
DELETING = Facts(dynamic=frozenset({Effect.DESTRUCTIVE}))
P, U, N, F, S = Layer.PLATFORM, Layer.USER, Layer.PLAN, Layer.PROFILE, Layer.SOURCE
SPEC = Layer.SPEC


def test_denials_are_told_in_order_with_explicit_ones_before_caps() -> None:
    """User, platform, plan, profile, source, spec; then caps; then context and catalog."""
    tool = native("chat.purge", Permission.DENY, allowed_callers=())
    everyone = {layer: said("D", tool.name) for layer in ALL_LAYERS}
    told = policy(**everyone).resolve(tool, facts=Facts(surfaces=frozenset({"workbench"}))).reason

    assert (told.layer, *told.also) == (U, P, N, F, S, SPEC, Layer.CONTEXT, Layer.CATALOG)

    capped = policy(platform={"allow_only": []}, plan=STRICT, profile=said("D", CHAT.name))
    told = capped.resolve(CHAT).reason

    assert (told.code, told.layer, *told.also) == ("deny", F, P, N)


@pytest.mark.parametrize("effect", list(Effect))
def test_a_denial_by_effect_meets_the_effects_of_the_arguments(effect: Effect) -> None:
    """Ruling 3.8.2: effects of this call are matched by every kind of selector, deny included."""
    snapshot = policy(profile=said("A", CHAT.name), platform={"deny": [f"effect:{effect}"]})

    assert flags(snapshot.resolve(CHAT)) == "TTF"
    assert flags(snapshot.resolve(CHAT, facts=Facts(dynamic=frozenset({effect})))) == "FFF"


def test_effects_of_arguments_require_nothing_alone() -> None:
    """Ruling 3.8.2: without a rule that speaks of them they change nothing."""
    snapshot = policy(profile=said("A", PATCH.name))

    assert flags(snapshot.resolve(PATCH, facts=DELETING)) == "TTF"


def test_effects_of_arguments_never_grant_and_never_waive_what_stands_without_them() -> None:
    """Arguments can only raise the bar; a waiver by effect reaches only what they raised."""
    by_effect: Written = {"allow": ["effect:destructive"], "waive": ["effect:destructive"]}
    asked = native("workspace.apply_patch", Permission.APPROVAL_REQUIRED)
    careful: Written = {"allow": [PATCH.name], "require_approval": ["effect:destructive"]}

    assert flags(policy(user=by_effect).resolve(PATCH, facts=DELETING)) == "FFF"
    allowing = policy(user=by_effect, profile=said("A", asked.name))
    assert flags(allowing.resolve(asked, facts=DELETING)) == "TTT"
    assert flags(policy(user=by_effect, profile=careful).resolve(PATCH, facts=DELETING)) == "TTF"


def test_a_remembered_approval_covers_only_the_effects_it_was_given_for() -> None:
    """An approval of a patch without deletes does not stand for one with deletes."""
    asked = native("workspace.apply_patch", Permission.APPROVAL_REQUIRED)
    snapshot = policy(profile=said("A", asked.name))
    plain, deleting = Remembered(), Remembered(covers=DELETING.dynamic)

    assert flags(snapshot.resolve(asked, facts=Facts(remembered=plain))) == "TTF"
    stricter = Facts(remembered=plain, dynamic=DELETING.dynamic)
    assert flags(snapshot.resolve(asked, facts=stricter)) == "TTT"
    covered = Facts(remembered=deleting, dynamic=DELETING.dynamic)
    assert flags(snapshot.resolve(asked, facts=covered)) == "TTF"


@pytest.mark.parametrize(("layer", "left"), [("platform", True), ("user", True), ("plan", True)])
def test_a_remembered_approval_does_not_reach_the_strong_layers(layer: str, left: bool) -> None:
    """Platform, user and plan ask again each time."""
    snapshot = policy(
        profile=said("A", PATCH.name) if layer != "profile" else None,
        **{layer: said("q", PATCH.name)},
    )

    decision = snapshot.resolve(PATCH, facts=Facts(remembered=Remembered()))
    assert decision.approval_required is left


def test_a_call_that_repeats_an_unknown_outcome_needs_approval_despite_waivers() -> None:
    """The first effect may have happened; only a person who knows may let it happen again."""
    snapshot = policy(user=said("AW", ISSUE.name))
    facts = Facts(repeats_unknown=True, remembered=Remembered())

    decision = snapshot.resolve(ISSUE, facts=facts)

    assert flags(decision) == "TTT"
    assert decision.approval_required_by == (Layer.CONTEXT,)


@pytest.mark.parametrize(
    ("user", "profile", "approval"), [("-", "A", True), ("W", "A", False), ("-", "AW", False)]
)
def test_high_cost_asks_for_approval_unless_waived(user: str, profile: str, approval: bool) -> None:
    """Ruling 3.8.7: cost=high asks whatever the tool's permission says."""
    dear = native("image.paint", annotations=COSTLY)
    snapshot = policy(user=said(user, dear.name), profile=said(profile, dear.name))

    assert snapshot.resolve(dear).approval_required is approval


def test_a_requirement_beats_a_waiver_inside_one_layer() -> None:
    """Approval beats allow and waive inside a layer, whichever selector is more exact."""
    profile: Written = {"allow": ["workspace.*"], "require_approval": ["*"], "waive": [WIPE.name]}

    decision = policy(profile=profile).resolve(WIPE)

    assert decision.approval_required_by == (F, SPEC)


@pytest.mark.parametrize("kind", ["source", "extension"])
def test_an_extension_is_never_granted_by_plan_or_source(kind: str) -> None:
    """Ruling 3.8.4, with source:, extension: and exact selectors alike."""
    selector = {"source": "source:extension", "extension": "extension:dice"}[kind]
    allow: Written = {"allow": [selector]}

    assert flags(policy(plan=allow, source=allow).resolve(DICE)) == "FFF"
    decision = policy(plan=allow, source=allow, user=allow, profile=allow).resolve(DICE)
    assert decision.reason.layer is F


def test_a_compat_tool_is_never_granted_by_the_source_layer() -> None:
    """Ruling 3.8.4: hidden from the prompt, callable where profile or user allows it."""
    compat = Facts(lifecycle=Lifecycle.COMPAT, default_allow=True)

    assert flags(policy(source=said("A", CHAT.name)).resolve(CHAT, facts=compat)) == "FFF"
    decision = policy(profile=said("A", CHAT.name)).resolve(CHAT, facts=compat)
    assert (flags(decision), decision.exposed) == ("TTF", False)


def test_the_catalogs_default_set_is_a_grant_of_the_source_layer() -> None:
    """It counts like any source grant: not beside a profile's list, be it empty."""
    default = Facts(default_allow=True)

    assert policy().resolve(READ, facts=default).reason.layer is S
    assert flags(policy(profile={"allow": []}).resolve(READ, facts=default)) == "FFF"


@pytest.mark.parametrize("layer", ["platform", "plan"])
def test_an_empty_list_that_was_declared_denies_all(layer: str) -> None:
    """Ruling 3.8.3: allow_only = [] and a strict node with allow = [] let nothing through."""
    empty: dict[str, Written] = {
        "platform": {"allow_only": []},
        "plan": {"locked": True, "allow": []},
    }
    snapshot = policy(user={"allow": ["*"]}, **{layer: empty[layer]})

    assert flags(snapshot.resolve(CHAT)) == "FFF"


def test_a_strict_node_without_a_list_restricts_nothing() -> None:
    """Only a list can leave something out."""
    snapshot = policy(plan={"mode": "strict"}, profile=said("A", CHAT.name))

    assert flags(snapshot.resolve(CHAT)) == "TTF"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        (Facts(used=9, source_available=False, deferred=True), "budget.exhausted"),
        (Facts(source_available=False, deferred=True), "source.unavailable"),
        (Facts(deferred=True), "tool.not_loaded"),
        (Facts(deferred=True, always_visible=True), "allowed"),
    ],
)
def test_of_several_obstacles_the_most_lasting_is_the_reason(facts: Facts, code: str) -> None:
    """Ruling 3.8.6: budget, then source, then loading."""
    profile: Written = {"allow": [CHAT.name], "budget": {"max_calls_per_run": 9}}

    assert policy(profile=profile).resolve(CHAT, facts=facts).reason.code == code


def test_remaining_calls_are_never_negative_and_ties_go_to_the_first_layer() -> None:
    """Ruling 3.8.6."""
    cap: Written = {"budget": {"max_calls_per_run": 3, "timeout_ms": 15_000}}
    profile: Written = {**cap, "allow": [CHAT.name]}

    budget = policy(user=cap, profile=profile, source=cap).resolve(CHAT, facts=Facts(used=7)).budget

    assert budget.calls_remaining == 0
    assert budget.source_of["calls"] is U
    assert budget.source_of["timeout_ms"] is U
    assert budget.source_of["calls_turn"] is SPEC


@pytest.mark.parametrize(
    ("surface", "result"), [("core", "FFF"), ("workbench", "TTF"), ("browser_assist", "FFF")]
)
def test_a_tool_of_one_surface_is_on_no_other(surface: str, result: str) -> None:
    """A tool outside core exists only where its own surface is asked for."""
    snapshot = policy(profile=said("A", CHAT.name))
    facts = Facts(surfaces=frozenset({"workbench"}))

    decision = snapshot.resolve(CHAT, surface=surface, facts=facts)

    assert flags(decision) == result
    assert flags(snapshot.resolve(CHAT, surface=surface, facts=Facts(surfaces=None))) == "TTF"


def test_a_tool_of_core_is_on_every_surface() -> None:
    """`core` is always included when a surface is built."""
    snapshot = policy(profile=said("A", CHAT.name))

    decision = snapshot.resolve(
        CHAT, surface="workbench", facts=Facts(surfaces=frozenset({"core"}))
    )

    assert flags(decision) == "TTF"


@pytest.mark.parametrize("caller", list(Caller))
def test_visibility_and_callers_hold_for_every_caller(caller: Caller) -> None:
    """Internal is for the runtime, user_only for the user, an empty caller list for nobody."""
    nobody = native("chat.none", allowed_callers=())
    internal = native("chat.internal", visibility=Visibility.INTERNAL)
    mine = native("chat.mine", visibility=Visibility.USER_ONLY)
    snapshot = policy(profile={"allow": ["chat.*"]})

    def visible(tool: ToolSpec) -> bool:
        return snapshot.resolve(tool, caller=caller).visible

    assert not visible(nobody)
    assert visible(internal) is (caller is Caller.RUNTIME)
    assert visible(mine) is (caller is Caller.USER)


def test_a_cap_by_effect_holds_for_calls_whose_arguments_have_it() -> None:
    """A budget narrows, so effects of arguments count for it."""
    cap: Written = {"effect:destructive": {"max_calls_per_run": 1}}
    snapshot = policy(profile={"allow": [PATCH.name], "budgets": cap})

    assert snapshot.resolve(PATCH).budget.calls_remaining is None
    assert snapshot.resolve(PATCH, facts=DELETING).budget.calls_remaining == 1


def test_what_is_remembered_of_a_tool_keeps_trusted_and_untrusted_words_apart() -> None:
    """The same spec asked for with and without the operator's word for its tags."""
    tagged = mcp(tags=("repo",))
    snapshot = policy(profile={"allow": ["tag:repo"]})
    vouched = Facts(metadata_trusted=True)

    assert [flags(snapshot.resolve(tagged, facts=facts)) for facts in (None, vouched, None)] == [
        "FFF",
        "TTT",
        "FFF",
    ]


@pytest.mark.parametrize(
    ("profile", "user", "on_denied"),
    [
        ({"deny": ["chat.*"]}, {}, "fail_fast"),
        ({"deny": ["chat.*"], "on_denied": "return_result"}, {}, "return_result"),
        ({"deny": ["chat.*"], "on_denied": "return_result"}, {"deny": ["*"]}, "fail_fast"),
        ({"on_denied": "return_result"}, {"deny": ["*"]}, "fail_fast"),
        ({"on_denied": "return_result"}, {}, "return_result"),
        ({}, {}, "fail_fast"),
    ],
)
def test_the_denying_layer_says_what_a_denial_does(
    profile: Written, user: Written, on_denied: str
) -> None:
    """What no layer denies but none allows follows the profile."""
    assert policy(profile=profile, user=user).resolve(CHAT).on_denied == on_denied


def test_a_rule_may_say_otherwise_than_its_layer() -> None:
    """The rule that is the reason decides."""
    rule: Written = {
        "id": "soft",
        "effect": "deny",
        "tools": ["chat.*"],
        "on_denied": "return_result",
    }
    snapshot = policy(platform={"rules": [rule], "on_denied": "fail_fast"})

    assert snapshot.resolve(CHAT).on_denied == "return_result"
