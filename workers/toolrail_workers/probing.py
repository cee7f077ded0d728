"""Choose for which calls without a message to ring, so that nobody is asked in vain for long.

Is: patience with tools that no worker can run at the moment. Is not: which calls have no message
(`rebell.py`), nor what a worker does with a call that it cannot run (`passing.py`).
Above: `rebell.py`. Below: the ledger's reader, the registry's version.

A doorbell that comes back says little about its call and much about the tool: of calls of one
version of a tool, a worker can run all or none. So once they come back and none was taken, a few of
them ask for the rest; when one of those is taken, or the registry moves because somebody came, all
are rung for. Otherwise a hundred calls that wait for a restart would be a hundred doorbells per
grace, which the wrong workers pop and drop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolrail.ledger import Due, LedgerReader
from toolrail.registry import Registry

PROBES = 4
"""Calls of one tool that ask for the others, per look. One would do; its worker may be killed."""

Member = tuple[str, str]
"""Run and call key; unlike a `Due`, the same under each ring number."""
Kind = tuple[str, str]
"""Tool and spec hash."""


@dataclass(slots=True)
class Asked:
    """What became of the doorbells of one kind of call."""

    rung: set[Member] = field(default_factory=set[Member])
    in_vain: bool = False


class Probing:
    """What the leader knows of the doorbells that it rang in one queue."""

    def __init__(self, reader: LedgerReader, registry: Registry) -> None:
        """Prepare.

        Args:
            reader: Of the cell.
            registry: Its version moves when a worker comes, or can do more.
        """
        self._reader = reader
        self._registry = registry
        self._version = -1
        self._kinds: dict[Member, Kind] = {}
        self._asked: dict[Kind, Asked] = {}

    async def choose(self, missing: Sequence[Due], ripe: Sequence[Due]) -> list[Due]:
        """Return for which calls to ring now.

        Args:
            missing: The queued calls without a message.
            ripe: Those of them that have had none for the whole grace.

        Raises:
            RedisUnavailable: Ask again at the next look.
        """
        absent = {member_of(due): due for due in missing}
        if await self._has_moved():
            ripe = self._with_rung(absent, ripe)
            self._asked.clear()
        by_kind = await self._by_kind(absent, ripe)
        self._forget_others(absent)
        chosen: list[Due] = []
        for kind, dues in by_kind.items():
            chosen += await self._choose(self._asked.setdefault(kind, Asked()), dues, absent)
        return chosen

    async def _has_moved(self) -> bool:
        before, self._version = self._version, await self._registry.version()
        return before != self._version

    def _with_rung(self, absent: Mapping[Member, Due], ripe: Sequence[Due]) -> list[Due]:
        """Return also those that were rung for in vain a moment ago: who came may take them."""
        rung = {member for asked in self._asked.values() for member in asked.rung}
        return list(
            dict.fromkeys([*ripe, *(absent[member] for member in absent if member in rung)])
        )

    async def _by_kind(
        self, absent: Mapping[Member, Due], ripe: Sequence[Due]
    ) -> dict[Kind, list[Due]]:
        self._kinds = {member: kind for member, kind in self._kinds.items() if member in absent}
        new = [member for member in map(member_of, ripe) if member not in self._kinds]
        read = await self._reader.call_fields(new, ("tool", "spec_hash"))
        for member, fields in zip(new, read, strict=True):
            self._kinds[member] = (fields.get("tool", ""), fields.get("spec_hash", ""))
        found: dict[Kind, list[Due]] = {}
        for due in ripe:
            found.setdefault(self._kinds[member_of(due)], []).append(due)
        return found

    def _forget_others(self, absent: Mapping[Member, Due]) -> None:
        """Forget the kinds of which nothing that was rung for came back."""
        self._asked = {
            kind: asked
            for kind, asked in self._asked.items()
            if any(member in absent for member in asked.rung)
        }

    async def _choose(
        self, asked: Asked, dues: Sequence[Due], absent: Mapping[Member, Due]
    ) -> Sequence[Due]:
        came_back = any(member_of(due) in asked.rung for due in dues)
        if came_back or asked.in_vain:
            asked.in_vain = not await self._was_any_taken(asked, absent)
        if asked.in_vain:
            # Each ring gives a new number, so that those rung for least recently come first.
            dues = dues[:PROBES]
        asked.rung |= {member_of(due) for due in dues}
        return dues

    async def _was_any_taken(self, asked: Asked, absent: Mapping[Member, Due]) -> bool:
        """Whether a call that was rung for waits no more; forgets those that do not."""
        out = [member for member in asked.rung if member not in absent]
        read = await self._reader.call_fields(out, ("state",))
        taken = {m for m, f in zip(out, read, strict=True) if f.get("state") != "queued"}
        asked.rung -= taken
        return bool(taken)


def member_of(due: Due) -> Member:
    """Return the call that is due."""
    return due.run_id, due.call_key
