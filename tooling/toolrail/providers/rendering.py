"""Turn a result's blocks into text and images that a provider can carry.

Is: the words for what cannot be sent as it is, and the sizes. Is not: the provider's own blocks, or
the choice of old results for a prompt. Above: providers. Below: `toolrail_schemas`.
"""

import base64
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from toolrail_schemas import (
    AudioRefBlock,
    Block,
    DiffRefBlock,
    FileRefBlock,
    ImageRefBlock,
    JsonBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResult,
)

Media = Mapping[str, bytes]
"""Bytes of images by their SHA-256; what is absent is named by its ref."""
EMPTY = "(no output)"


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text for the model, never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image for the model."""

    mime: str
    data: str
    """Base64."""

    @property
    def data_url(self) -> str:
        """The image as a URL that holds it."""
        return f"data:{self.mime};base64,{self.data}"


Part = TextPart | ImagePart


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What one result may carry."""

    image_types: Collection[str]
    image_bytes: int
    text_chars: int


def parts_of(result: ToolResult, media: Media, room: Room) -> list[Part]:
    """Return the result's parts in order: at least one, no empty text, all within the room."""
    parts: list[Part] = []
    left = room.text_chars
    for block in result.content:
        part = _image(block, media, room) or TextPart(_text(block))
        if isinstance(part, TextPart):
            if not part.text.strip():
                continue
            if len(part.text) > left:
                part = TextPart(_cut(part.text, left, result))
            left = max(0, left - len(part.text))
        parts.append(part)
    if not parts and result.structured is not None:
        whole = compact(result.structured)
        parts.append(TextPart(whole if len(whole) <= left else _cut(whole, left, result)))
    return parts or [TextPart(EMPTY)]


def text_of(parts: Collection[Part]) -> str:
    """Return the text of all parts, an image as nothing."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart)) or EMPTY


def images_of(parts: Collection[Part]) -> list[ImagePart]:
    """Return the images among the parts."""
    return [part for part in parts if isinstance(part, ImagePart)]


def error_json(text: str) -> str:
    """Return an error for a provider that has no flag for it."""
    return json.dumps({"error": text}, ensure_ascii=False)


def compact(value: JsonValue) -> str:
    """Return a value as short JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def image_shas(results: Collection[ToolResult]) -> set[str]:
    """Return the SHA-256 of every image in the results: what `media` should hold."""
    return {
        block.sha256
        for result in results
        for block in result.content
        if isinstance(block, ImageRefBlock)
    }


def _image(block: Block, media: Media, room: Room) -> ImagePart | None:
    if not isinstance(block, ImageRefBlock) or block.mime not in room.image_types:
        return None
    data = media.get(block.sha256)
    if not data or len(data) > room.image_bytes:
        return None
    return ImagePart(block.mime, base64.b64encode(data).decode("ascii"))


def _text(block: Block) -> str:
    match block:
        case TextBlock():
            return block.text
        case JsonBlock():
            return compact(block.value)
        case ImageRefBlock() | AudioRefBlock():
            told = f": {block.alt}" if isinstance(block, ImageRefBlock) and block.alt else ""
            return f"[{block.mime}, {block.bytes} bytes, kept as {block.ref}{told}]"
        case FileRefBlock():
            return f"[file {block.path}, {block.bytes} bytes, kept as {block.ref}]"
        case ResourceRefBlock():
            title = f"{block.title}: " if block.title else ""
            return f"[{title}{block.uri}]"
        case DiffRefBlock():
            files = ", ".join(block.files)
            return f"[diff of {files}: +{block.added} -{block.removed}, kept as {block.ref}]"


def _cut(text: str, chars: int, result: ToolResult) -> str:
    where = f" The rest: {result.resource_refs[0]}" if result.resource_refs else ""
    note = f"\n[cut: {len(text)} characters.{where}]"
    return text[: max(0, chars - len(note))] + note
