"""Gather the losses of one adaptation, and tell a model in words what its schema cannot say.

Is: the notebook that every step writes in. Is not: a rule of any provider. Above: `normal.py`,
`roots.py`, `fit.py`. Below: `adapted.py`.
"""

import json
from collections.abc import Iterable

from pydantic import JsonValue

from toolrail.providers.schema.adapted import Loss, LossKind, Schema

_ADVICE = ("default", "examples")
"""Keywords that refuse nothing, so that telling them loses nothing."""
SHOWN_CHARS = 160
"""Of one keyword's value, in a description."""


class Notes:
    """What was lost so far."""

    def __init__(self) -> None:
        self._losses: dict[Loss, None] = {}

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Each once, in the order they were found."""
        return tuple(self._losses)

    def limit(self, path: str, what: str) -> None:
        """A limit is no longer in the schema."""
        self._losses[Loss(LossKind.CONSTRAINT, path, what)] = None

    def opened(self, path: str, what: str) -> None:
        """A part's structure is no longer in the schema."""
        self._losses[Loss(LossKind.OPENED, path, what)] = None

    def narrowed(self, path: str, what: str) -> None:
        """Something the tool takes is not in the schema."""
        self._losses[Loss(LossKind.NARROWED, path, what)] = None

    def move(self, node: Schema, path: str, keywords: Iterable[str]) -> None:
        """The keywords stand in the node's description, no longer in the node."""
        told: list[str] = []
        for keyword in keywords:
            if keyword in node:
                told.append(f"{keyword}: {shown(node.pop(keyword))}")
                if keyword not in _ADVICE:
                    self.limit(path, keyword)
        if told:
            describe(node, f"({', '.join(told)})")


def shown(value: JsonValue) -> str:
    """Return a value as JSON of at most 160 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def describe(node: Schema, text: str) -> None:
    """The text stands at the end of the node's description, once."""
    before = node.get("description")
    if not isinstance(before, str) or not before:
        node["description"] = text
    elif text not in before:
        node["description"] = f"{before}\n{text}"
