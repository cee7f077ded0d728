"""Carry what a tool answers, block by block; media travel by ref only.

Is: the seven block kinds of semantics 1.5 and their limits. Is not: storing or cutting output
(`toolrail_workers/output.py`).
Above: `result.py`. Below: `refs.py`.
"""

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StringConstraints, field_validator

from toolrail_schemas._base import (
    KIB,
    MIB,
    Count,
    Label,
    MimeType,
    Positive,
    Sha256Hex,
    ShortText,
    WireModel,
    check_json,
    utf8_size,
)
from toolrail_schemas.refs import ResourceRefStr

INLINE_MAX_BYTES = 64 * KIB
"""Largest text or JSON inside a block; longer output is stored and replaced by a ref."""


class TextBlock(WireModel):
    """Text for the model."""

    kind: Literal["text"] = "text"
    text: Annotated[str, StringConstraints(max_length=INLINE_MAX_BYTES)]

    @field_validator("text")
    @classmethod
    def _inline_size(cls, text: str) -> str:
        # A code point has at most four bytes, so most texts need no count at all.
        if len(text) * 4 > INLINE_MAX_BYTES and utf8_size(text) > INLINE_MAX_BYTES:
            raise ValueError(f"text has more than {INLINE_MAX_BYTES} bytes; store it, pass a ref")
        return text


class JsonBlock(WireModel):
    """A JSON value for the model."""

    kind: Literal["json"] = "json"
    value: JsonValue

    @field_validator("value")
    @classmethod
    def _inline_size(cls, value: JsonValue) -> JsonValue:
        check_json(value, limit_bytes=INLINE_MAX_BYTES, what="a JSON block")
        return value


class ImageRefBlock(WireModel):
    """A stored image."""

    kind: Literal["image_ref"] = "image_ref"
    ref: ResourceRefStr
    mime: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    bytes: Annotated[int, Field(strict=True, ge=0, le=8 * MIB)]
    sha256: Sha256Hex
    width: Positive | None = None
    height: Positive | None = None
    alt: ShortText | None = None


class AudioRefBlock(WireModel):
    """A stored sound."""

    kind: Literal["audio_ref"] = "audio_ref"
    ref: ResourceRefStr
    mime: Annotated[
        str, StringConstraints(max_length=127, pattern=r"^audio/[A-Za-z0-9!#$&^_.+-]+$")
    ]
    bytes: Annotated[int, Field(strict=True, ge=0, le=32 * MIB)]
    sha256: Sha256Hex
    duration_ms: Count | None = None


class FileRefBlock(WireModel):
    """A file of the workspace or a stored artifact."""

    kind: Literal["file_ref"] = "file_ref"
    ref: ResourceRefStr
    path: Annotated[str, StringConstraints(min_length=1, max_length=512)]
    bytes: Count
    sha256: Sha256Hex
    mime: MimeType | None = None


class ResourceRefBlock(WireModel):
    """Anything else that can be read later, such as the rest of a long output."""

    kind: Literal["resource_ref"] = "resource_ref"
    uri: ResourceRefStr
    """A resource ref of our grammar; a foreign URI is wrapped by `mcp_ref`."""
    mime: MimeType | None = None
    title: ShortText | None = None
    bytes: Count | None = None


class DiffRefBlock(WireModel):
    """A stored unified diff."""

    kind: Literal["diff_ref"] = "diff_ref"
    ref: ResourceRefStr
    format: Literal["unified"] = "unified"
    files: tuple[Label, ...] = Field(max_length=50)
    added: Count
    removed: Count


Block = Annotated[
    TextBlock
    | JsonBlock
    | ImageRefBlock
    | AudioRefBlock
    | FileRefBlock
    | ResourceRefBlock
    | DiffRefBlock,
    Field(discriminator="kind"),
]
"""One block of a result."""


def ref_of(block: Block) -> str | None:
    """Return the ref a block carries, if it carries one."""
    if isinstance(block, TextBlock | JsonBlock):
        return None
    return block.uri if isinstance(block, ResourceRefBlock) else block.ref
