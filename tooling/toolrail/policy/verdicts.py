"""What one layer says about one tool.

Is: matching a layer's statements against a tool, the rule "deny beats approval beats allow" inside
a layer, and the memory that keeps it off the hot path. Is not: the rules between layers
(`resolve.py`).
Above: `resolve.py`, `explain.py`, `examples.py`. Below: `layers.py`, `selectors.py`.

A verdict depends on the tool, on whether its metadata is trusted, and on the effects of the call's
arguments; never on counters, callers or surfaces. So it is computed once per layer and spec hash.
"""

from dataclasses import dataclass
from typing import Final

from toolrail.policy.budget import NO_CAPS, Caps, MergedCaps, caps_of, merge, smallest
from toolrail.policy.layers import Layers, PlanLayer, PlatformLayer, WrittenLayer
from toolrail.policy.rules import Say, Statement
from toolrail.policy.selectors import (
    Effect,
    Selector,
    SelectorKind,
    Subject,
    parse_selector,
    subject_of,
)
from toolrail_schemas import Layer, OnDenied, ReasonCode, ToolSpec

MEMORY_MAX_VERDICTS: Final = 20_000
"""Per layer. A process that sees more spec hashes than this starts to remember anew."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The first statement of a layer that says this about the tool."""

    rule: str
    selector: str | None = None
    reason: str | None = None
    on_denied: OnDenied | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one layer says about one tool.

    Attributes:
        denied: Why the tool is denied, and under which code.
        granted: What allows it; does not count when `denied`.
        exact: Whether something allows it by its exact name.
        required: What asks for approval.
        waived: What waives it; does not count when `required`.
        caps: The layer's caps that apply.
    """

    layer: Layer
    denied: Ruling | None = None
    code: ReasonCode = ReasonCode.DENY
    granted: Ruling | None = None
    exact: bool = False
    required: Ruling | None = None
    waived: Ruling | None = None
    caps: Caps = NO_CAPS

    @property
    def explicitly_denied(self) -> bool:
        """Whether a rule names the tool, rather than a cap or strict node leaving it out."""
        return self.denied is not None and self.code is ReasonCode.DENY

    @property
    def effect(self) -> Say | None:
        """`deny`, `allow` or None for unset."""
        if self.denied is not None:
            return Say.DENY
        return None if self.granted is None else Say.ALLOW


class CompiledLayer:
    """One layer with its selectors parsed and its verdicts remembered."""

    def __init__(self, layer: WrittenLayer) -> None:
        self.layer = layer
        self.kind = layer.KIND
        self.title = layer.KIND.value if layer.name is None else f"{layer.KIND} {layer.name}"
        self.on_denied = layer.on_denied or OnDenied.FAIL_FAST
        self.declares_grants = layer.declares_grants()
        self._statements = tuple(
            (parse_selector(statement.selector), statement) for statement in layer.statements()
        )
        self._caps = tuple((parse_selector(text), cap) for text, cap in layer.budgets.items())
        self._memory: dict[tuple[str, bool, frozenset[Effect]], Verdict] = {}

    def verdict(self, spec: ToolSpec, *, trusted: bool, dynamic: frozenset[Effect]) -> Verdict:
        """Return what the layer says about a call of the tool.

        Args:
            spec: The tool.
            trusted: Whether its tags and effects may widen.
            dynamic: Effects of the call's arguments.
        """
        key = (spec.spec_hash, trusted, dynamic)
        known = self._memory.get(key)
        if known is None:
            if len(self._memory) >= MEMORY_MAX_VERDICTS:
                self._memory.clear()
            known = self.judge(subject_of(spec, trusted=trusted, dynamic=dynamic))
            self._memory[key] = known
        return known

    def judge(self, subject: Subject) -> Verdict:
        """Return what the layer says about a tool, computed afresh."""
        first: dict[Say, Ruling] = {}
        exact = False
        for selector, statement in self._statements:
            for say in _said(selector, statement.say, subject):
                first.setdefault(say, _ruling(statement))
                exact = exact or (say is Say.ALLOW and selector.kind is SelectorKind.NAME)
        denied, code = self._denial(first, subject)
        return Verdict(
            layer=self.kind,
            denied=denied,
            code=code,
            granted=first.get(Say.ALLOW),
            exact=exact,
            required=first.get(Say.REQUIRE_APPROVAL),
            waived=None if Say.REQUIRE_APPROVAL in first else first.get(Say.WAIVE),
            caps=self._caps_for(subject),
        )

    def _denial(
        self, first: dict[Say, Ruling], subject: Subject
    ) -> tuple[Ruling | None, ReasonCode]:
        layer = self.layer
        explicit = first.get(Say.DENY)
        if explicit is not None:
            return explicit, ReasonCode.DENY
        if isinstance(layer, PlatformLayer) and layer.allow_only is not None:
            listed = (parse_selector(text) for text in layer.allow_only)
            if not any(selector.matches(subject, widening=True) for selector in listed):
                return Ruling("allow_only"), ReasonCode.PLATFORM_NOT_LISTED
        if isinstance(layer, PlanLayer) and layer.denies_unlisted and Say.ALLOW not in first:
            return Ruling("strict"), ReasonCode.PLAN_UNLISTED
        return None, ReasonCode.DENY

    def _caps_for(self, subject: Subject) -> Caps:
        own = () if self.layer.budget is None else (self.layer.budget,)
        matching = (
            cap for selector, cap in self._caps if selector.matches(subject, widening=False)
        )
        return smallest((*own, *matching))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What all five written layers say about one tool, and the caps of all six."""

    user: Verdict
    platform: Verdict
    plan: Verdict
    profile: Verdict
    source: Verdict
    caps: MergedCaps

    def in_order(self) -> tuple[Verdict, ...]:
        """Return the verdicts in the order in which denials are reported."""
        return (self.user, self.platform, self.plan, self.profile, self.source)


