"""What the resolver is asked.

Is: the input of `resolve`: the tool, who asks, the layers, and the facts that other planes and the
ledger know. Is not: a place that looks any of them up.
Above: `resolve.py`, `explain.py`, the dispatcher. Below: `verdicts.py`, `toolrail_schemas`.
"""

from dataclasses import dataclass, field
from typing import Final

from toolrail.policy.selectors import Effect
from toolrail.policy.verdicts import CompiledLayers
from toolrail_schemas import Caller, Lifecycle, ToolSpec

CORE_SURFACE: Final = "core"
"""Part of every surface."""

NO_EFFECTS: Final[frozenset[Effect]] = frozenset()


@dataclass(frozen=True, slots=True)
class Remembered:
    """An earlier approval of this tool and spec hash that may stand for a new one.

    Attributes:
        covers: Effects of the arguments that were approved. A call with further effects is not
            covered: approving patches without deletes says nothing about deletes.
    """

    covers: frozenset[Effect] = NO_EFFECTS


@dataclass(frozen=True, slots=True)
class Facts:
    """What is true now about the tool and the call. The defaults are those of a plain tool.

    Attributes:
        lifecycle: As the catalog says; tools it does not know are current.
        surfaces: Surfaces the tool belongs to; None for tools that belong to all.
        default_allow: Whether it is in the catalog's small default set of this surface.
        deferred: Whether its schema waits for a search, as the context plane resolved it.
        loaded: Whether a search loaded it in this run.
        always_visible: Whether it is never deferred, as the context plane resolved it.
        source_available: Whether something can execute it now.
        dynamic: Effects of this call's arguments; empty when there is no call yet.
        remembered: An earlier approval that may stand for this one.
        repeats_unknown: Whether a call of this run with the same tool and arguments ended as
            `tool.outcome_unknown`, so that its effect may have happened.
        used: Calls of this tool reserved in this run so far.
        used_turn: Calls of this tool requested in this turn so far.
        metadata_trusted: Whether tags and hints may widen; None asks the tool's annotations.
    """

    lifecycle: Lifecycle = Lifecycle.CURRENT
    surfaces: frozenset[str] | None = None
    default_allow: bool = False
    deferred: bool = False
    loaded: bool = False
    always_visible: bool = False
    source_available: bool = True
    dynamic: frozenset[Effect] = NO_EFFECTS
    remembered: Remembered | None = None
    repeats_unknown: bool = False
    used: int = 0
    used_turn: int = 0
    metadata_trusted: bool | None = None

    @property
    def in_prompt(self) -> bool:
        """Whether nothing keeps the schema out of the prompt."""
        return not self.deferred or self.loaded or self.always_visible

    @property
    def approval_remembered(self) -> bool:
        """Whether an earlier approval covers this call."""
        return self.remembered is not None and self.dynamic <= self.remembered.covers


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """One question: what may this caller do with this tool, now?"""

    spec: ToolSpec
    layers: CompiledLayers
    caller: Caller = Caller.ASSISTANT
    surface: str = CORE_SURFACE
    facts: Facts = field(default_factory=Facts)

    @property
    def trusted(self) -> bool:
        """Whether the tool's tags and hints may widen."""
        known = self.facts.metadata_trusted
        return self.spec.annotations.trusted if known is None else known
