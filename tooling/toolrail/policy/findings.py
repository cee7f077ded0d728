"""Everything the layers and facts have to say about one question, before a conclusion is drawn.

Is: denials, grants, requirements of approval and their waivers, in order of precedence. Is not:
the conclusion (`resolve.py`) or its telling (`explain.py`).
Above: `resolve.py`, `explain.py`. Below: `verdicts.py`, `inputs.py`.

Effects of a call's arguments may only raise the bar. So the layers are asked twice when there are
any, without and with them, and the stricter answer counts: a denial or a requirement in either, a
grant only in the first. An `allow` or `waive` that matches just because of the arguments then
cannot undo what holds for the tool without them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from toolrail.policy.budget import MergedCaps
from toolrail.policy.inputs import CORE_SURFACE, NO_EFFECTS, PolicyInput
from toolrail.policy.verdicts import Ruling, Verdict, Verdicts
from toolrail_schemas import (
    Caller,
    Cost,
    Layer,
    Lifecycle,
    OnDenied,
    Permission,
    ReasonCode,
    Source,
    Visibility,
)

OWN_SOURCES: Final = frozenset({Source.BUILTIN, Source.SKILL})
"""Sources whose own caution a profile may waive."""

WARNING_MAX_CHARS: Final = 256

DEFAULT_ALLOW: Final = Ruling("catalog default_allow")


@dataclass(frozen=True, slots=True)
class Denial:
    """One voice against the tool."""

    layer: Layer
    code: ReasonCode
    ruling: Ruling
    on_denied: OnDenied


@dataclass(frozen=True, slots=True)
class Grant:
    """One voice for the tool that counts."""

    layer: Layer
    ruling: Ruling


@dataclass(frozen=True, slots=True)
class Requirement:
    """One voice that asks for approval.

    Attributes:
        waived_by: Who removed it, in words; None when it stands.
    """

    layer: Layer
    rule: str
    waived_by: str | None = None


@dataclass(frozen=True, slots=True)
class Findings:
    """All voices, the strongest of each kind first."""

    denials: tuple[Denial, ...]
    grants: tuple[Grant, ...]
    requirements: tuple[Requirement, ...]
    warnings: tuple[str, ...]
    caps: MergedCaps
    base: Verdicts
    full: Verdicts


def find(query: PolicyInput) -> Findings:
    """Return everything that bears on the question."""
    dynamic = query.facts.dynamic
    base = query.layers.verdicts(query.spec, trusted=query.trusted, dynamic=NO_EFFECTS)
    full = base
    if dynamic:
        full = query.layers.verdicts(query.spec, trusted=query.trusted, dynamic=dynamic)
    grants = tuple(_grants(query, base))
    return Findings(
        denials=_denials(query, base, full),
        grants=grants,
        requirements=_requirements(query, base, full),
        warnings=_warnings(query, full, granted=bool(grants)),
        caps=full.caps,
        base=base,
        full=full,
    )


def _denials(query: PolicyInput, base: Verdicts, full: Verdicts) -> tuple[Denial, ...]:
    hidden = _hidden(query)
    if hidden is not None:
        return (hidden,)
    explicit: list[Denial] = []
    caps: list[Denial] = []
    for plain, strict in zip(base.in_order(), full.in_order(), strict=True):
        verdict = strict if strict.explicitly_denied else plain
        if verdict.denied is not None:
            denial = _layer_denial(query, verdict, verdict.denied)
            (explicit if verdict.explicitly_denied else caps).append(denial)
    if query.spec.permission is Permission.DENY:
        explicit.append(_fact_denial(query, Layer.SPEC, ReasonCode.DENY, "permission"))
    return (*explicit, *caps, *_fact_denials(query, base))


def _hidden(query: PolicyInput) -> Denial | None:
    visibility, caller = query.spec.visibility, query.caller
    if visibility is Visibility.INTERNAL and caller is not Caller.RUNTIME:
        return _fact_denial(query, Layer.SPEC, ReasonCode.NOT_MODEL_VISIBLE, "visibility")
    if visibility is Visibility.USER_ONLY and caller is not Caller.USER:
        return _fact_denial(query, Layer.SPEC, ReasonCode.USER_ONLY, "visibility")
    return None


def _fact_denials(query: PolicyInput, base: Verdicts) -> Iterator[Denial]:
    facts = query.facts
    callers = query.spec.surface_meta.allowed_callers
    if callers is not None and query.caller not in callers:
        yield _fact_denial(query, Layer.CONTEXT, ReasonCode.CONTEXT_CALLER, "allowed_callers")
    surfaces = facts.surfaces
    if surfaces is not None and not surfaces & {CORE_SURFACE, query.surface}:
        yield _fact_denial(query, Layer.CATALOG, ReasonCode.CATALOG_SURFACE, "surfaces")
    elif facts.lifecycle is Lifecycle.DEPRECATED and not _allowed_by_name(query, base):
        yield _fact_denial(query, Layer.CATALOG, ReasonCode.CATALOG_DEPRECATED, "lifecycle")


def _layer_denial(query: PolicyInput, verdict: Verdict, ruling: Ruling) -> Denial:
    layer = query.layers.layer(verdict.layer)
    return Denial(verdict.layer, verdict.code, ruling, ruling.on_denied or layer.on_denied)


def _fact_denial(query: PolicyInput, layer: Layer, code: ReasonCode, rule: str) -> Denial:
    """Return a denial no written layer made; the profile says what it does to the run."""
    return Denial(layer, code, Ruling(rule), query.layers.profile.on_denied)


def why_void(query: PolicyInput, layer: Layer) -> str | None:
    """Return why a grant of this layer would not count for this tool; None when it would."""
    if layer is Layer.PLATFORM:
        return "the platform caps and never grants"
    if query.spec.source is Source.EXTENSION and layer not in {Layer.PROFILE, Layer.USER}:
        return "only profile and user can grant extension tools"
    if layer is not Layer.SOURCE:
        return None
    if query.facts.lifecycle is Lifecycle.COMPAT:
        return "a compat tool is never granted by the source layer"
    if query.layers.profile.declares_grants:
        return "the profile has a list of its own"
    return None


def _counting(query: PolicyInput, base: Verdicts) -> Iterator[Verdict]:
    """Yield the layers whose grant would count for this tool, in order of precedence."""
    for verdict in (base.plan, base.profile, base.user, base.source):
        if why_void(query, verdict.layer) is None:
            yield verdict


def _grants(query: PolicyInput, base: Verdicts) -> Iterator[Grant]:
    for verdict in _counting(query, base):
        if verdict.granted is not None:
            yield Grant(verdict.layer, verdict.granted)
        elif verdict.layer is Layer.SOURCE and query.facts.default_allow:
            yield Grant(Layer.SOURCE, DEFAULT_ALLOW)


def _allowed_by_name(query: PolicyInput, base: Verdicts) -> bool:
    return any(verdict.exact for verdict in _counting(query, base))


def _requirements(query: PolicyInput, base: Verdicts, full: Verdicts) -> tuple[Requirement, ...]:
    found = {requirement.layer: requirement for requirement in _asking(query, base)}
    if full is not base:
        for requirement in _asking(query, full):
            known = found.get(requirement.layer)
            if known is None or known.waived_by is not None:
                found[requirement.layer] = requirement
    order = list(Layer)
    return tuple(sorted(found.values(), key=lambda requirement: order.index(requirement.layer)))


def _asking(query: PolicyInput, verdicts: Verdicts) -> Iterator[Requirement]:
    for verdict in (verdicts.platform, verdicts.user, verdicts.plan):
        if verdict.required is not None:
            yield Requirement(verdict.layer, verdict.required.rule)
    waiver = _full_waiver(query, verdicts)
    for verdict in (verdicts.profile, verdicts.source):
        if verdict.required is not None:
            yield Requirement(verdict.layer, verdict.required.rule, waiver)
    rule = _asked_by_tool(query)
    if rule is not None:
        yield Requirement(Layer.SPEC, rule, waiver or _profile_waiver(query, verdicts))
    if query.facts.repeats_unknown:
        yield Requirement(Layer.CONTEXT, "an equal call of this run may have taken effect")


def _full_waiver(query: PolicyInput, verdicts: Verdicts) -> str | None:
    if verdicts.user.waived is not None:
        return f"user rule {verdicts.user.waived.rule}"
    return "an earlier approval" if query.facts.approval_remembered else None


def _profile_waiver(query: PolicyInput, verdicts: Verdicts) -> str | None:
    waived = verdicts.profile.waived
    if waived is None or query.spec.source not in OWN_SOURCES:
        return None
    return f"profile rule {waived.rule}"


def _asked_by_tool(query: PolicyInput) -> str | None:
    if query.spec.permission is Permission.APPROVAL_REQUIRED:
        return "permission"
    return "cost" if query.spec.annotations.cost is Cost.HIGH else None


def _warnings(query: PolicyInput, full: Verdicts, *, granted: bool) -> tuple[str, ...]:
    found: list[str] = []
    waived, source = full.profile.waived, query.spec.source
    if waived is not None and source not in OWN_SOURCES:
        found.append(f"profile rule {waived.rule} cannot waive approvals of {source.value} tools")
    if granted and query.facts.lifecycle is Lifecycle.DEPRECATED:
        found.append("the tool is deprecated and only usable because it is allowed by name")
    return tuple(text[:WARNING_MAX_CHARS] for text in found)
