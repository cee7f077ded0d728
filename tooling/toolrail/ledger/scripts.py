"""Load the ledger's Lua scripts and call them.

Is: script text to SHA-1, one retry policy, reload after a Redis that forgot. Is not: what the
scripts mean (`ledger.py`) or do (the Lua files). Above: `ledger.py`. Below: `redis_io`.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import cast

from redis import exceptions as rx
from redis.asyncio import Redis

from toolrail.redis_io import Argument, command, retrying, round_trips_of

NAMES = (
    "open_run",
    "dispatch",
    "approve",
    "parked",
    "ask_again",
    "claim",
    "renew",
    "finish",
    "cancel",
    "requeue",
    "ring",
    "end_run",
    "append",
    "retire",
    "letter",
)
SHEBANG = "#!lua"


MEASURED = "local MEASURED = true\n"


def script_text(name: str, *, measured: bool = True) -> str:
    """Return one script with the shared prelude under its own first line.

    Args:
        name: One of `NAMES`.
        measured: Count what only the exporter wants, beyond the books that must balance.
    """
    folder = resources.files("toolrail.ledger").joinpath("lua")
    prelude = folder.joinpath("_prelude.lua").read_text(encoding="utf-8")
    first, rest = folder.joinpath(f"{name}.lua").read_text(encoding="utf-8").split("\n", 1)
    if not first.startswith(SHEBANG):
        raise ValueError(f"{name}.lua must start with {SHEBANG}")
    if prelude.count(MEASURED) != 1:
        raise ValueError(f"_prelude.lua must say {MEASURED!r} once")
    if not measured:
        prelude = prelude.replace(MEASURED, MEASURED.replace("true", "false"))
    return f"{first}\n{prelude}\n{rest}"


class Scripts:
    """The ledger's scripts on one Redis."""

    def __init__(self, redis: Redis, *, prefix: str, measured: bool = True) -> None:
        self._redis = redis
        self._prefix = prefix
        self._round_trips = round_trips_of(redis)
        self._texts = {name: script_text(name, measured=measured) for name in NAMES}
        self._sha1 = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for name, text in self._texts.items()
        }
        self._round_trips.name_operations({sha1: name for name, sha1 in self._sha1.items()})
        self._loading = asyncio.Lock()

    async def call(self, name: str, *args: Argument, deadline_s: float) -> list[object]:
        """Return the reply of one script; every script is idempotent, so lost replies are retried.

        Raises:
            RedisUnavailable: No answer before the deadline; the script may have taken effect.
            AdmissionClosed: Redis is out of memory and the script is one that accepts work.
        """
        line: tuple[Argument, ...] = ("EVALSHA", self._sha1[name], 0, self._prefix, *args)

        async def once() -> object:
            try:
                return await self._round_trips.send(*line)
            except rx.NoScriptError:
                await self._load()
                return await self._round_trips.send(*line)

        return cast("list[object]", await retrying(once, deadline_s=deadline_s))

    async def _load(self) -> None:
        async with self._loading:
            for text in self._texts.values():
                await command(self._redis, "SCRIPT", "LOAD", text)


def strings(reply: Sequence[object]) -> list[str]:
    """Return a reply whose items are strings or integers as strings."""
    return [item if isinstance(item, str) else str(item) for item in reply]
