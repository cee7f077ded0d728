"""Describe one tool: name, schemas, effects, budget, source.

Is: `ToolSpec` and what it is made of. Is not: a decision about it, or code that runs it.
Above: registry, policy, executors. Below: `names.py`, `annotations.py`, `_json_schema.py`.
"""

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from toolrail_schemas._base import (
    KIB,
    MIB,
    Flag,
    JsonObject,
    Label,
    Slug,
    WireModel,
    canonical_json,
    check_json,
    sha256_hex,
)
from toolrail_schemas._json_schema import check_tool_schema
from toolrail_schemas.annotations import Annotations, Cost, Rollback, SideEffect
from toolrail_schemas.names import NAME_MAX_CHARS, check_native_name, check_owned_name, humanise

STORED_OUTPUT_MAX_BYTES = 8 * MIB
"""Hard cap on one stored result; beyond it the call ends as `tool.output_too_large`."""

QueueName = Literal["builtin", "mcp", "extension"]


class Source(StrEnum):
    """Who provides a tool."""

    BUILTIN = "builtin"
    MCP = "mcp"
    EXTENSION = "extension"
    SKILL = "skill"


class Visibility(StrEnum):
    """Who may ever be shown a tool."""

    MODEL = "model"
    USER_ONLY = "user_only"
    INTERNAL = "internal"


class Permission(StrEnum):
    """The tool's own default, the weakest policy layer."""

    ALWAYS_ALLOW = "always_allow"
    APPROVAL_REQUIRED = "approval_required"
    DENY = "deny"


class Lifecycle(StrEnum):
    """Whether a catalog entry is offered, only honoured, or on its way out."""

    CURRENT = "current"
    COMPAT = "compat"
    DEPRECATED = "deprecated"


class Isolation(StrEnum):
    """Where a tool's function runs inside a worker."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


def queue_of(source: Source) -> QueueName:
    """Return the queue that serves a source; skill tools are local reads and run on `builtin`."""
    if source is Source.MCP:
        return "mcp"
    if source is Source.EXTENSION:
        return "extension"
    return "builtin"


class Budget(WireModel):
    """Caps on a tool. A null field is unset: the next layer, in the end the source, decides."""

    max_calls_per_run: Annotated[int, Field(strict=True, ge=0, le=10_000)] | None = None
    """0 means never callable."""
    max_calls_per_turn: Annotated[int, Field(strict=True, ge=1, le=128)] | None = None
    max_output_tokens: Annotated[int, Field(strict=True, ge=64, le=200_000)] | None = None
    max_output_bytes: (
        Annotated[int, Field(strict=True, ge=1, le=STORED_OUTPUT_MAX_BYTES)] | None
    ) = None
    """Cap on the stored result; the part shown inline to a model is 64 KiB at most."""
    timeout_ms: Annotated[int, Field(strict=True, ge=100, le=600_000)] | None = None
    max_concurrency: Annotated[int, Field(strict=True, ge=1, le=10_000)] | None = None
    """Per worker for builtin tools, per server for MCP, per extension for extensions."""

    @classmethod
    def defaults_for(cls, source: Source, *, read_only: bool = False) -> Self:
        """Return the weakest layer: what holds for a source when nobody said anything."""
        tokens, timeout_ms, concurrency = _SOURCE_DEFAULTS[source]
        if source is Source.BUILTIN and not read_only:
            concurrency = 1
        return cls(
            max_calls_per_turn=16,
            max_output_tokens=tokens,
            max_output_bytes=MIB,
            timeout_ms=timeout_ms,
            max_concurrency=concurrency,
        )

    def or_else(self, weaker: "Budget") -> "Budget":
        """Return this budget with every unset field taken from `weaker`."""
        own = self.model_dump(exclude_none=True)
        return Budget.model_validate({**weaker.model_dump(exclude_none=True), **own})


# max_output_tokens, timeout_ms, max_concurrency (of a reading tool). Source: semantics 1.3.
_SOURCE_DEFAULTS: dict[Source, tuple[int, int, int]] = {
    Source.BUILTIN: (8000, 15_000, 8),
    Source.SKILL: (8000, 10_000, 8),
    Source.MCP: (4000, 30_000, 4),
    Source.EXTENSION: (4000, 20_000, 2),
}


class SourceRef(WireModel):
    """Which server, extension or skill a tool comes from; exactly one of the three."""

    server: Slug | None = None
    extension: Slug | None = None
    version: Label | None = None
    """Version of the extension; set with `extension`, never otherwise."""
    skill: Label | None = None

    @model_validator(mode="after")
    def _one_owner(self) -> Self:
        owners = [self.server, self.extension, self.skill]
        if sum(owner is not None for owner in owners) != 1:
            raise ValueError("source_ref names exactly one of server, extension, skill")
        if (self.extension is None) != (self.version is None):
            raise ValueError("source_ref has version exactly when it has extension")
        return self


class SurfaceMeta(WireModel):
    """Resolved surface metadata of a tool; only `toolrail/metadata.py` reads the raw keys."""

    deferred_loading: Flag | None = None
    always_visible: Flag | None = None
    allowed_callers: tuple[Label, ...] | None = Field(default=None, max_length=64)
    """Null: everyone. Empty: nobody."""
    tags: tuple[Annotated[str, StringConstraints(min_length=1, max_length=32)], ...] = Field(
        default=(), max_length=16
    )
    input_examples: tuple[JsonObject, ...] = Field(default=(), max_length=5)

    @field_validator("input_examples")
    @classmethod
    def _small_examples(cls, examples: tuple[JsonObject, ...]) -> tuple[JsonObject, ...]:
        for example in examples:
            check_json(example, limit_bytes=4 * KIB, what="an input example")
        return examples

    @field_validator("tags", "allowed_callers")
    @classmethod
    def _normalised(cls, words: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Normalising is the interpreter's work; here a word that is not normalised is a bug."""
        for word in words or ():
            if word != word.strip().lower():
                raise ValueError(f"{word!r} is not trimmed and lower case")
        if words is not None and len(set(words)) != len(words):
            raise ValueError("a word is listed twice")
        return words


