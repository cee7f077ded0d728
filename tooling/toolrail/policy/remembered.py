"""What a run remembers of the approvals given for the rest of it.

Is: the value kept in the run's record per tool and version, and whether a question may get one.
Is not: whether it covers a call; the resolver decides that. Above: approvals, the dispatcher.
Below: `inputs.py`, `selectors.py`, the schemas.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, cast

import orjson

from toolrail.policy.inputs import Remembered
from toolrail.policy.selectors import Effect
from toolrail_schemas import ApprovalScope, JsonObject, Layer, PolicyDecision

NOT_ASKED = "-"
"""For the ledger: what the run remembers does not bear on this call."""
TOLD_OF_UNKNOWN = "!"
"""For the ledger: the person is told that an equal call of the run may have taken effect."""
_WAIVABLE = frozenset({Layer.PROFILE, Layer.SOURCE, Layer.SPEC})
"""Only what these ask for can be answered in advance. Source: semantics 3.3, step 3."""


def offered_scopes(decision: PolicyDecision) -> tuple[ApprovalScope, ...]:
    """Return what a person may choose; a stronger layer wants to be asked each time."""
    if decision.approval_required and _WAIVABLE.issuperset(decision.approval_required_by):
        return (ApprovalScope.ONCE, ApprovalScope.RUN)
    return (ApprovalScope.ONCE,)


def memory_field(tool: str, spec_hash: str) -> str:
    """Return the field of the run's record; the Lua prelude spells it in the same way."""
    return f"remembered:{tool}:{spec_hash}"


@dataclass(frozen=True, slots=True)
class RememberedApproval:
    """One decision for the rest of its run."""

    approval_id: str
    by: str
    at_ms: int
    covers: frozenset[Effect]
    """Effects of the arguments that were approved; a call with others is asked about again."""

    @classmethod
    def loads(cls, text: str) -> Self:
        """Return the decision that `dumps` wrote."""
        value = cast("JsonObject", orjson.loads(text))
        covers = cast("list[str]", value["covers"])
        return cls(
            approval_id=str(value["approval_id"]),
            by=str(value["by"]),
            at_ms=int(cast("int", value["at_ms"])),
            covers=frozenset(map(Effect, covers)),
        )

    def dumps(self) -> str:
        """Return the decision as text; equal decisions have equal texts."""
        return orjson.dumps(
            {
                "approval_id": self.approval_id,
                "by": self.by,
                "at_ms": self.at_ms,
                "covers": effect_names(self.covers),
            }
        ).decode()

    @property
    def as_fact(self) -> Remembered:
        """The decision as the policy resolver takes it."""
        return Remembered(covers=self.covers)


def effect_names(effects: Iterable[Effect]) -> list[str]:
    """Return effects as words, in one order."""
    return sorted(effect.value for effect in effects)
