"""What each layer of a policy may say, as frozen models.

Is: the models of the five written layers, and every check that needs one layer only. The same
models read TOML files, plan nodes of a run and stored snapshots. Is not: matching (`verdicts.py`),
the rules between layers (`resolve.py`), files and line numbers (`load.py`).
Above: `verdicts.py`, `snapshot.py`, `load.py`. Below: `rules.py`, `toolrail_schemas`.

A layer speaks in three ways, all equal: plain lists (`deny = [...]`), the table `[tools]` with one
word for each selector, and `[[rules]]` with an id, a reason and examples. Inside one layer deny
beats approval beats allow, wherever it is written and however exact the selector.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Self

from pydantic import Field, StrictBool, field_validator, model_validator

from toolrail.policy.approvers import ApprovalRules
from toolrail.policy.rules import (
    LAYER_MAX_RULES,
    LayerLabel,
    PolicyModel,
    Rule,
    Say,
    SelectorSet,
    SelectorText,
    Sentence,
    Statement,
)
from toolrail.policy.selectors import PolicyTextError, parse_selector
from toolrail_schemas import Budget, Layer, OnDenied


class PlanMode(StrEnum):
    """How binding a plan node is; in a strict one, what it does not list is denied."""

    FREE = "free"
    HYBRID = "hybrid"
    STRICT = "strict"


class WrittenLayer(PolicyModel):
    """What every written layer may hold. The subclasses add what only they may say."""

    KIND: ClassVar[Layer]
    MAY_NOT: ClassVar[Mapping[Say, str]] = {}
    """Effects this layer may not have, each with what to do instead."""
    MISPLACED: ClassVar[Mapping[str, str]] = {}
    """Keys of other layers, each with what to do instead."""
    NO_STAR: ClassVar[bool] = False
    """Whether granting every tool at once is refused."""

    name: LayerLabel | None = None
    """Whose layer it is: a profile, a user, a plan node."""
    description: Sentence | None = None
    deny: SelectorSet = ()
    require_approval: SelectorSet = ()
    tools: Mapping[SelectorText, Say] = Field(default={}, max_length=LAYER_MAX_RULES)
    rules: Annotated[tuple[Rule, ...], Field(max_length=LAYER_MAX_RULES)] = ()
    on_denied: OnDenied | None = None
    """What a denial by this layer does. Default: `fail_fast`."""
    budget: Budget | None = None
    """Caps for every tool."""
    budgets: Mapping[SelectorText, Budget] = Field(default={}, max_length=LAYER_MAX_RULES)
    """Caps for the tools a selector names. The smallest cap holds."""

    @field_validator("tools", "budgets")
    @classmethod
    def _sorted(cls, table: Mapping[str, object]) -> Mapping[str, object]:
        """Keep one order, so that nothing depends on how the file was written."""
        return dict(sorted(table.items()))

    @model_validator(mode="after")
    def _may_say_that(self) -> Self:
        seen: set[str] = set()
        for index, rule in enumerate(self.rules):
            if rule.id in seen:
                raise PolicyTextError(
                    f"{rule.id!r} is the id of an earlier rule too",
                    "Give each rule of a layer its own id.",
                    key=("rules", index, "id"),
                )
            seen.add(rule.id)
        for statement in self.statements():
            self._check(statement)
        self._check_budgets()
        return self

    def _check_budgets(self) -> None:
        tables: list[tuple[tuple[str | int, ...], Budget]] = []
        if self.budget is not None:
            tables.append((("budget",), self.budget))
        tables += [(("budgets", selector), budget) for selector, budget in self.budgets.items()]
        for key, budget in tables:
            if budget.max_concurrency is not None:
                raise PolicyTextError(
                    "a policy cannot set it; workers take concurrency from the tool's own budget",
                    "Set it where the tool or server is declared.",
                    key=(*key, "max_concurrency"),
                )

    def _check(self, statement: Statement) -> None:
        instead = self.MAY_NOT.get(statement.say)
        if instead is not None:
            raise PolicyTextError(
                f"the {self.KIND} layer may not {statement.say.phrase}", instead, key=statement.key
            )
        everything = parse_selector(statement.selector).matches_everything
        if self.NO_STAR and statement.say.grants and everything:
            raise PolicyTextError(
                f"{statement.selector!r} grants every tool at once, which a {self.KIND} may not",
                'Name groups or sources, such as "workspace.*" or "source:builtin".',
                key=statement.key,
            )

    def lists(self) -> tuple[tuple[Say, tuple[str, ...]], ...]:
        """Return the plain lists with what being on them means."""
        return ((Say.DENY, self.deny), (Say.REQUIRE_APPROVAL, self.require_approval))

    def statements(self) -> Iterator[Statement]:
        """Yield everything the layer says, in the order in which the first match is reported."""
        for index, rule in enumerate(self.rules):
            for position, selector in enumerate(rule.tools):
                yield Statement(
                    say=rule.effect,
                    selector=selector,
                    rule=rule.id,
                    key=("rules", index, "tools", position),
                    on_denied=rule.on_denied,
                    reason=rule.reason,
                )
        for selector, say in self.tools.items():
            yield Statement(say, selector, f"tools[{selector}]", ("tools", selector))
        for say, selectors in self.lists():
            for selector in selectors:
                yield Statement(say, selector, f"{say}[{selector}]", (say.value, selector))

    def cap_selectors(self) -> Iterator[tuple[str, tuple[str | int, ...]]]:
        """Yield the selectors that only limit, with their keys: those of budgets and caps."""
        for selector in self.budgets:
            yield selector, ("budgets", selector)

    def declares_grants(self) -> bool:
        """Return whether the layer has a list of what it allows, be it an empty one."""
        return any(statement.say.grants for statement in self.statements())


_WAIVE_ELSEWHERE: Final = (
    "Waive in users/<user>.toml or, for builtin and skill tools only, in a profile."
)
_CAP_ELSEWHERE: Final = "Only platform.toml caps with allow_only; use deny here."
_APPROVERS_ELSEWHERE: Final = "Only platform.toml says who approves."


class PlatformLayer(WrittenLayer):
    """Rules and hard caps of the operator; nobody overrides them, and they grant nothing."""

    KIND: ClassVar[Layer] = Layer.PLATFORM
    MAY_NOT: ClassVar[Mapping[Say, str]] = {
        Say.ALLOW: "Cap with allow_only, and allow in source.toml, a profile or a user file.",
        Say.APPROVAL: "Write require_approval, which asks a person and grants nothing.",
        Say.WAIVE: _WAIVE_ELSEWHERE,
    }
    MISPLACED: ClassVar[Mapping[str, str]] = {
        "allow": MAY_NOT[Say.ALLOW],
        "waive": _WAIVE_ELSEWHERE,
    }

    allow_only: SelectorSet | None = None
    """When given, every tool that is not on it is denied; an empty list denies all."""
    approvals: ApprovalRules = ApprovalRules()
    """Who decides about parked calls, and how long they have."""

    def cap_selectors(self) -> Iterator[tuple[str, tuple[str | int, ...]]]:
        """Yield the selectors of budgets and of `allow_only`."""
        yield from super().cap_selectors()
        for selector in self.allow_only or ():
            yield selector, ("allow_only", selector)


class _GrantingLayer(WrittenLayer):
    """A layer that may allow."""

    allow: SelectorSet | None = None
    """What the layer grants. An empty list is a list: it grants nothing, and says so."""

    def lists(self) -> tuple[tuple[Say, tuple[str, ...]], ...]:
        """Return the plain lists with what being on them means."""
        return (*super().lists(), (Say.ALLOW, self.allow or ()))

    def declares_grants(self) -> bool:
        """Return whether the layer has a list of what it allows, be it an empty one."""
        return self.allow is not None or super().declares_grants()


class SourceLayer(_GrantingLayer):
    """Defaults for each source of tools; the weakest grant, void when a profile has a list."""

    KIND: ClassVar[Layer] = Layer.SOURCE
    MAY_NOT: ClassVar[Mapping[Say, str]] = {Say.WAIVE: _WAIVE_ELSEWHERE}
    MISPLACED: ClassVar[Mapping[str, str]] = {
        "waive": _WAIVE_ELSEWHERE,
        "allow_only": _CAP_ELSEWHERE,
        "approvals": _APPROVERS_ELSEWHERE,
    }


class PlanLayer(_GrantingLayer):
    """The current plan node of a run."""

    KIND: ClassVar[Layer] = Layer.PLAN
    MAY_NOT: ClassVar[Mapping[Say, str]] = {Say.WAIVE: _WAIVE_ELSEWHERE}
    MISPLACED: ClassVar[Mapping[str, str]] = {
        "waive": _WAIVE_ELSEWHERE,
        "allow_only": 'Write allow together with mode = "strict".',
        "allowed_tools": "Write allow.",
        "approvals": _APPROVERS_ELSEWHERE,
    }
    NO_STAR: ClassVar[bool] = True

    mode: PlanMode = PlanMode.FREE
    locked: StrictBool = False
    """The same as `mode = "strict"`."""

    @property
    def denies_unlisted(self) -> bool:
        """Whether a tool that the node does not allow is denied by it."""
        return (self.locked or self.mode is PlanMode.STRICT) and self.declares_grants()


class _WaivingLayer(_GrantingLayer):
    """A layer that may also waive approvals."""

    waive: SelectorSet = ()
    """Tools that need no approval, as far as this layer may say so."""

    def lists(self) -> tuple[tuple[Say, tuple[str, ...]], ...]:
        """Return the plain lists with what being on them means."""
        return (*super().lists(), (Say.WAIVE, self.waive))


class ProfileLayer(_WaivingLayer):
    """What one kind of agent may use. Its waivers reach builtin and skill tools only."""

    KIND: ClassVar[Layer] = Layer.PROFILE
    MISPLACED: ClassVar[Mapping[str, str]] = {
        "allow_only": _CAP_ELSEWHERE,
        "approvals": _APPROVERS_ELSEWHERE,
    }
    NO_STAR: ClassVar[bool] = True


class UserLayer(_WaivingLayer):
    """The settings of one person: the strongest denial, and the only full waiver."""

    KIND: ClassVar[Layer] = Layer.USER
    MISPLACED: ClassVar[Mapping[str, str]] = {
        "allow_only": _CAP_ELSEWHERE,
        "approvals": _APPROVERS_ELSEWHERE,
    }


class Layers(PolicyModel):
    """The five written layers of one run. The tool itself and its counters are the other two."""

    platform: PlatformLayer = PlatformLayer()
    user: UserLayer = UserLayer()
    plan: PlanLayer = PlanLayer()
    profile: ProfileLayer = ProfileLayer()
    source: SourceLayer = SourceLayer()
