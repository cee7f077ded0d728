"""Say what a tool may do to the world, and never believe an untrusted hint that loosens it.

Is: the effect vocabulary, `Annotations` and the rules of semantics 1.2.
Is not: a decision; the policy resolver reads this and decides.
Above: `tool.py`, policy, the ledger's retry rule. Below: `_base.py`.
"""

from enum import StrEnum
from typing import Self, cast

from pydantic import model_validator

from toolrail_schemas._base import Flag, WireModel


class SideEffect(StrEnum):
    """Where a call leaves a trace."""

    NONE = "none"
    WORKSPACE = "workspace"
    CHAT = "chat"
    EXTERNAL = "external"
    CONTROL = "control"


class Cost(StrEnum):
    """What a call costs; `high` needs approval by default."""

    FREE = "free"
    LOW = "low"
    HIGH = "high"


class Rollback(StrEnum):
    """How the effect of a call can be taken back."""

    NOT_NEEDED = "not_needed"
    CHECKPOINT = "checkpoint"
    NONE = "none"


_UNDOABLE_BY_NATURE = frozenset({SideEffect.NONE, SideEffect.CONTROL})


class HintedAnnotations(WireModel):
    """What an MCP server or an extension says about its tool; null means it said nothing."""

    read_only: Flag | None = None
    destructive: Flag | None = None
    idempotent: Flag | None = None
    open_world: Flag | None = None
    cost: Cost | None = None
    cancellable: Flag | None = None

    @property
    def contradicts_itself(self) -> bool:
        """Whether both hints were declared that exclude each other; it counts as destructive."""
        return self.read_only is True and self.destructive is True


class Annotations(WireModel):
    """The effects of one tool. The defaults are the worst case, as MCP asks for missing hints."""

    read_only: Flag = False
    """Changes nothing observable. Implies `side_effect=none` and `rollback=not_needed`."""
    destructive: Flag = True
    """May remove or overwrite data."""
    idempotent: Flag = False
    """The same arguments again have no further effect; a lost attempt may be retried."""
    open_world: Flag = True
    """Talks to something outside the workspace."""
    side_effect: SideEffect = SideEffect.EXTERNAL
    """Derived when absent: read_only -> none, open_world -> external, else workspace."""
    cost: Cost = Cost.LOW
    rollback: Rollback = Rollback.NONE
    """Derived when absent: read_only -> not_needed, else none."""
    cancellable: Flag = False
    """A cancel may interrupt the tool midway."""
    trusted: Flag = False
    """True for builtin tools and for servers the operator marked trusted."""

    @classmethod
    def for_builtin(
        cls,
        *,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        open_world: bool = False,
        side_effect: SideEffect | None = None,
        cost: Cost = Cost.LOW,
        rollback: Rollback | None = None,
        cancellable: bool = True,
    ) -> Self:
        """Return the annotations of our own tool, which are believed as declared.

        A mutating tool must name its `rollback` (`checkpoint` or `none`).

        Raises:
            ValueError: A mutating tool without `rollback`, or contradicting effects.
        """
        declared: dict[str, object] = {
            "read_only": read_only,
            "destructive": destructive,
            "idempotent": idempotent,
            "open_world": open_world,
            "side_effect": side_effect,
            "cost": cost,
            "rollback": rollback,
            "cancellable": cancellable,
            "trusted": True,
        }
        if rollback is None and not read_only and side_effect not in _UNDOABLE_BY_NATURE:
            raise ValueError("a mutating tool says rollback='checkpoint' or rollback='none'")
        return cls.model_validate(declared)

    @classmethod
    def worst_case(cls, hints: HintedAnnotations | None = None, *, trusted: bool = False) -> Self:
        """Return the annotations of a third party's tool.

        Missing hints count as the worst case. Hints of an untrusted source may only tighten, so
        of those only `cost=high` and `cancellable` are taken.
        """
        said = hints or HintedAnnotations()
        if trusted:
            known = said.model_dump(exclude_none=True)
            known.setdefault("cancellable", False)
            return cls.model_validate({**known, "trusted": True})
        return cls(
            cost=Cost.HIGH if said.cost is Cost.HIGH else Cost.LOW,
            cancellable=said.cancellable is True,
        )

    @property
    def retry_safe(self) -> bool:
        """Whether a lost attempt may run again: only on trusted words."""
        return self.trusted and (self.read_only or self.idempotent)

    @model_validator(mode="before")
    @classmethod
    def _derive(cls, data: object) -> object:
        """Fill what follows from the declared hints; two contradicting hints mean destructive."""
        if not isinstance(data, dict):
            return data
        declared = cast("dict[str, object]", data)
        hints = {key: value for key, value in declared.items() if value is not None}
        read_only = hints.get("read_only") is True
        if read_only and hints.get("destructive") is True:
            read_only = False
            hints["read_only"] = False
            hints.pop("side_effect", None)
            hints.pop("rollback", None)
        if read_only:
            hints.setdefault("destructive", False)
            hints.setdefault("side_effect", SideEffect.NONE)
            hints.setdefault("rollback", Rollback.NOT_NEEDED)
        elif hints.get("open_world") is False:
            hints.setdefault("side_effect", SideEffect.WORKSPACE)
        if hints.get("side_effect") in _UNDOABLE_BY_NATURE:
            hints.setdefault("rollback", Rollback.NOT_NEEDED)
        return hints

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.read_only and self.side_effect is not SideEffect.NONE:
            raise ValueError(f"read_only contradicts side_effect={self.side_effect}")
        if self.read_only and self.rollback is not Rollback.NOT_NEEDED:
            raise ValueError(f"read_only contradicts rollback={self.rollback}")
        if self.rollback is Rollback.NOT_NEEDED and self.side_effect not in _UNDOABLE_BY_NATURE:
            raise ValueError("a mutating tool says rollback='checkpoint' or rollback='none'")
        if not self.trusted and self._loosened():
            raise ValueError(
                "an untrusted source may only tighten: build its annotations with "
                "Annotations.worst_case(hints)"
            )
        return self

    def _loosened(self) -> bool:
        return (
            self.read_only
            or self.idempotent
            or not self.destructive
            or not self.open_world
            or self.side_effect is not SideEffect.EXTERNAL
            or self.rollback is not Rollback.NONE
            or self.cost is Cost.FREE
        )
