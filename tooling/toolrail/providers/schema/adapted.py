"""Say what a schema became, what was lost on the way, and which keys were respelled.

Is: the value that `adapt` returns, and the translation of keys. Is not: any rule of a provider.
Above: the steps of this package, `toolrail.providers`. Below: pydantic's `JsonValue`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

Schema = dict[str, JsonValue]


class LossKind(StrEnum):
    """What a loss means for the arguments a model will write."""

    CONSTRAINT = "constraint"
    """A limit is told in words only; our validation still holds it."""
    OPENED = "opened"
    """A part lost its structure; the model has to know it from the description."""
    NARROWED = "narrowed"
    """Arguments that the tool would take cannot be written under this schema."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One thing of the original that the adapted schema does not say."""

    kind: LossKind
    path: str
    """JSON pointer into the adapted schema."""
    what: str
    """The keyword, or what happened in a few words."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """A schema as a provider takes it."""

    schema: Schema
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    """Property names as the model sees them, to the tool's own; only those that differ."""
    losses: tuple[Loss, ...] = ()

    @property
    def is_lossless(self) -> bool:
        """Whether nothing but limits told in words is missing; only then may strict be asked."""
        return all(loss.kind is LossKind.CONSTRAINT for loss in self.losses)

    def to_wire(self, value: JsonValue) -> JsonValue:
        """Return arguments of the tool with the keys that the model sees."""
        return renamed(value, {own: wire for wire, own in self.keys.items()})


def renamed(value: JsonValue, keys: Mapping[str, str]) -> JsonValue:
    """Return the value with keys of objects replaced, at any depth."""
    if not keys:
        return value
    if isinstance(value, dict):
        return {keys.get(key, key): renamed(inner, keys) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, keys) for inner in value]
    return value
