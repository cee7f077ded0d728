"""Look at the queues: does work wait that nobody takes.

Is: `QueueState` judged. Is not: the reading of it (`toolrail.queues`). Above: `examine.py`.
Below: `toolrail.queues`.
"""

from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.queues import QueueState
from toolrail.spans import age_text

OLD_MS = 60_000


def judge_queue(queue: QueueState) -> Finding:
    """Return what the state of one queue means."""
    claiming = queue.workers - queue.draining
    here = f"{queue.source}: {queue.queued} calls wait, {claiming} workers claim"
    if queue.queued and not claiming:
        seen = f"{here}; the oldest waits for {age_text(queue.oldest_ms)}"
        undo = f", or toolrail drain --source {queue.source} --undo" if queue.draining else ""
        return fail("queues", seen, f"toolrail worker {queue.source}{undo}")
    if not claiming:
        return warn("queues", here, f"toolrail worker {queue.source}, if it has tools")
    if queue.oldest_ms is not None and queue.oldest_ms > OLD_MS:
        seen = (
            f"{here}; the oldest waits for {age_text(queue.oldest_ms)}, "
            f"{queue.busy} of {queue.slots} slots are busy"
        )
        fix = f"Start more: toolrail worker {queue.source}. Or their tools are down, see below."
        return warn("queues", seen, fix)
    return ok("queues", here)
