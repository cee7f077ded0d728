"""Turn the content blocks of an MCP result into ours; media are stored and referred to.

Is: one block at a time, with decoding and sniffing. Is not: the result as a whole (`mapping.py`),
or limits on text and JSON (`toolrail_workers.output` stores and cuts those).
Above: `mapping.py`. Below: `media.py`, the call's blob store.
"""

import base64
import binascii
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

from toolrail.tools import BlobStore, ToolError
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

IMAGE_BYTES = 8 * 1024 * 1024
AUDIO_BYTES = 32 * 1024 * 1024
NAME_CHARS = 200
TITLE_CHARS = 1_000

ImageType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


class BlockMapper:
    """Maps the blocks of one call's result."""

    def __init__(self, *, server: str, run_id: str, store: BlobStore | None) -> None:
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
                    return [json_block(cast(JsonValue, meta[RAW_MARK]))]
                return text_blocks(block.text)
            case ImageContent():
                return [await self._image(_decoded(block.data), block.mime_type)]
            case AudioContent():
                return [await self._audio(_decoded(block.data), block.mime_type)]
            case ResourceLink():
                return self._link(block.uri, block.mime_type, block.title or block.name)
            case EmbeddedResource():
                return await self._resource(block.resource)

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
        link = self._link(resource.uri, resource.mime_type, None)
        return [*link, *text_blocks(resource.text)]

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
                "The tool answered with media, and there is no store for them here.",
                next_action="Ask for text.",
            )
        sha256 = await self._store.put_blob(data, mime)
        return artifact_ref(self._run_id, sha256), sha256


def text_blocks(text: str) -> Sequence[Block]:
    """Return a text of any length as a block; the worker cuts it. Empty text is no block."""
    return [TextBlock.model_construct(text=text)] if text else []


def json_block(value: JsonValue) -> Block:
    """Return a JSON value of any size as a block; the worker cuts it."""
    return JsonBlock.model_construct(value=value)


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
