"""End a background task for sure.

Is: cancel until it is over. Is not: supervision. Above: whoever owns a long-lived task. Below:
asyncio.
"""

import asyncio

PATIENCE_S = 0.25


async def end_task(task: "asyncio.Task[None] | None") -> None:
    """The task is over; its own exception, if any, is not raised here.

    One cancel is not enough: a Redis read whose zero timeout expires in the same loop tick
    swallows it, and the task then waits for its next reply (seen with redis-py 8.1 on 3.11).
    """
    if task is None:
        return
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE_S)
    if not task.cancelled():
        task.exception()
