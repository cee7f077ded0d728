"""An extension whose tool has an effect that can be counted.

Is: a program of its own, `python -m tests.chaos.effect_extension`. Is not: imported by tests.
Above: `rig.py`. Below: `toolrail.extension`, `records.py`.
"""

import argparse
import asyncio
from functools import partial
from pathlib import Path

from tests.chaos.records import write_effect
from toolrail.extension import Extension
from toolrail.settings import Settings
from toolrail.supervisor.ready import announce_ready


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int)
    given = parser.parse_args()
    extension = Extension(
        "effects",
        version="1.0",
        settings=Settings.from_env(),
        heartbeat_s=0.3,
        dead_after_s=1.5,
    )

    @extension.tool(timeout_s=30)
    async def have(file: str, call_id: str, before_s: float = 0, after_s: float = 0) -> str:
        """Have an effect, with a pause before and after it."""
        await asyncio.sleep(before_s)
        write_effect(Path(file), call_id)
        await asyncio.sleep(after_s)
        return "done"

    ready = None if given.ready_fd is None else partial(announce_ready, given.ready_fd)
    extension.run(patience_s=60, on_ready=ready)


if __name__ == "__main__":
    main()
