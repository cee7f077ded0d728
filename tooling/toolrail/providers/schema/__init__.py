"""Fit a tool's JSON Schema into what a model provider accepts, and read arguments back.

Is: `adapt` and what it gives. Is not: validation; arguments are always checked against the tool's
own schema (`toolrail.validation`). Above: `toolrail.providers`. Below: the modules here, one per
step: `normal` (any draft, references inlined), `roots` (an object at the root), `fit` (the
provider's dialect, from the dated tables of `dialects`).
"""

from toolrail.providers.schema.adapted import Adapted, Loss, LossKind
from toolrail.providers.schema.adapting import adapt
from toolrail.providers.schema.dialects import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI,
    OPENAI,
    OPENAI_STRICT,
    PLAIN,
    Dialect,
)

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_STRICT",
    "GEMINI",
    "OPENAI",
    "OPENAI_STRICT",
    "PLAIN",
    "Adapted",
    "Dialect",
    "Loss",
    "LossKind",
    "adapt",
]
