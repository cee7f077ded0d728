"""Results and errors of MCP servers, as they read on our side.

Is: `mapping.py`, `blocks.py` and `media.py` with results made by hand. Is not: the wire.
Above: nothing. Below: `toolrail_workers.mcp`.
"""

import base64

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from tests.mcp_servers import RUN_ID, KeptBlobs
from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_schemas import (
    Annotations,
    AudioRefBlock,
    Block,
    FileRefBlock,
    ImageRefBlock,
    JsonBlock,
    Permission,
    ResourceRefBlock,
    Source,
    SourceRef,
    TextBlock,
    ToolResult,
    ToolSpec,
)
from toolrail_workers.mcp.mapping import to_error, to_output
from toolrail_workers.mcp.media import sniff
from toolrail_workers.output import OutputLimits, fit_output

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
MP3 = b"ID3" + bytes(8)
TAR = b"\x1f\x8b\x08" + bytes(8)


def spec(*, safe: bool = False) -> ToolSpec:
    annotations = Annotations(read_only=True, trusted=True) if safe else Annotations()
    return ToolSpec(
        name="mcp.notes.read",
        title="Read",
        description="Read.",
        input_schema={"type": "object"},
        annotations=annotations,
        permission=Permission.APPROVAL_REQUIRED,
        source=Source.MCP,
        source_ref=SourceRef(server="notes"),
    )


async def mapped(*content: ContentBlock, **more: object) -> ToolOutput:
    """Return the output, after checking that the worker can make a result of it."""
    result = CallToolResult.model_validate({"content": list(content), **more}, by_name=True)
    context = ToolContext(run_id=RUN_ID, call_key="0" * 16, store=KeptBlobs())
    output = await to_output(result, server="notes", context=context)
    limits = OutputLimits(tokens=4_000, stored_bytes=64 * 2**20)
    fitted = fit_output(output, run_id=RUN_ID, call_key="0" * 16, limits=limits)
    ToolResult(
        call_id="c",
        name="mcp.notes.read",
        content=fitted.content,
        structured=fitted.structured,
        is_error=output.is_error,
        error_code=output.error_code,
        error_class=output.error_class,
        resource_refs=fitted.resource_refs,
        truncated=fitted.truncated,
    )
    return output


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def resource(data: bytes, mime: str | None, uri: str = "file:///a/b.bin") -> EmbeddedResource:
    blob = BlobResourceContents(uri=uri, mime_type=mime, blob=encoded(data))
    return EmbeddedResource(resource=blob)


async def only_block(*content: ContentBlock) -> Block:
    (block,) = (await mapped(*content)).content
    return block


async def test_structure_is_not_said_twice() -> None:
    """Text that repeats it, in either usual way, is dropped; other text stays."""
    plain = await mapped(
        TextContent(text='{"b": 1, "a": 2}'),
        TextContent(text="note"),
        structured_content={"a": 2, "b": 1},
    )
    wrapped = await mapped(TextContent(text="hi"), structured_content={"result": "hi"})

    assert plain.content == (JsonBlock(value={"a": 2, "b": 1}), TextBlock(text="note"))
    assert plain.structured == {"a": 2, "b": 1}
    assert wrapped.content == ()
    assert wrapped.structured == {"result": "hi"}


async def test_output_of_any_size_is_handed_on_whole() -> None:
    """The worker stores and cuts it; a limit here would cut it twice."""
    said = "line of text\n" * 10_000
    output = await mapped(*[TextContent(text=said)] * 50, structured_content={"rows": [said]})

    assert len(output.content) == 51
    assert output.content[-1] == TextBlock.model_construct(text=said)
    assert output.structured == {"rows": [said]}


async def test_without_a_store_media_are_an_error_that_says_so() -> None:
    """A bare context has none."""
    context = ToolContext(run_id=RUN_ID, call_key="0" * 16)
    result = CallToolResult(content=[ImageContent(data=encoded(PNG), mime_type="image/png")])
    with pytest.raises(ToolError) as caught:
        await to_output(result, server="notes", context=context)

    assert caught.value.code == "tool.output_too_large"


@pytest.mark.parametrize(
    "block",
    [
        ImageContent(data="not base64!", mime_type="image/png"),
        ImageContent(data=encoded(PNG), mime_type="image/jpeg"),
        ImageContent(data=encoded(b"<html>"), mime_type="image/png"),
        ImageContent(data=encoded(PNG), mime_type="text/html"),
        AudioContent(data=encoded(PNG), mime_type="audio/wav"),
        AudioContent(data=encoded(b"nothing"), mime_type="audio/mpeg"),
    ],
)
async def test_media_that_are_not_what_they_claim_are_refused(block: ContentBlock) -> None:
    """The tool ran, so the message does not invite to repeat it."""
    with pytest.raises(ToolError) as caught:
        await mapped(block)

    assert caught.value.code == "tool.invalid_output"
    assert "The tool ran" in str(caught.value)