class CompiledLayers:
    """The five layers of a policy, ready to judge any tool."""

    def __init__(
        self,
        *,
        platform: CompiledLayer,
        user: CompiledLayer,
        plan: CompiledLayer,
        profile: CompiledLayer,
        source: CompiledLayer,
    ) -> None:
        self.platform = platform
        self.user = user
        self.plan = plan
        self.profile = profile
        self.source = source
        written = (platform, user, plan, profile, source)
        self._by_kind = {compiled.kind: compiled for compiled in written}
        self._memory: dict[tuple[str, bool, frozenset[Effect]], Verdicts] = {}

    @classmethod
    def of(cls, layers: Layers) -> "CompiledLayers":
        """Compile all five layers of a policy."""
        return cls(
            platform=CompiledLayer(layers.platform),
            user=CompiledLayer(layers.user),
            plan=CompiledLayer(layers.plan),
            profile=CompiledLayer(layers.profile),
            source=CompiledLayer(layers.source),
        )

    def with_plan(self, plan: PlanLayer) -> "CompiledLayers":
        """Return the same layers under another plan node, keeping what they remember."""
        return CompiledLayers(
            platform=self.platform,
            user=self.user,
            plan=CompiledLayer(plan),
            profile=self.profile,
            source=self.source,
        )

    def layer(self, kind: Layer) -> CompiledLayer:
        """Return one of the five written layers."""
        return self._by_kind[kind]

    def title(self, kind: Layer) -> str:
        """Return what to call a layer in a sentence, with the name of its profile or user."""
        known = self._by_kind.get(kind)
        if known is not None:
            return known.title
        return "the tool itself" if kind is Layer.SPEC else kind.value

    def verdicts(self, spec: ToolSpec, *, trusted: bool, dynamic: frozenset[Effect]) -> Verdicts:
        """Return what the layers say about a call of the tool.

        Args:
            spec: The tool.
            trusted: Whether its tags and effects may widen.
            dynamic: Effects of the call's arguments.
        """
        key = (spec.spec_hash, trusted, dynamic)
        known = self._memory.get(key)
        if known is None:
            known = self._judge(spec, trusted=trusted, dynamic=dynamic)
            if len(self._memory) >= MEMORY_MAX_VERDICTS:
                self._memory.clear()
            self._memory[key] = known
        return known

    def _judge(self, spec: ToolSpec, *, trusted: bool, dynamic: frozenset[Effect]) -> Verdicts:
        def of(layer: CompiledLayer) -> Verdict:
            return layer.verdict(spec, trusted=trusted, dynamic=dynamic)

        platform, user, plan = of(self.platform), of(self.user), of(self.plan)
        profile, source = of(self.profile), of(self.source)
        written = (platform, user, plan, profile, source)
        return Verdicts(
            user=user,
            platform=platform,
            plan=plan,
            profile=profile,
            source=source,
            caps=merge(
                [(verdict.layer, verdict.caps) for verdict in written]
                + [(Layer.SPEC, caps_of(spec.effective_budget))]
            ),
        )


def _said(selector: Selector, say: Say, subject: Subject) -> tuple[Say, ...]:
    """Split what a statement means into its parts that count for this tool.

    `approval` grants and requires. For an untrusted tool found by its own tag only the second part
    counts, so the parts are matched one by one.
    """
    narrows = selector.matches(subject, widening=False)
    if not narrows:
        return ()
    if say in {Say.DENY, Say.REQUIRE_APPROVAL}:
        return (say,)
    widens = selector.matches(subject, widening=True)
    if say is Say.APPROVAL:
        return (Say.ALLOW, Say.REQUIRE_APPROVAL) if widens else (Say.REQUIRE_APPROVAL,)
    return (say,) if widens else ()


def _ruling(statement: Statement) -> Ruling:
    return Ruling(
        rule=statement.rule,
        selector=statement.selector,
        reason=statement.reason,
        on_denied=statement.on_denied,
    )
