"""Tools whose effects can be counted.

Is: appending a line, declared as unsafe and as safe to repeat, on the loop and in a process; and a
tool that runs away. Is not: a test. Above: tests of faults. Below: `toolrail.tools`, `records.py`.
"""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

from tests.chaos.records import write_effect
from toolrail.tools import Budget, Permission, ToolContext, tool

PAUSE_S = 0.05
UNITS = 3
RUNAWAY_MS = 1_500
LONG_S = 3600


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


@tool(
    "effects.once",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
)
async def once(context: ToolContext, file: str, before_s: float = 0, after_s: float = 0) -> str:
    """Have an effect that must not happen twice, with a pause before and after it.

    Args:
        file: Where it is written down.
        before_s: First pause.
        after_s: Second pause.
    """
    return await _have_effect(context, file, before_s, after_s)


@tool(
    "effects.again",
    destructive=False,
    open_world=False,
    idempotent=True,
    permission=Permission.ALWAYS_ALLOW,
)
async def again(context: ToolContext, file: str, before_s: float = 0, after_s: float = 0) -> str:
    """Have an effect that may happen again, with pauses at the first attempt alone.

    Args:
        file: Where it is written down.
        before_s: First pause.
        after_s: Second pause.
    """
    if context.attempt > 1:
        before_s, after_s = min(before_s, PAUSE_S), min(after_s, PAUSE_S)
    return await _have_effect(context, file, before_s, after_s)


async def _have_effect(context: ToolContext, file: str, before_s: float, after_s: float) -> str:
    await asyncio.sleep(before_s)
    write_effect(Path(file), context.call_id)
    await asyncio.sleep(after_s)
    return "done"


@tool(
    "effects.isolated",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
)
def isolated(context: ToolContext, file: str, before_s: float = 0, after_s: float = 0) -> str:
    """Have an effect that must not happen twice, in a process that can be killed.

    Args:
        file: Where it is written down.
        before_s: First pause.
        after_s: Second pause.
    """
    never = threading.Event()
    never.wait(before_s)
    write_effect(Path(file), context.call_id)
    never.wait(after_s)
    return "done"


@tool(
    "effects.rare",
    destructive=False,
    open_world=False,
    permission=Permission.ALWAYS_ALLOW,
    budget=Budget(max_calls_per_run=UNITS),
)
async def rare(context: ToolContext, file: str) -> str:
    """Have an effect that a run has few units for.

    Args:
        file: Where it is written down.
    """
    return await _have_effect(context, file, 0, 0)


@tool("effects.run_away", read_only=True, budget=Budget(timeout_ms=RUNAWAY_MS))
def run_away(file: str) -> str:
    """Burn a processor, and have a child in a session of its own that does so too, for ever.

    Args:
        file: Where the two process ids are written.
    """
    burn = "while True: pass"
    child = subprocess.Popen([sys.executable, "-c", burn], start_new_session=True)
    Path(file).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
    while True:
        pass
