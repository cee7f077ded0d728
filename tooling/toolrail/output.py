"""Carry what a tool answers from its function to the worker.

Is: `ToolOutput`, whole and unlimited, and its JSON form between processes. Is not: the stored,
limited result of a call (`toolrail_schemas.ToolResult`), which the worker makes of it.
Above: `tools.py`, executors. Below: `toolrail_schemas`.
"""

from dataclasses import dataclass
from typing import Self

from pydantic import JsonValue, TypeAdapter

from toolrail.errors import ToolError
from toolrail_schemas import (
    Block,
    ErrorClass,
    EventType,
    JsonBlock,
    JsonObject,
    TextBlock,
    canonical_json,
)

_BLOCK: TypeAdapter[Block] = TypeAdapter(Block)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOutput:
    """What a tool answers, before it is stored, cut to budget and addressed to its call."""

    content: tuple[Block, ...] = ()
    """What the model sees. A text or JSON block made by `text()` or `json()` may be longer than a
    result carries inline; the worker stores it whole and cuts what is shown."""
    structured: JsonValue = None
    is_error: bool = False
    error_code: str | None = None
    error_class: ErrorClass | None = None
    resource_refs: tuple[str, ...] = ()
    """Refs given out besides those inside `content`."""
    events: tuple[tuple[EventType, JsonObject], ...] = ()
    """Journal events of the effect, in order; written before the result is stored."""
    truncated: bool = False
    """The tool itself gave out less than was asked for; it names the rest by a ref."""
    summary: str | None = None
    """One line that may stand for the whole output in a later prompt."""

    @classmethod
    def text(cls, text: str) -> Self:
        """Return an output of one text of any length; empty text is an empty output.

        Raises:
            ToolError: `tool.invalid_output`, the text holds a lone surrogate.
        """
        try:
            text.encode()
        except UnicodeEncodeError:
            raise no_output("text that is not valid Unicode") from None
        return cls(content=(TextBlock.model_construct(text=text),) if text else ())

    @classmethod
    def json(cls, value: JsonValue) -> Self:
        """Return an output of one JSON value of any size.

        Raises:
            ToolError: `tool.invalid_output`, the value holds NaN, an infinity or a lone surrogate.
        """
        try:
            canonical_json(value)
        except (ValueError, TypeError, RecursionError):
            raise no_output("a value that JSON cannot carry") from None
        return cls(content=(JsonBlock.model_construct(value=value),))

    def to_wire(self) -> JsonObject:
        """Return the output as JSON, for the way out of a child process."""
        return {
            "content": [_block_to_wire(block) for block in self.content],
            "structured": self.structured,
            "is_error": self.is_error,
            "error_code": self.error_code,
            "error_class": self.error_class,
            "resource_refs": list(self.resource_refs),
            "events": [[kind.value, payload] for kind, payload in self.events],
            "truncated": self.truncated,
            "summary": self.summary,
        }

    @classmethod
    def from_wire(cls, wire: JsonObject) -> Self:
        """Return the output that `to_wire` described.

        Raises:
            ValueError: A child answered something else.
        """
        checked = _WIRE.validate_python(wire)
        return cls(
            content=tuple(map(_block_from_wire, checked.content)),
            structured=checked.structured,
            is_error=checked.is_error,
            error_code=checked.error_code,
            error_class=checked.error_class,
            resource_refs=checked.resource_refs,
            events=checked.events,
            truncated=checked.truncated,
            summary=checked.summary,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wire:
    """What crosses the process boundary, checked on arrival."""

    content: tuple[JsonObject, ...]
    structured: JsonValue
    is_error: bool
    error_code: str | None
    error_class: ErrorClass | None
    resource_refs: tuple[str, ...]
    events: tuple[tuple[EventType, JsonObject], ...]
    truncated: bool
    summary: str | None


_WIRE: TypeAdapter[_Wire] = TypeAdapter(_Wire)


def _block_to_wire(block: Block) -> JsonObject:
    # Not `model_dump` for these two: they may be longer than the model's own limit.
    if isinstance(block, TextBlock):
        return {"kind": block.kind, "text": block.text}
    if isinstance(block, JsonBlock):
        return {"kind": block.kind, "value": block.value}
    return block.model_dump(mode="json")


def _block_from_wire(wire: JsonObject) -> Block:
    text = wire.get("text")
    if wire.get("kind") == "text" and isinstance(text, str):
        return TextBlock.model_construct(text=text)
    if wire.get("kind") == "json":
        return JsonBlock.model_construct(value=wire.get("value"))
    return _BLOCK.validate_python(wire)


def no_output(what: str) -> ToolError:
    """Return the error for a function that answered what cannot be carried."""
    return ToolError(
        "tool.invalid_output",
        f"The tool returned {what}.",
        next_action="Do not repeat the call unchanged; the tool itself is at fault.",
    )
