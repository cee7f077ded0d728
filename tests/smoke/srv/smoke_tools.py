"""Tools that leave a line behind, so that effects can be counted.

Is: what `worker-builtin` runs in the smoke test. Is not: imported by it. Above: the container.
Below: `toolrail.tools`.
"""

import asyncio
import os
import threading

from toolrail.tools import Permission, tool

EFFECTS = "/effects/builtin.log"


@tool(
    "smoke.append",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
)
async def append(line: str, pause_s: float) -> str:
    """Append a line after a pause, an effect that must not happen twice.

    Args:
        line: What.
        pause_s: How long before.
    """
    await asyncio.sleep(pause_s)
    return write(line)


@tool(
    "smoke.append_in_child",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
)
def append_in_child(line: str, pause_s: float) -> str:
    """Do the same in a child process.

    Args:
        line: What.
        pause_s: How long before.
    """
    threading.Event().wait(pause_s)
    return write(line)


def write(line: str) -> str:
    """Append in one step."""
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)
    return "done"
