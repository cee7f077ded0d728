"""Carry the one terminal answer of a call, in a shape that cannot contradict itself.

Is: `ToolResult`, `Usage`, the invariants of semantics 1.5. Is not: storage or truncation.
Above: workers, ledger, client, providers. Below: `content.py`, `refs.py`, `errors.py`.
"""

from typing import Annotated, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from toolrail_schemas._base import (
    KIB,
    CalledName,
    CallId,
    Count,
    ErrorCode,
    Flag,
    WireModel,
    check_json,
)
from toolrail_schemas.content import Block, TextBlock, ref_of
from toolrail_schemas.errors import ErrorClass, error_info
from toolrail_schemas.refs import ResourceRefStr

STRUCTURED_MAX_BYTES = 256 * KIB
ERROR_TEXT_MAX_CHARS = 2000


class Usage(WireModel):
    """What a call used; all zeros when it never ran."""

    queue_ms: Count = 0
    duration_ms: Count = 0
    output_bytes: Count = 0
    output_tokens: Count = 0
    attempts: Count = 0
    cost: Annotated[float, Field(ge=0)] | None = None
    """In the unit of the deployment; null when nobody counts."""


class ToolResult(WireModel):
    """The answer to one call."""

    call_id: CallId
    name: CalledName
    content: tuple[Block, ...] = Field(default=(), max_length=32)
    """Order is kept. Empty means the tool said nothing; rendered as `(no output)`."""
    structured: JsonValue = None
    is_error: Flag = False
    """The model may recover from it; it does not by itself fail the run."""
    error_code: ErrorCode | None = None
    error_class: ErrorClass | None = None
    resource_refs: tuple[ResourceRefStr, ...] = ()
    """Every ref the result gives out, each once, at most 64."""
    usage: Usage = Usage()
    truncated: Flag = False

    @classmethod
    def failure(
        cls,
        call_id: str,
        name: str,
        *,
        code: str,
        text: str | None = None,
        error_class: ErrorClass | None = None,
        structured: JsonValue = None,
        usage: Usage | None = None,
    ) -> Self:
        """Return an error result; text and class come from the table of codes when not given.

        A text that is too long loses its end, and gets the remedy of its code instead.
        """
        info = error_info(code)
        said = text if text is not None else f"{info.sentence} {info.remedy}"
        if len(said) > ERROR_TEXT_MAX_CHARS:
            said = f"{said[: ERROR_TEXT_MAX_CHARS - len(info.remedy) - 2]}… {info.remedy}"
        return cls(
            call_id=call_id,
            name=name,
            content=(TextBlock(text=said),),
            structured=structured,
            is_error=True,
            error_code=code,
            error_class=error_class or info.error_class,
            usage=usage or Usage(),
        )

    @field_validator("structured")
    @classmethod
    def _bounded(cls, value: JsonValue) -> JsonValue:
        if value is not None:
            check_json(value, limit_bytes=STRUCTURED_MAX_BYTES, what="structured")
        return value

    @field_validator("resource_refs")
    @classmethod
    def _each_once(cls, refs: tuple[str, ...]) -> tuple[str, ...]:
        once = tuple(dict.fromkeys(refs)) if len(refs) > 1 else refs
        if len(once) > 64:
            raise ValueError(f"a result gives out at most 64 refs, not {len(once)}")
        return once

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.is_error != (self.error_code is not None):
            raise ValueError("error_code is set exactly when is_error is true")
        if self.is_error != (self.error_class is not None):
            raise ValueError("error_class is set exactly when is_error is true")
        if self.is_error and not any(isinstance(b, TextBlock) and b.text for b in self.content):
            raise ValueError("an error result has a text block that says what to do next")
        if self.truncated and not self.resource_refs:
            raise ValueError("a truncated result gives out a ref to the rest")
        for block in self.content:
            ref = ref_of(block)
            if ref is not None and ref not in self.resource_refs:
                raise ValueError(f"ref of a block is missing in resource_refs: {ref[:100]!r}")
        return self
