"""An agent service that calls tools at a steady rate until it is told to stop.

Is: the program of the service `agent` in the smoke test. Is not: imported by it. Above: the
container. Below: `toolrail.client`.

Files in /effects: `stop` ends the load; `agent.started` says that it began; `agent.json` is what
it saw.
"""

import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from toolrail import CallRequest, Run, Toolrail
from toolrail.errors import RedisUnavailable
from toolrail.settings import Settings

FOLDER = Path("/effects")
IN_CHILD = "smoke.append_in_child"
TOOLS = ("smoke.append", "mcp.smoke.append", "ext.smoke.append", IN_CHILD)
PAUSES_S = (0.02, 0.1, 0.1, 0.5, 1.0, 6.0)
"""How long a call takes: mostly short, and some that a drain finds at work."""
PAUSE_IN_CHILD_S = 0.05
"""There are two children, and one call at a time in each."""
LOOK_AGAIN_S = 0.2
PATIENCE_S = 500.0


@dataclass
class Seen:
    """What came of the calls."""

    done: list[str] = field(default_factory=list[str])
    errors: Counter[str] = field(default_factory=Counter[str])
    """By tool and code."""
    slowest_s: float = 0.0


async def call(run: Run, number: int, seen: Seen) -> None:
    """Make one call, as often as Redis is away, and note how it ended."""
    name = TOOLS[number % len(TOOLS)]
    line = f"{name}-{number}-{run.id}"
    pause_s = PAUSE_IN_CHILD_S if name == IN_CHILD else random.choice(PAUSES_S)  # noqa: S311
    request = CallRequest(
        id=line, name=name, arguments={"line": line, "pause_s": pause_s}, turn=number
    )
    begun_at = time.monotonic()
    while True:
        try:
            result = await run.wait(await run.dispatch(request), timeout_s=PATIENCE_S)
        except RedisUnavailable:
            continue
        break
    seen.slowest_s = max(seen.slowest_s, time.monotonic() - begun_at)
    if result.is_error:
        seen.errors[f"{name}: {result.error_code}"] += 1
    else:
        seen.done.append(line)


async def tools_seen(run: Run) -> None:
    """Return when every source offers its tool."""
    while not set(TOOLS) <= {spec.name for spec in await run.tools()}:  # noqa: ASYNC110  # remote
        await asyncio.sleep(LOOK_AGAIN_S)


async def count_events(run: Run) -> tuple[int, bool]:
    """Return how many events the journal has, and whether there is no gap."""
    numbers: list[int] = []
    while events := await run.journal(after_seq=numbers[-1] if numbers else 0):
        numbers += [event.seq for event in events]
    return len(numbers), numbers == list(range(1, len(numbers) + 1))


async def main(per_s: float) -> None:
    """Call, stop, tell."""
    seen = Seen()
    async with Toolrail(Settings.from_env()) as rail, asyncio.TaskGroup() as tasks:
        run = await rail.open_run(tenant="smoke", profile="smoke", user="smoke")
        await tools_seen(run)
        (FOLDER / "agent.started").touch()
        made = [tasks.create_task(call(run, n, seen)) for n in range(len(TOOLS))]
        for number in itertools.count(len(TOOLS)):
            if (FOLDER / "stop").exists():
                break
            made.append(tasks.create_task(call(run, number, seen)))
            await asyncio.sleep(1 / per_s)
        await asyncio.gather(*made)
        await run.complete()
        events, gapless = await count_events(run)
        status = await run.status()
    told = {
        "run_id": run.id,
        "calls": len(made),
        "done": seen.done,
        "errors": seen.errors,
        "slowest_s": round(seen.slowest_s, 1),
        "events": events,
        "gapless": gapless,
        "status": status,
    }
    whole = FOLDER / "agent.new"
    whole.write_text(json.dumps(told), encoding="utf-8")
    whole.rename(FOLDER / "agent.json")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
