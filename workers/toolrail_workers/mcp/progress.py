"""Pass a server's progress on, in order and not too often.

Is: a callback for one call. Is not: a deadline; progress does not extend one.
Above: `executor.py`. Below: `ToolContext`.
"""

import time

from mcp.shared.dispatcher import ProgressFnT

from toolrail.tools import ToolContext

LEAST_PAUSE_S = 0.2
"""A chatty server may not fill the inbox of a client that only draws a bar."""


def progress_reporter(context: ToolContext) -> ProgressFnT:
    """Return a callback that reports the growing share of work done."""
    furthest = -1.0
    reported_at = float("-inf")

    async def report(progress: float, total: float | None, message: str | None) -> None:
        nonlocal furthest, reported_at
        # The SDK starts a task for each notice, so an older one may arrive later.
        if progress <= furthest:
            return
        furthest = progress
        now = time.monotonic()
        is_last = total is not None and progress >= total
        if now - reported_at < LEAST_PAUSE_S and not is_last:
            return
        reported_at = now
        context.report_progress(progress / total if total else 0.0, message or "")

    return report