def default_permission(source: Source, annotations: Annotations) -> Permission:
    """Return the permission of a tool whose author named none (semantics 1.1 and 6)."""
    if source in (Source.MCP, Source.EXTENSION):
        return Permission.APPROVAL_REQUIRED
    if source is Source.SKILL:
        return Permission.ALWAYS_ALLOW
    if annotations.cost is Cost.HIGH or annotations.destructive:
        return Permission.APPROVAL_REQUIRED
    if annotations.side_effect is SideEffect.EXTERNAL:
        return Permission.APPROVAL_REQUIRED
    mutating = annotations.side_effect in (SideEffect.WORKSPACE, SideEffect.CHAT)
    if mutating and annotations.rollback is not Rollback.CHECKPOINT:
        return Permission.APPROVAL_REQUIRED
    return Permission.ALWAYS_ALLOW


def _default_annotations(source: Source) -> Annotations:
    if source is Source.SKILL:
        return Annotations.for_builtin(read_only=True)
    return Annotations.worst_case(trusted=source is Source.BUILTIN)


class ToolSpec(WireModel):
    """Everything that is known about one tool before anyone calls it."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=NAME_MAX_CHARS)]
    """Canonical and stable; `group.verb`, `mcp.<server>.<tool>` or `ext.<extension>.<tool>`."""
    title: Annotated[str, StringConstraints(min_length=1, max_length=80)] = Field(
        default_factory=lambda fields: humanise(fields["name"])
    )
    """For people; derived from the name when absent."""
    description: Annotated[str, StringConstraints(min_length=1, max_length=4096)]
    input_schema: JsonObject
    """JSON Schema draft 2020-12 with an object root, at most 32 KiB and 16 levels."""
    output_schema: JsonObject | None = None
    """When set, `structured` of every successful result validates against it."""
    source: Source
    source_ref: SourceRef | None = None
    annotations: Annotations = Field(
        default_factory=lambda fields: _default_annotations(fields["source"])
    )
    """The worst case when absent; a skill tool only reads."""
    visibility: Visibility = Visibility.MODEL
    permission: Permission = Field(
        default_factory=lambda fields: default_permission(fields["source"], fields["annotations"])
    )
    budget: Budget = Budget()
    """What the tool itself asks for; `effective_budget` adds the defaults of its source."""
    surface_meta: SurfaceMeta = SurfaceMeta()

    @cached_property
    def spec_hash(self) -> str:
        """SHA-256 of every field; approvals and dispatches bind to it.

        Computed once per object; the dictionaries inside a spec must not be changed.
        """
        return sha256_hex(canonical_json(self.model_dump(mode="json")))

    @property
    def effective_budget(self) -> Budget:
        """The tool's own budget over the defaults of its source; no field but calls is null."""
        return self.budget.or_else(
            Budget.defaults_for(self.source, read_only=self.annotations.read_only)
        )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        self._check_identity()
        check_tool_schema(self.input_schema, what="input_schema", object_root=True)
        if self.output_schema is not None:
            check_tool_schema(self.output_schema, what="output_schema", object_root=False)
        if self.source is Source.EXTENSION and self.annotations.trusted:
            raise ValueError("an extension is never trusted")
        return self

    def _check_identity(self) -> None:
        owner = self.source_ref or SourceRef.model_construct()
        if self.source is Source.MCP:
            if owner.server is None:
                raise ValueError("an MCP tool has source_ref.server")
            check_owned_name(self.name, f"mcp.{owner.server}.")
        elif self.source is Source.EXTENSION:
            if owner.extension is None:
                raise ValueError("an extension tool has source_ref.extension")
            check_owned_name(self.name, f"ext.{owner.extension}.")
        else:
            check_native_name(self.name)
            if owner.server is not None or owner.extension is not None:
                raise ValueError(f"a {self.source} tool has no server or extension")
