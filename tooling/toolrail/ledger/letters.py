"""Handle one dead letter after the other, by one atomic step each.

Is: the Python face of `lua/letter.lua`. Is not: finding letters or making new calls
(`toolrail.dead_letters`, `toolrail.redriving`). Above: those. Below: `scripts.py`.

Every method is idempotent and retries while Redis is away.
"""

from dataclasses import dataclass
from typing import Literal

from redis.asyncio import Redis

from toolrail.ledger.scripts import Scripts, strings
from toolrail.redis_io import Argument


@dataclass(frozen=True, slots=True)
class LetterAnswer:
    """What the ledger says of a letter.

    Attributes:
        status: `claimed` or `pending`: a redrive stands, ours or one that was begun before; `done`;
            `redriven` or `discarded`: handled before; `effect_unknown`: its effect may happen
            twice; `stale`: that redrive is over; `no_letter`; `no_call`: past its retention.
        number: Of the redrive, from 1.
        target: Run in which the new call is to be made; "" while it has none. Of a letter that is
            redriven, the new call as `run_id.call_key`.
        by: Who handles or handled it.
        at_ms: When, by the clock of Redis.
    """

    status: Literal[
        "claimed",
        "pending",
        "done",
        "redriven",
        "discarded",
        "effect_unknown",
        "stale",
        "no_letter",
        "no_call",
    ]
    number: int = 0
    target: str = ""
    by: str = ""
    at_ms: int = 0


class Letters:
    """The dead letters of one cell, for writing."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._scripts = Scripts(redis, prefix=prefix)
        self._deadline_s = deadline_s

    async def claim(
        self, run_id: str, call_key: str, *, nonce: str, by: str, effect_may_repeat: bool
    ) -> LetterAnswer:
        """One redrive of the letter stands: ours, or the one that somebody claimed before."""
        return await self._do(run_id, call_key, "claim", nonce, by, int(effect_may_repeat))

    async def aim(self, run_id: str, call_key: str, *, number: int, target: str) -> LetterAnswer:
        """The redrive has a run for its call: this one, or the one that was named before."""
        return await self._do(run_id, call_key, "aim", number, target)

    async def accepted(
        self, run_id: str, call_key: str, *, number: int, new_call: str
    ) -> LetterAnswer:
        """The letter is off the list, and its record names the new call."""
        return await self._do(run_id, call_key, "settle", number, "accepted", new_call, "")

    async def refused(self, run_id: str, call_key: str, *, number: int, code: str) -> LetterAnswer:
        """The letter stays on the list, free for the next redrive; no call of this one is taken.

        `redriven` when its call was made meanwhile and the letter is off the list for it.
        """
        return await self._do(run_id, call_key, "settle", number, "refused", "", code)

    async def discard(self, run_id: str, call_key: str, *, by: str) -> LetterAnswer:
        """The letter is off the list, and its record says by whom."""
        return await self._do(run_id, call_key, "discard", by)

    async def _do(self, run_id: str, call_key: str, op: str, *args: Argument) -> LetterAnswer:
        reply = await self._scripts.call(
            "letter", run_id, call_key, op, *args, deadline_s=self._deadline_s
        )
        return _answer(strings(reply))


def _answer(reply: list[str]) -> LetterAnswer:
    match reply:
        case ["CLAIMED" | "PENDING" as word, number, target, by, at_ms]:
            status: Literal["claimed", "pending"] = "claimed" if word == "CLAIMED" else "pending"
            return LetterAnswer(status, int(number), target, by, int(float(at_ms)))
        case ["REDRIVEN", new_call, by, at_ms]:
            return LetterAnswer("redriven", target=new_call, by=by, at_ms=int(float(at_ms)))
        case ["DISCARDED", by, at_ms]:
            return LetterAnswer("discarded", by=by, at_ms=int(float(at_ms)))
        case ["OK", target]:
            return LetterAnswer("done", target=target)
        case ["OK" | "DUP"]:
            return LetterAnswer("done")
        case ["EFFECT_UNKNOWN"]:
            return LetterAnswer("effect_unknown")
        case ["STALE"]:
            return LetterAnswer("stale")
        case ["NO_CALL"]:
            return LetterAnswer("no_call")
        case _:
            return LetterAnswer("no_letter")
