"""An MCP server whose tool leaves a line behind.

Is: a program that `worker-mcp` starts in the smoke test. Is not: imported by it. Above: the
container. Below: the SDK's server side.
"""

import asyncio
import os

from mcp.server import MCPServer

EFFECTS = "/effects/mcp.log"

server = MCPServer("smoke", version="1.0")


@server.tool(structured_output=False)
async def append(line: str, pause_s: float) -> str:
    """Append a line after a pause."""
    await asyncio.sleep(pause_s)
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
    return "done"


if __name__ == "__main__":
    server.run("stdio")
