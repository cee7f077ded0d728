"""Two tools of a team's own, made with `@tool`.

Is: what a team would write. Is not: part of the product's tool set; only the demo loads it.
Above: `world.py` names it in `tool_modules`. Below: `toolrail.tools`.
"""

import asyncio

from toolrail.tools import ToolContext, tool

_ENDLESS_S = 3_600.0


@tool("report.count_words", read_only=True)
async def count_words(text: str, context: ToolContext) -> dict[str, int]:
    """Count the words of a text, slowly.

    The first attempt never ends by itself, so that the demo can kill its worker in the middle.

    Args:
        text: What to count.
        context: Of the call; tells the attempt.
    """
    if context.attempt == 1:
        await asyncio.sleep(_ENDLESS_S)
    return {"words": len(text.split()), "attempt": context.attempt}


@tool("report.publish", destructive=True)
async def publish(path: str) -> str:
    """Publish a file to the whole world.

    Args:
        path: Which file.
    """
    raise RuntimeError(f"{path} must never be published; the policy of the demo forbids it")
