"""Tools whose calls can be caught in the middle.

Is: what the cluster tests call. Is not: a test.
Above: `tests/integration/test_cluster.py`. Below: `toolrail.tools`.
"""

import asyncio
from pathlib import Path

from toolrail.tools import Permission, ToolContext, tool

ENDLESS_S = 3_600.0
LOOK_AGAIN_S = 0.02


@tool("cluster.endless_once", read_only=True)
async def endless_once(context: ToolContext) -> str:
    """Never end at the first attempt, at once at the second."""
    if context.attempt == 1:
        await asyncio.sleep(ENDLESS_S)
    return f"attempt {context.attempt}"


@tool(
    "cluster.endless_effect",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
)
async def endless_effect() -> str:
    """Never end, and have an effect that must not happen twice."""
    await asyncio.sleep(ENDLESS_S)
    return "done"


@tool("cluster.wait_for_file", read_only=True)
async def wait_for_file(path: str) -> str:
    """End when a file appears.

    Args:
        path: Which file.
    """
    while not Path(path).exists():  # noqa: ASYNC110, ASYNC240  # a gate between two processes
        await asyncio.sleep(LOOK_AGAIN_S)
    return "open"
