"""Laws of the resolver that hold for every policy, tool and fact.

Is: monotonicity, determinism, and agreement with the algorithm of semantics 3.3 written down once
more in letters. Is not: single cases (`test_policy_rows.py`).
Above: nothing. Below: `toolrail.policy`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.policies import DESTRUCTIVE, ext, flags, mcp, native, policy, said
from toolrail.policy.inputs import Facts, Remembered
from toolrail.policy.selectors import Effect
from toolrail.policy.snapshot import PolicySnapshot
from toolrail_schemas import (
    Annotations,
    HintedAnnotations,
    Lifecycle,
    Permission,
    PolicyDecision,
    Source,
    ToolSpec,
)

Written = dict[str, JsonValue]
TRUSTED = Annotations.worst_case(HintedAnnotations(destructive=False), trusted=True)
TOOLS = [
    native("a.plain", tags=("x",)),
    native("a.wipe", Permission.APPROVAL_REQUIRED, annotations=DESTRUCTIVE),
    native("b.never", Permission.DENY),
    native("skill.read", source=Source.SKILL, tags=("y",)),
    mcp("mcp.s.one", tags=("x",)),
    mcp("mcp.t.two", Permission.ALWAYS_ALLOW, annotations=TRUSTED, tags=("y",)),
    ext("ext.e.three"),
]
LAYERS = ("platform", "user", "plan", "profile", "source")
GRANTING = ("user", "plan", "profile", "source")

NAMES = [tool.name for tool in TOOLS]
selectors = st.sampled_from(
    [
        *NAMES,
        "a.*",
        "mcp.*",
        "*.one",
        "source:extension",
        "server:t",
        "tag:x",
        "tag:y",
        "effect:destructive",
        "effect:external",
    ]
)


def listed(values: Sequence[str]) -> JsonValue:
    """Return the values as a JSON list."""
    return [*values]


def table(values: Mapping[str, int]) -> JsonValue:
    """Return the values as a JSON table."""
    return {**values}


some = st.lists(selectors, max_size=2).map(listed)
one = st.lists(selectors, max_size=1).map(listed)
tools = st.sampled_from(TOOLS)
effects = st.frozensets(st.sampled_from(list(Effect)))
budgets = st.fixed_dictionaries({"max_calls_per_run": st.integers(0, 3)})


def layer(kind: str) -> st.SearchStrategy[Written]:
    """Return written layers of one kind."""
    keys: dict[str, st.SearchStrategy[JsonValue]] = {
        "deny": one,
        "require_approval": some,
        "budget": budgets.map(table),
    }
    if kind == "platform":
        keys["allow_only"] = some
    else:
        keys["allow"] = some
    if kind in {"user", "profile"}:
        keys["waive"] = some
    if kind == "plan":
        keys["mode"] = st.sampled_from(["free", "strict"])
    return st.fixed_dictionaries({}, optional=keys)


policies = st.fixed_dictionaries({kind: layer(kind) for kind in LAYERS})
facts = st.builds(
    Facts,
    lifecycle=st.sampled_from(Lifecycle),
    default_allow=st.booleans(),
    deferred=st.booleans(),
    loaded=st.booleans(),
    source_available=st.booleans(),
    dynamic=effects,
    remembered=st.none() | st.builds(Remembered, covers=effects),
    repeats_unknown=st.booleans(),
    used=st.integers(0, 3),
    metadata_trusted=st.sampled_from([None, True, False]),
)


def adding(layers: dict[str, Written], kind: str, key: str, selector: str) -> PolicySnapshot:
    """Return the policy with one more selector in one list."""
    written = dict(layers[kind])
    before = written.get(key)
    written[key] = [*(before if isinstance(before, list) else ()), selector]
    return policy(**{**layers, kind: written})


def is_no_wider(after: PolicyDecision, before: PolicyDecision) -> bool:
    """Return whether nothing is possible that was not, and no approval fell away."""
    asks = after.approval_required or not before.approval_required or not after.visible
    return after.visible <= before.visible and after.callable <= before.callable and asks


@given(policies, tools, facts, st.sampled_from(LAYERS), selectors)
def test_adding_a_denial_never_widens(
    layers: dict[str, Written], tool: ToolSpec, now: Facts, kind: str, selector: str
) -> None:
    """Whatever else is written, a further deny shows, allows and excuses nothing new."""
    before = policy(**layers).resolve(tool, facts=now)
    after = adding(layers, kind, "deny", selector).resolve(tool, facts=now)

    assert is_no_wider(after, before)


@given(policies, tools, facts, st.sampled_from(LAYERS), selectors)
def test_adding_a_requirement_never_widens(
    layers: dict[str, Written], tool: ToolSpec, now: Facts, kind: str, selector: str
) -> None:
    """To ask for approval grants nothing: approval is not a deny, and not an allow."""
    before = policy(**layers).resolve(tool, facts=now)
    after = adding(layers, kind, "require_approval", selector).resolve(tool, facts=now)

    assert is_no_wider(after, before)
    assert after.visible == before.visible


@given(policies, tools, facts, st.sampled_from(GRANTING), selectors)
def test_adding_an_allow_never_removes_an_approval(
    layers: dict[str, Written], tool: ToolSpec, now: Facts, kind: str, selector: str
) -> None:
    """Only a waiver does."""
    before = policy(**layers).resolve(tool, facts=now)
    after = adding(layers, kind, "allow", selector).resolve(tool, facts=now)

    assert after.approval_required or not (before.approval_required and after.visible)


@given(policies, tools, facts, st.sampled_from(["user", "profile"]), selectors)
def test_adding_a_waiver_changes_nothing_but_approval(
    layers: dict[str, Written], tool: ToolSpec, now: Facts, kind: str, selector: str
) -> None:
    """A waiver shows no tool, and adds no approval."""
    before = policy(**layers).resolve(tool, facts=now)
    after = adding(layers, kind, "waive", selector).resolve(tool, facts=now)

    assert (after.visible, after.callable) == (before.visible, before.callable)
    assert after.approval_required <= before.approval_required


@given(policies, tools, facts, st.sampled_from(LAYERS), budgets)
def test_a_smaller_cap_never_leaves_more_calls(
    layers: dict[str, Written], tool: ToolSpec, now: Facts, kind: str, cap: dict[str, int]
) -> None:
    """A budget of any layer narrows or does nothing."""
    before = policy(**layers).resolve(tool, facts=now)
    capped: Written = {**layers[kind], "budgets": {"*": table(cap)}}
    after = policy(**{**layers, kind: capped}).resolve(tool, facts=now)

    assert is_no_wider(after, before)
    assert after.budget.calls_remaining is not None
    left = before.budget.calls_remaining
    assert left is None or after.budget.calls_remaining <= left


@given(policies, tools, facts, effects)
def test_effects_of_arguments_never_widen(
    layers: dict[str, Written], tool: ToolSpec, now: Facts, more: frozenset[Effect]
) -> None:
    """No argument can talk a call into something, an approval away, or a budget up."""
    snapshot = policy(**layers)
    before = snapshot.resolve(tool, facts=now)
    after = snapshot.resolve(tool, facts=replace(now, dynamic=now.dynamic | more))

    assert is_no_wider(after, before)


@given(policies, facts, st.lists(st.sampled_from(["x", "y"]), unique=True))
def test_tags_of_an_untrusted_tool_never_widen(
    layers: dict[str, Written], now: Facts, tags: list[str]
) -> None:
    """A server cannot tag its tools into a permission."""
    snapshot, honest = policy(**layers), replace(now, metadata_trusted=None)
    before = snapshot.resolve(mcp("mcp.s.one"), facts=honest)
    after = snapshot.resolve(mcp("mcp.s.one", tags=tuple(tags)), facts=honest)

    assert is_no_wider(after, before)


@given(policies, tools, facts)
def test_a_remembered_approval_only_answers_questions(
    layers: dict[str, Written], tool: ToolSpec, now: Facts
) -> None:
    """It makes nothing visible or callable."""
    snapshot = policy(**layers)
    fresh = snapshot.resolve(tool, facts=replace(now, remembered=None))
    known = snapshot.resolve(tool, facts=now)

    assert (known.visible, known.callable) == (fresh.visible, fresh.callable)
    assert known.approval_required <= fresh.approval_required


@given(policies, tools, facts)
def test_the_same_question_has_the_same_bytes(
    layers: dict[str, Written], tool: ToolSpec, now: Facts
) -> None:
    """Fresh or remembered, with the plan from the start or put under it later."""
    snapshot = policy(**layers)
    first = snapshot.resolve(tool, facts=now).model_dump_json()
    planless = policy(**{**layers, "plan": {}})
    planless.resolve(tool, facts=now)

    assert snapshot.resolve(tool, facts=now).model_dump_json() == first
    assert policy(**layers).resolve(tool, facts=now).model_dump_json() == first
    later = planless.with_plan(snapshot.layers.plan)
    assert later.resolve(tool, facts=now).model_dump_json() == first
    assert later.policy_hash == snapshot.policy_hash


letters = st.sampled_from(["-", "A", "D", "Q", "q"])
waiving = st.sampled_from(["-", "A", "D", "Q", "q", "W", "AW"])


@given(st.sampled_from(["-", "D", "q"]), waiving, letters, waiving, letters, tools, st.booleans())
def test_the_resolver_agrees_with_the_algorithm_in_letters(
    platform: str,
    user: str,
    plan: str,
    profile: str,
    source: str,
    tool: ToolSpec,
    remembered: bool,
) -> None:
    """Semantics 3.3 in ten lines, for every combination of letters on every kind of tool."""
    written = {
        "platform": platform,
        "user": user,
        "plan": plan,
        "profile": profile,
        "source": source,
    }
    snapshot = policy(**{kind: said(word, tool.name) for kind, word in written.items()})
    decision = snapshot.resolve(tool, facts=Facts(remembered=Remembered() if remembered else None))

    foreign, extension = tool.source in {Source.MCP, Source.EXTENSION}, tool.source == "extension"
    denied = tool.permission == "deny" or "D" in written.values()
    grants = {kind for kind, word in written.items() if set(word) & {"A", "Q"}}
    if extension:
        grants -= {"plan", "source"}
    if "profile" in grants:
        grants -= {"source"}
    asks = {kind for kind, word in written.items() if word in {"Q", "q"}}
    waived = "W" in user or remembered
    own = tool.permission == "approval_required" and not ("W" in profile and not foreign)
    strong = asks & {"platform", "user", "plan"}
    approval = bool(strong or ((asks & {"profile", "source"} or own) and not waived))
    visible = bool(grants) and not denied

    expected = "FFF" if not visible else f"TT{'T' if approval else 'F'}"
    assert flags(decision) == expected
