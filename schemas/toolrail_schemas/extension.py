"""Carry the messages between the bridge and an extension.

Is: registration, call, reply, cancel (semantics 9). Is not: the session or its transport.
Above: `toolrail/extension.py`, `toolrail_workers/extension/`. Below: `tool.py`, `content.py`.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, StringConstraints, field_validator, model_validator

from toolrail_schemas._base import (
    CallKey,
    Flag,
    JsonObject,
    Label,
    Positive,
    Slug,
    TimestampMs,
    WireModel,
    check_json,
)
from toolrail_schemas._json_schema import check_tool_schema, default_input_schema
from toolrail_schemas.annotations import Annotations, HintedAnnotations
from toolrail_schemas.call import ARGUMENTS_MAX_BYTES
from toolrail_schemas.content import Block
from toolrail_schemas.names import extension_name
from toolrail_schemas.result import STRUCTURED_MAX_BYTES
from toolrail_schemas.tool import Budget, Source, SourceRef, SurfaceMeta, ToolSpec

EXTENSION_TIMEOUT_MAX_MS = 120_000
EXTENSION_TOOLS_MAX = 32


class ExtensionHello(WireModel):
    """The first message of a session."""

    type: Literal["hello"] = "hello"
    extension_id: Slug
    version: Label
    protocol_version: Positive = 1
    nonce: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{16,128}$")]


class ExtensionTool(WireModel):
    """One tool as its extension declares it; all hints, no rights."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)] | None = None
    description: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    input_schema: JsonObject | None = None
    output_schema: JsonObject | None = None
    annotations: HintedAnnotations = HintedAnnotations()
    surface_meta: SurfaceMeta = SurfaceMeta()
    timeout_ms: Annotated[int, Field(strict=True, ge=100, le=EXTENSION_TIMEOUT_MAX_MS)] | None = (
        None
    )

    @model_validator(mode="after")
    def _schemas(self) -> Self:
        check_tool_schema(
            default_input_schema(self.input_schema), what="input_schema", object_root=True
        )
        if self.output_schema is not None:
            check_tool_schema(self.output_schema, what="output_schema", object_root=False)
        return self

    def to_spec(self, *, extension: str, version: str) -> ToolSpec:
        """Return the spec the backend registers: worst case, approval required, never trusted."""
        title = {} if self.title is None else {"title": self.title}
        return ToolSpec.model_validate(
            {
                **title,
                "name": extension_name(extension, self.name),
                "description": self.description,
                "input_schema": default_input_schema(self.input_schema),
                "output_schema": self.output_schema,
                "annotations": Annotations.worst_case(self.annotations),
                "budget": Budget(timeout_ms=self.timeout_ms),
                "source": Source.EXTENSION,
                "source_ref": SourceRef(extension=extension, version=version),
                "surface_meta": self.surface_meta,
            }
        )


class RegisterTools(WireModel):
    """The whole set of an extension's tools; all are accepted or none."""

    type: Literal["tools.register"] = "tools.register"
    tools: tuple[ExtensionTool, ...] = Field(max_length=EXTENSION_TOOLS_MAX)

    @field_validator("tools")
    @classmethod
    def _each_once(cls, tools: tuple[ExtensionTool, ...]) -> tuple[ExtensionTool, ...]:
        if len({tool.name for tool in tools}) != len(tools):
            raise ValueError("a tool is registered twice in one message")
        return tools


class ExecuteCall(WireModel):
    """Run this call and reply once."""

    type: Literal["call.execute"] = "call.execute"
    call_key: CallKey
    tool: Label
    """The extension's own name of the tool."""
    arguments: JsonObject
    """At most 1 MiB, valid for the tool's `input_schema`."""
    deadline: TimestampMs
    """The instant after which a reply is discarded."""
    attempt: Positive

    @field_validator("arguments")
    @classmethod
    def _bounded(cls, value: JsonObject) -> JsonObject:
        check_json(value, limit_bytes=ARGUMENTS_MAX_BYTES, what="arguments")
        return value


class CallReply(WireModel):
    """What the extension answers."""

    type: Literal["call.reply"] = "call.reply"
    call_key: CallKey
    attempt: Positive = 1
    content: tuple[Block, ...] = Field(default=(), max_length=32)
    structured: JsonValue = None
    is_error: Flag = False

    @field_validator("structured")
    @classmethod
    def _bounded(cls, value: JsonValue) -> JsonValue:
        if value is not None:
            check_json(value, limit_bytes=STRUCTURED_MAX_BYTES, what="structured")
        return value


class CancelCall(WireModel):
    """Stop this call; a later reply is discarded."""

    type: Literal["call.cancel"] = "call.cancel"
    call_key: CallKey
    attempt: Positive = 1


ExtensionMessage = Annotated[
    ExtensionHello | RegisterTools | ExecuteCall | CallReply | CancelCall,
    Field(discriminator="type"),
]
"""Any message of a session, either way."""
