"""Tools whose effects can be counted.

Is: appending a line, declared once as unsafe and once as safe to repeat. Is not: a test. Above:
`test_redis_dies.py`. Below: `toolrail.tools`.
"""

import asyncio
import os
from pathlib import Path

from toolrail.tools import Permission, tool

PAUSE_S = 0.05


@tool(
    "effects.append",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
)
async def append(file: str, line: str) -> str:
    """Append a line, an effect that must not happen twice.

    Args:
        file: Where.
        line: What.
    """
    return await _append(file, line)


@tool(
    "effects.append_again",
    destructive=False,
    open_world=False,
    idempotent=True,
    permission=Permission.ALWAYS_ALLOW,
)
async def append_again(file: str, line: str) -> str:
    """Append a line, an effect that may happen again.

    Args:
        file: Where.
        line: What.
    """
    return await _append(file, line)


async def _append(file: str, line: str) -> str:
    await asyncio.sleep(PAUSE_S)
    descriptor = os.open(Path(file), os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
    return "done"
