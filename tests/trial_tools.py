"""Tools to be tried: each ends in its own way.

Is: what a tool author might write, good and bad. Is not: a test.
Above: `tests/component/test_try.py`. Below: `toolrail.tools`.
"""

import asyncio
import os

from toolrail.tools import Budget, Isolation, SystemFailure, ToolContext, ToolError, tool


@tool("trial.double", read_only=True)
def double(number: int) -> dict[str, int]:
    """Double a number, in a child process."""
    return {"doubled": 2 * number, "pid": os.getpid()}


@tool("trial.shout", read_only=True, budget=Budget(max_output_tokens=256))
async def shout(times: int, context: ToolContext) -> str:
    """Say a line many times."""
    context.report_progress(0.5, "half way")
    return "AAAA AAAA AAAA\n" * times


@tool("trial.sleep", read_only=True, budget=Budget(timeout_ms=100))
async def sleep() -> str:
    """Sleep for an hour."""
    await asyncio.sleep(3600)
    return "rested"


@tool("trial.crash", read_only=True, isolation=Isolation.PROCESS)
def crash() -> str:
    """End the process it runs in."""
    os._exit(7)


@tool("trial.refuse", read_only=True)
async def refuse() -> str:
    """Refuse, and say what to do."""
    raise ToolError("trial.refused", "Not today.", next_action="Ask again tomorrow.")


@tool("trial.break_down", read_only=True)
async def break_down() -> str:
    """Fail in a way that ends a run."""
    raise SystemFailure("tool.internal_error", "The disk is gone.")


@tool("trial.erase", destructive=True)
async def erase() -> str:
    """Erase everything."""
    return "erased"