async def test_media_labels_in_other_spellings_are_known() -> None:
    """Parameters and old names of a type say the same."""
    image = await only_block(ImageContent(data=encoded(b"\xff\xd8\xff\xe0"), mime_type="image/JPG"))
    sound = await only_block(AudioContent(data=encoded(MP3), mime_type="audio/mp3; rate=8"))

    assert isinstance(image, ImageRefBlock)
    assert image.mime == "image/jpeg"
    assert isinstance(sound, AudioRefBlock)
    assert sound.mime == "audio/mpeg"


async def test_an_image_no_model_takes_is_a_file() -> None:
    """SVG is text that can run; it is kept, not shown."""
    block = await only_block(ImageContent(data=encoded(b"<svg/>"), mime_type="image/svg+xml"))

    assert isinstance(block, FileRefBlock)
    assert block.mime == "image/svg+xml"


async def test_an_image_over_the_limit_is_too_large() -> None:
    """Eight mebibytes; base64 of it passes the line limit."""
    with pytest.raises(ToolError) as caught:
        await mapped(ImageContent(data=encoded(PNG + bytes(8 * 2**20)), mime_type="image/png"))

    assert caught.value.code == "tool.output_too_large"


async def test_bytes_of_a_resource_outrank_its_label() -> None:
    """Servers label archives as text and images as archives."""
    archive = await only_block(resource(TAR, "text/plain"))
    image = await only_block(resource(PNG, "application/gzip"))
    mislabelled = await only_block(resource(TAR, "image/png"))

    assert isinstance(archive, FileRefBlock)
    assert (archive.path, archive.mime) == ("b.bin", "text/plain")
    assert isinstance(image, ImageRefBlock)
    assert isinstance(mislabelled, FileRefBlock)
    assert mislabelled.mime == "application/octet-stream"


async def test_a_text_resource_is_text_with_its_address() -> None:
    """So that it can be asked for again."""
    text = TextResourceContents(uri="notes://today?a=1", mime_type="text/markdown", text="# Today")
    output = await mapped(EmbeddedResource(resource=text))

    assert output.content == (
        ResourceRefBlock(uri="mcp:notes/notes%3A%2F%2Ftoday%3Fa%3D1", mime="text/markdown"),
        TextBlock(text="# Today"),
    )


async def test_a_link_is_a_reference_and_is_not_followed() -> None:
    """Its title is shown; an address that cannot be a reference is only text."""
    link = await only_block(ResourceLink(uri="file:///x", name="x", title="The X"))
    endless = await only_block(ResourceLink(uri="x:" + "y" * 3_000, name="x"))

    assert link == ResourceRefBlock(uri="mcp:notes/file%3A%2F%2F%2Fx", title="The X")
    assert isinstance(endless, TextBlock)


async def test_an_error_without_words_says_what_to_do() -> None:
    """A model is never left with an empty error."""
    output = await mapped(is_error=True)

    assert output.error_code == "tool.mcp_error"
    assert output.content == (
        TextBlock(text="The tool reported an error.\n\nRead the message and correct the call."),
    )


@pytest.mark.parametrize(
    ("error", "unsafe", "safe"),
    [
        (MCPError(-32000, "closed"), "tool.outcome_unknown", "mcp.server_unavailable"),
        (MCPError(-32001, "timeout"), "tool.outcome_unknown", "tool.timeout"),
        (MCPError(-32602, "bad"), "tool.invalid_arguments", "tool.invalid_arguments"),
        (MCPError(-32601, "no"), "mcp.protocol_error", "mcp.protocol_error"),
        (MCPError(-32603, "oh"), "mcp.protocol_error", "mcp.protocol_error"),
        (MCPError(-32042, "url"), "mcp.protocol_error", "mcp.protocol_error"),
        (ValueError("shape"), "mcp.protocol_error", "mcp.protocol_error"),
    ],
)
def test_a_failure_is_as_certain_as_the_tool_allows(
    error: Exception, unsafe: str, safe: str
) -> None:
    """What may have happened is never called a plain failure."""
    assert to_error(error, server="notes", spec=spec()).code == unsafe
    assert to_error(error, server="notes", spec=spec(safe=True)).code == safe


@pytest.mark.parametrize(
    ("data", "mime"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xdb", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (MP3, "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mpeg"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"OggS", "audio/ogg"),
        (b"fLaC", "audio/flac"),
        (b"\0\0\0\x20ftypM4A ", "audio/mp4"),
        (TAR, None),
        (b"", None),
        (b"\xff", None),
        (b"RIFF\0\0\0\0AVI ", None),
    ],
)
def test_bytes_tell_their_type(data: bytes, mime: str | None) -> None:
    """The few that a model can take, and nothing else."""
    assert sniff(data) == mime
