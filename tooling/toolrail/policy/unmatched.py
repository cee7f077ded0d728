"""Find selectors that speak about no tool there is.

Is: a warning for each selector that matches nothing, so that a misspelled rule is seen. Is not: an
error; the tool may come later. Above: inventory, `toolrail policy check`. Below: `selectors.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from toolrail.policy.layers import WrittenLayer
from toolrail.policy.rules import Say
from toolrail.policy.selectors import (
    Selector,
    SelectorKind,
    Subject,
    did_you_mean,
    parse_selector,
    subject_of,
)
from toolrail_schemas import ToolSpec

NARROWING = frozenset({Say.DENY, Say.REQUIRE_APPROVAL})


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A selector without a tool.

    Attributes:
        layer: The layer, with the name of its profile or user.
        rule: The rule or list it stands in.
        hint: What it may have meant; empty when nothing is near.
    """

    layer: str
    rule: str
    selector: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.layer}: {self.rule}: {self.selector!r} matches no tool. {self.hint}".rstrip()


def unmatched_selectors(
    layers: Iterable[WrittenLayer], specs: Iterable[ToolSpec]
) -> tuple[Unmatched, ...]:
    """Return the selectors of the layers that match none of the tools, in the layers' order.

    Args:
        layers: What was written.
        specs: Every tool that is known now.
    """
    subjects = [subject_of(spec) for spec in specs]
    return tuple(found for layer in layers for found in _of_layer(layer, subjects))


def _of_layer(layer: WrittenLayer, subjects: Sequence[Subject]) -> Iterator[Unmatched]:
    title = layer.KIND.value if layer.name is None else f"{layer.KIND} {layer.name}"
    for rule, text, widening in _selectors(layer):
        selector = parse_selector(text)
        if any(selector.matches(subject, widening=widening) for subject in subjects):
            continue
        if selector.kind is SelectorKind.EFFECT:
            continue  # The arguments of a call may have the effect.
        yield Unmatched(title, rule, text, _hint(selector, subjects))


def _selectors(layer: WrittenLayer) -> Iterator[tuple[str, str, bool]]:
    """Yield rule, selector, and whether a match would widen."""
    for statement in layer.statements():
        yield statement.rule, statement.selector, statement.say not in NARROWING
    for text, key in layer.cap_selectors():
        yield str(key[0]), text, key[0] == "allow_only"


def _hint(selector: Selector, subjects: Sequence[Subject]) -> str:
    if any(selector.matches(subject, widening=False) for subject in subjects):
        return "Only tools whose metadata is not trusted carry it, and these words never widen."
    known: set[str] = set()
    if selector.kind is SelectorKind.NAME:
        known = {subject.name for subject in subjects}
    elif selector.kind is SelectorKind.SERVER:
        known = {subject.server for subject in subjects if subject.server is not None}
    elif selector.kind is SelectorKind.EXTENSION:
        known = {subject.extension for subject in subjects if subject.extension is not None}
    elif selector.kind is SelectorKind.TAG:
        known = {tag for subject in subjects for tag in subject.tags}
    hint = did_you_mean(selector.value, known)
    return hint if hint.startswith("Did") else ""
