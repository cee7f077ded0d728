"""Which caps hold for a tool, and who set each.

Is: the field-wise minimum over all layers, with provenance. Is not: the counters, which the ledger
keeps and reserves atomically.
Above: `verdicts.py`, `resolve.py`. Below: `toolrail_schemas`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from toolrail_schemas import Budget, BudgetDecision, Layer
from toolrail_schemas.policy import BudgetField


class Caps(NamedTuple):
    """Caps of one layer on one tool, or of all layers together. None: no cap."""

    calls: int | None = None
    calls_turn: int | None = None
    max_output_tokens: int | None = None
    timeout_ms: int | None = None
    max_output_bytes: int | None = None


FIELDS: Final[tuple[BudgetField, ...]] = (
    "calls",
    "calls_turn",
    "max_output_tokens",
    "timeout_ms",
    "max_output_bytes",
)
"""How a decision names the fields of `Caps`, in the same order."""


NO_CAPS: Final = Caps()


@dataclass(frozen=True, slots=True)
class MergedCaps:
    """The smallest caps and the layer that set each field."""

    caps: Caps
    source_of: dict[BudgetField, Layer]


def caps_of(budget: Budget) -> Caps:
    """Return the fields of a budget that policy merges; concurrency is the workers' business."""
    return Caps(
        calls=budget.max_calls_per_run,
        calls_turn=budget.max_calls_per_turn,
        max_output_tokens=budget.max_output_tokens,
        timeout_ms=budget.timeout_ms,
        max_output_bytes=budget.max_output_bytes,
    )


def smallest(budgets: Iterable[Budget]) -> Caps:
    """Return the field-wise minimum of what one layer says about one tool."""
    rows = [caps_of(budget) for budget in budgets]
    return Caps(*(_least(column) for column in zip(*rows, strict=True))) if rows else NO_CAPS


def merge(layers: Sequence[tuple[Layer, Caps]]) -> MergedCaps:
    """Return the smallest cap of each field and the first layer that set it.

    Args:
        layers: In order of precedence; on a tie the earlier one is named.
    """
    values: list[int | None] = []
    source_of: dict[BudgetField, Layer] = {}
    for index, name in enumerate(FIELDS):
        value = _least(caps[index] for _, caps in layers)
        values.append(value)
        if value is not None:
            source_of[name] = next(layer for layer, caps in layers if caps[index] == value)
    return MergedCaps(Caps(*values), source_of)


def decide_budget(merged: MergedCaps, *, used: int, used_turn: int) -> BudgetDecision:
    """Return what is left of the merged caps.

    Args:
        merged: Caps of all layers, the tool's own with its defaults among them.
        used: Calls of this tool in this run so far.
        used_turn: Calls of this tool in this turn so far.
    """
    caps = merged.caps
    remaining = _remaining(caps.calls, used)
    remaining_turn = _remaining(caps.calls_turn, used_turn)
    return BudgetDecision(
        calls_remaining=remaining,
        calls_remaining_turn=remaining_turn,
        max_output_tokens=caps.max_output_tokens or 0,
        timeout_ms=caps.timeout_ms or 0,
        max_output_bytes=caps.max_output_bytes,
        exhausted=remaining == 0 or remaining_turn == 0,
        source_of=merged.source_of,
    )


def _remaining(cap: int | None, used: int) -> int | None:
    return None if cap is None else max(0, cap - used)


def _least(caps: Iterable[int | None]) -> int | None:
    return min((cap for cap in caps if cap is not None), default=None)
