"""Tools with one way each for a call to end.

Is: what the live run calls. Is not: a test. Above: `faults.py`. Below: `toolrail.tools`.
"""

import asyncio
import os
import signal

from toolrail.tools import Budget, Permission, SystemFailure, ToolContext, ToolError, tool

ENDLESS_S = 3_600.0


@tool("live.work", read_only=True)
async def work(seconds: float = 0.02) -> str:
    """Take a moment.

    Args:
        seconds: How long.
    """
    await asyncio.sleep(seconds)
    return "done"


@tool("live.fail", read_only=True)
async def fail() -> str:
    """Say that it cannot be done."""
    raise ToolError("live.cannot", "This never works.")


@tool("live.break_down", read_only=True)
async def break_down() -> str:
    """Break what is under the tool."""
    raise SystemFailure("tool.internal_error", "The floor gave way.")


@tool("live.oversleep", read_only=True, budget=Budget(timeout_ms=200))
async def oversleep() -> str:
    """Take longer than is allowed."""
    await asyncio.sleep(ENDLESS_S)
    return "never"


@tool("live.wait", read_only=True)
async def wait() -> str:
    """Go on until it is cancelled."""
    await asyncio.sleep(ENDLESS_S)
    return "never"


@tool("live.once", read_only=True, budget=Budget(max_calls_per_run=1))
async def once() -> str:
    """Work once in a run."""
    return "once"


@tool("live.one_a_turn", read_only=True, budget=Budget(max_calls_per_turn=1))
async def one_a_turn() -> str:
    """Work once in a turn."""
    return "this turn"


@tool("live.ask", destructive=True)
async def ask(what: str) -> str:
    """Do something that needs a person's word.

    Args:
        what: Which thing.
    """
    return what


@tool("live.publish", destructive=True)
async def publish() -> str:
    """Do what the profile denies."""
    return "never"


@tool("live.effect", destructive=False, open_world=False, permission=Permission.ALWAYS_ALLOW)
async def effect() -> str:
    """Never end, with an effect that must not happen twice."""
    await asyncio.sleep(ENDLESS_S)
    return "never"


@tool("live.second_try", read_only=True)
async def second_try(context: ToolContext) -> str:
    """Never end at the first attempt, at once at the second."""
    if context.attempt == 1:
        await asyncio.sleep(ENDLESS_S)
    return f"attempt {context.attempt}"


@tool("live.poison", read_only=True)
async def poison() -> str:
    """Kill whatever worker runs it."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool("live.block", read_only=True)
async def block(seconds: float) -> str:
    """Stand on the worker's event loop, as a badly written tool does.

    Args:
        seconds: How long.
    """
    end = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < end:
        pass
    return "done"
