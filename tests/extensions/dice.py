"""An extension as its author writes it: it rolls dice, and has tools that take their time.

Is: a program of its own, `python -m tests.extensions.dice`, and what tests serve in-process. Is
not: a double. Above: tests of extensions. Below: `toolrail.extension`.
"""

import argparse
import asyncio
import random
from functools import partial
from typing import Annotated

from pydantic import BaseModel, Field

from toolrail.extension import Extension
from toolrail.settings import Settings
from toolrail.supervisor.ready import announce_ready

Dice = Annotated[int, Field(ge=1, le=100)]


class Roll(BaseModel):
    """What the dice show."""

    dice: list[int]
    total: int


def create_dice(
    settings: Settings,
    *,
    version: str = "1.0",
    heartbeat_s: float = 15.0,
    dead_after_s: float = 45.0,
) -> Extension:
    """Return the extension; nothing is connected yet."""
    dice = Extension(
        "dice",
        version=version,
        settings=settings,
        heartbeat_s=heartbeat_s,
        dead_after_s=dead_after_s,
    )

    @dice.tool(title="Roll dice", read_only=True)
    def roll(count: Dice = 1, sides: Dice = 6, seed: int | None = None) -> Roll:
        """Roll dice.

        Args:
            count: How many.
            sides: Of each.
            seed: The same seed rolls the same dice.
        """
        chance = random.Random(seed)  # noqa: S311  # dice, not keys
        rolled = [chance.randint(1, sides) for _ in range(count)]
        return Roll(dice=rolled, total=sum(rolled))

    @dice.tool(timeout_s=60)
    async def throw_far(seconds: float = 60) -> str:
        """Throw the dice so far that it takes long to find them; nobody can undo that."""
        await asyncio.sleep(seconds)
        return "found"

    @dice.tool(read_only=True, timeout_s=60)
    async def ponder(seconds: float = 60) -> str:
        """Look at the dice for long."""
        await asyncio.sleep(seconds)
        return "six"

    return dice


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--ready-fd", type=int)
    parser.add_argument("--version", default="1.0")
    parser.add_argument("--heartbeat-s", type=float, default=15.0)
    parser.add_argument("--dead-after-s", type=float, default=45.0)
    parser.add_argument("--patience-s", type=float, default=0.0)
    given = parser.parse_args()
    dice = create_dice(
        Settings.from_env(),
        version=given.version,
        heartbeat_s=given.heartbeat_s,
        dead_after_s=given.dead_after_s,
    )
    ready = None if given.ready_fd is None else partial(announce_ready, given.ready_fd)
    dice.run(patience_s=given.patience_s, on_ready=ready)


if __name__ == "__main__":
    main()
