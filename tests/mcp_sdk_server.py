"""A small honest MCP server of the modern era, made with the SDK.

Is: a program for its own process, with one tool per thing that a test wants to see.
Is not: imported by tests. Above: `tests/mcp_servers.py`. Below: the SDK's server side.

The one argument is a file that `nap` makes when it is cancelled.
"""

import asyncio
import base64
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import AudioContent, CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("sdk", version="1.0")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
WAV = b"RIFF\x24\x00\x00\x00WAVE" + bytes(16)


@server.tool(annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False))
async def echo(text: str) -> str:
    """Say it again."""
    return text


@server.tool(structured_output=False)
async def nap(seconds: float, ctx: Context) -> str:
    """Do nothing for a while."""
    await ctx.report_progress(1, 2, "lying down")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        Path(sys.argv[1]).touch()  # noqa: ASYNC240  # there is nothing else to block here
        raise
    return "slept"


@server.tool(structured_output=False)
async def picture() -> CallToolResult:
    """Return an image and a sound."""
    image = ImageContent(data=base64.b64encode(PNG).decode(), mime_type="image/png")
    sound = AudioContent(data=base64.b64encode(WAV).decode(), mime_type="audio/x-wav")
    return CallToolResult(content=[TextContent(text="look"), image, sound])


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Get one more tool."""

    async def grown() -> str:
        return "grown"

    server.add_tool(grown, name="grown", description="Was not there before.")
    await ctx.notify_tools_changed()
    return "one more"


if __name__ == "__main__":
    server.run("stdio")
