"""Turn the content blocks of an MCP result into ours; media and large output are stored.

Is: one block at a time, with decoding, sniffing and spilling. Is not: the result as a whole
(`mapping.py`), or cutting to a call's token budget (`toolrail_workers.output`).
Above: `mapping.py`. Below: `media.py`, the call's blob store.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Literal, cast
from urllib.parse import unquote, urlsplit

from mcp.types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import JsonValue

from toolrail.tool import BlobStore, ToolError
from toolrail_schemas import (
    AudioRefBlock,
    Block,
    FileRefBlock,
    ImageRefBlock,
    JsonBlock,
    ResourceRefBlock,
    TextBlock,
    artifact_ref,
    mcp_ref,
)
from toolrail_workers.mcp.media import AUDIO_TYPES, IMAGE_TYPES, SNIFFABLE, normal_mime, sniff
from toolrail_workers.mcp.sanitize import RAW_MARK

INLINE_BYTES = 65_536
"""Largest text or JSON inside a block. Source: semantics 1.5."""
PREVIEW_CHARS = 4_000
IMAGE_BYTES = 8 * 1024 * 1024
AUDIO_BYTES = 32 * 1024 * 1024
NAME_CHARS = 200
TITLE_CHARS = 1_000

ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class BlockMapper:
    """Maps the blocks of one call's result.

    Attributes:
        spilled: Whether something was too large to be shown whole.
    """

    def __init__(self, *, server: str, run_id: str, store: BlobStore | None) -> None:
        self.spilled = False
        self._server = server
        self._run_id = run_id
        self._store = store

    async def map(self, block: ContentBlock) -> Sequence[Block]:
        """Return what stands for one block of the server.

        Raises:
            ToolError: `tool.invalid_output`, media that are not what they claim to be;
                `tool.output_too_large`, more than may be stored.
        """
        match block:
            case TextContent():
                meta = block.meta or {}
                if RAW_MARK in meta:
                    return await self.json(cast(JsonValue, meta[RAW_MARK]), name="content.json")
                return await self.text(block.text)
            case ImageContent():
                return [await self._image(_decoded(block.data), block.mime_type)]
            case AudioContent():
                return [await self._audio(_decoded(block.data), block.mime_type)]
            case ResourceLink():
                return self._link(block.uri, block.mime_type, block.title or block.name)
            case EmbeddedResource():
                return await self._resource(block.resource)

    async def rest(self, blocks: Sequence[Block]) -> Sequence[Block]:
        """Return where the blocks beyond the most a result may have are stored."""
        self.spilled = True
        data = json.dumps([block.model_dump(mode="json") for block in blocks]).encode("utf-8")
        return [
            TextBlock(text=f"[{len(blocks)} further blocks are stored as JSON]"),
            await self._file(data, mime="application/json", name="further-blocks.json"),
        ]

    async def text(
        self, text: str, *, mime: str | None = None, name: str = "output.txt"
    ) -> Sequence[Block]:
        """Return the text; when it is too large, its beginning and where the whole is stored."""
        data = text.encode("utf-8")
        if len(data) <= INLINE_BYTES:
            return [TextBlock(text=text)] if text else []
        self.spilled = True
        kept = text[:PREVIEW_CHARS]
        shown = kept[: kept.rfind("\n") + 1] or kept
        return [
            TextBlock(text=f"{shown}\n[cut; the whole text of {len(data)} bytes is stored]"),
            await self._file(data, mime=normal_mime(mime) or "text/plain", name=name),
        ]

    async def json(self, value: JsonValue, *, name: str) -> Sequence[Block]:
        """Return the value; when it is too large, where it is stored."""
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        if len(data) <= INLINE_BYTES:
            return [JsonBlock(value=value)]
        self.spilled = True
        return [
            TextBlock(text=f"[JSON of {len(data)} bytes; the whole is stored]"),
            await self._file(data, mime="application/json", name=name),
        ]

    async def _image(self, data: bytes, declared: str) -> Block:
        mime = _checked_label(data, declared, kind="image", known=IMAGE_TYPES)
        if mime not in IMAGE_TYPES:
            return await self._file(data, mime=mime, name="image")
        return await self._known_image(data, mime)

    async def _known_image(self, data: bytes, mime: str) -> Block:
        _check_size(data, IMAGE_BYTES, "an image")
        ref, sha256 = await self._stored(data, mime)
        known = cast(ImageType, mime)
        return ImageRefBlock(ref=ref, mime=known, bytes=len(data), sha256=sha256)

    async def _audio(self, data: bytes, declared: str) -> Block:
        mime = _checked_label(data, declared, kind="audio", known=AUDIO_TYPES)
        return await self._sound(data, mime)

    async def _sound(self, data: bytes, mime: str) -> Block:
        _check_size(data, AUDIO_BYTES, "a sound")
        ref, sha256 = await self._stored(data, mime)
        return AudioRefBlock(ref=ref, mime=mime, bytes=len(data), sha256=sha256)

    async def _resource(
        self, resource: TextResourceContents | BlobResourceContents
    ) -> Sequence[Block]:
        if isinstance(resource, BlobResourceContents):
            return [await self._blob(resource)]
        name = _file_name(resource.uri, "resource.txt")
        said = await self.text(resource.text, mime=resource.mime_type, name=name)
        return [*self._link(resource.uri, resource.mime_type, None), *said]

    async def _blob(self, blob: BlobResourceContents) -> Block:
        """Bytes decide here: servers label archives as text, so a label is no promise."""
        data = _decoded(blob.blob)
        declared, found = normal_mime(blob.mime_type), sniff(data)
        if found in IMAGE_TYPES and len(data) <= IMAGE_BYTES:
            return await self._known_image(data, str(found))
        if found in AUDIO_TYPES and found == declared and len(data) <= AUDIO_BYTES:
            return await self._sound(data, str(found))
        mime = "application/octet-stream" if declared in SNIFFABLE else declared
        return await self._file(
            data,
            mime=mime or "application/octet-stream",
            name=_file_name(blob.uri, "resource.bin"),
        )

    def _link(self, uri: str, mime: str | None, title: str | None) -> Sequence[Block]:
        try:
            ref = mcp_ref(self._server, uri)
        except ValueError:
            # Empty or endless; such a thing cannot be read back, so its address is only text.
            return [TextBlock(text=f"[a resource at {uri[:500]}]")]
        shown = title[:TITLE_CHARS] if title else None
        return [ResourceRefBlock(uri=ref, mime=normal_mime(mime), title=shown)]

    async def _file(self, data: bytes, *, mime: str, name: str) -> Block:
        ref, sha256 = await self._stored(data, mime)
        return FileRefBlock(ref=ref, path=name, bytes=len(data), sha256=sha256, mime=mime)

    async def _stored(self, data: bytes, mime: str) -> tuple[str, str]:
        if self._store is None:
            raise ToolError(
                "tool.output_too_large",
                "The tool answered with media or more text than fits, and nothing here stores it.",
                next_action="Ask for less, and for text.",
            )
        sha256 = await self._store.put_blob(data, mime)
        return artifact_ref(self._run_id, sha256), sha256


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise _invalid("media that are not valid base64") from None


def _checked_label(data: bytes, declared: str, *, kind: str, known: frozenset[str]) -> str:
    """Return the declared type if the bytes do not contradict it."""
    mime = normal_mime(declared) or ""
    if not mime.startswith(f"{kind}/"):
        raise _invalid(f"{kind} content labelled {declared[:80]!r}")
    found = sniff(data)
    if found != mime and (found is not None or mime in known):
        raise _invalid(f"{kind} content labelled {mime} that is {found or 'something else'}")
    return mime


def _check_size(data: bytes, limit_bytes: int, what: str) -> None:
    if len(data) > limit_bytes:
        raise ToolError(
            "tool.output_too_large",
            f"The tool answered with {what} of {len(data)} bytes; the limit is {limit_bytes}.",
            next_action="Ask for a smaller one.",
        )


def _invalid(what: str) -> ToolError:
    return ToolError(
        "tool.invalid_output",
        f"The tool ran, but answered with {what}.",
        next_action="Try another way; repeating the same call will hardly help.",
    )


def _file_name(uri: str, otherwise: str) -> str:
    """Return the last part of a URI as a plain file name."""
    try:
        last = unquote(urlsplit(uri).path).rstrip("/").rsplit("/", 1)[-1]
    except ValueError:
        last = ""
    return "".join(char for char in last if char.isprintable())[:NAME_CHARS] or otherwise
