"""An MCP server whose tool has an effect that can be counted.

Is: a program for its own process. Is not: imported by tests. Above: `rig.py`. Below: the SDK's
server side, `records.py`.
"""

import asyncio
from pathlib import Path

from mcp.server import MCPServer

from tests.chaos.records import write_effect

server = MCPServer("effects", version="1.0")


@server.tool(structured_output=False)
async def have(file: str, call_id: str, before_s: float = 0, after_s: float = 0) -> str:
    """Have an effect, with a pause before and after it."""
    await asyncio.sleep(before_s)
    write_effect(Path(file), call_id)
    await asyncio.sleep(after_s)
    return "done"


if __name__ == "__main__":
    server.run("stdio")
