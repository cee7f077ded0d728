"""Know which tools exist and who can execute them now.

Is: what workers announce and dispatchers read (DESIGN 3). Is not: permission to see or call
anything. Above: dispatcher, workers, CLI. Below: `redis_io`, `keys`.

An owner is who gives the tools: `builtin` itself, an MCP server, an extension. Several workers may
have one owner and not the same tools of it, as in a roll-out: each has its own entry, and the tools
of the owner are all of theirs. The specs stay listed for a week after the last announcement, so
that calls may wait for workers that restart; while others of the owner live, those of a worker
that is gone stay for `GONE_S` only. `available` says whether a call could run at this moment.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, cast

from pydantic import TypeAdapter, ValidationError
from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.redis_io import command, retrying
from toolrail_schemas import ToolSpec, canonical_json, sha256_hex

log = logging.getLogger(__name__)

OWNER_TTL_MS = 7 * 86_400_000
LIVE_S = 30.0
"""A worker that has not announced for so long counts as gone."""
GONE_S = 120.0
"""For so long a worker may be gone, to restart, before others of its owner drop its entry."""
RESTART_S = 15.0
"""For so long a worker that went is expected back by those who have a call for it."""
FRESH_S = 1.0
"""How old a reader's view may be before it asks for the version again."""
QUEUES = ("builtin", "mcp", "extension")


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """One tool, and whether somebody could run it now."""

    spec: ToolSpec
    queue: str
    owner: str
    available: bool
    reason: str
    runners: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """By spec hash, the workers that can run this version of the tool now. More than one version
    lives side by side while workers are replaced."""
    missed: frozenset[str] = frozenset()
    """Workers that had the tool and went less than `RESTART_S` ago: they may come back."""
    older: Mapping[str, "RegisteredTool"] = field(default_factory=dict[str, "RegisteredTool"])
    """By spec hash, the versions before this one that a live worker still announces."""

    def in_version(self, spec_hash: str) -> "RegisteredTool | None":
        """Return the tool in this version, or None when no worker announces it any more."""
        return self if spec_hash == self.spec.spec_hash else self.older.get(spec_hash)


@dataclass(frozen=True, slots=True)
class ToolSet:
    """What one worker can run, as its claims are checked against."""

    versions: Mapping[str, str]
    """Tool name to spec hash."""
    digest: str

    @classmethod
    def of(cls, specs: Iterable[ToolSpec]) -> Self:
        """Return the set of these tools."""
        versions = {spec.name: spec.spec_hash for spec in specs}
        return cls(versions, sha256_hex(canonical_json(versions)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one worker last said of one owner."""

    specs: str
    """SHA-256 of the blob that holds the specs; workers with the same tools share it."""
    available: bool
    reason: str
    since_us: int
    """When it first announced these specs; the newest wins."""

    def says_the_same(self, other: "Entry | None") -> bool:
        """Whether a reader learns nothing new."""
        return other is not None and (self.specs, self.available, self.reason) == (
            other.specs,
            other.available,
            other.reason,
        )


_ENTRY = TypeAdapter(Entry)
_TEXTS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An entry that was read, with its tools by name."""

    worker: str
    entry: Entry
    is_live: bool
    was_live: bool
    """Not long ago; see `RESTART_S`."""
    specs: Mapping[str, ToolSpec]


class Registry:
    """Announcements in Redis."""

    def __init__(self, redis: Redis, *, prefix: str, deadline_s: float) -> None:
        self._redis = redis
        self._keys = Keys(prefix)
        self._deadline_s = deadline_s

    async def announce(
        self,
        queue: str,
        owner: str,
        specs: Sequence[ToolSpec],
        *,
        worker: str,
        available: bool,
        reason: str = "",
    ) -> None:
        """The worker has these tools of the owner, and can execute them for `LIVE_S` more.

        Only a change moves the version, so that readers reread only then.
        """
        texts = {spec.name: canonical_json(spec.model_dump(mode="json")).decode() for spec in specs}
        data = canonical_json(texts)
        await retrying(
            lambda: self._write(
                queue, owner, worker, data=data, available=available, reason=reason
            ),
            deadline_s=self._deadline_s,
        )

    async def _write(
        self, queue: str, owner: str, worker: str, *, data: bytes, available: bool, reason: str
    ) -> None:
        key, live = self._keys.registry(queue, owner), self._keys.live(queue, owner)
        sha256 = sha256_hex(data)
        blob = self._keys.blob(sha256)
        now_us = await self._now_us()
        now_ms = now_us // 1000
        look = self._redis.pipeline(transaction=False)
        look.hget(key, worker)
        look.exists(blob)
        look.zrangebyscore(live, "-inf", now_ms - int(GONE_S * 1000))
        text, is_stored, silent = cast("tuple[str | None, int, list[str]]", await look.execute())
        held = None if text is None else _entry(text)
        since_us = held.since_us if held is not None and held.specs == sha256 else now_us
        entry = Entry(specs=sha256, available=available, reason=reason, since_us=since_us)
        gone = [name for name in silent if name != worker]
        pipe = self._redis.pipeline(transaction=True)
        if not is_stored or not entry.says_the_same(held):
            pipe.set(blob, data)
            pipe.hset(key, worker, _ENTRY.dump_json(entry).decode())
            pipe.incr(self._keys.registry_version)
        if gone:
            pipe.hdel(key, *gone)
            pipe.zrem(live, *gone)
            pipe.incr(self._keys.registry_version)
        pipe.pexpire(blob, OWNER_TTL_MS)
        pipe.pexpire(key, OWNER_TTL_MS)
        pipe.zadd(self._keys.registry_owners(queue), {owner: now_ms + OWNER_TTL_MS})
        pipe.pexpire(self._keys.registry_owners(queue), OWNER_TTL_MS)
        pipe.zadd(live, {worker: now_ms + int(LIVE_S * 1000)})
        pipe.pexpire(live, OWNER_TTL_MS)
        await pipe.execute()

    async def keep_tools(self, tools: ToolSet) -> None:
        """Claims may be checked against this set of tools, for a week from now."""
        flat = [part for version in tools.versions.items() for part in version]

        async def write() -> None:
            pipe = self._redis.pipeline(transaction=True)
            pipe.hset(self._keys.tools(tools.digest), items=flat)
            pipe.pexpire(self._keys.tools(tools.digest), OWNER_TTL_MS)
            await pipe.execute()

        if tools.versions:
            await retrying(write, deadline_s=self._deadline_s)

    async def withdraw(self, queue: str, owner: str, *, worker: str) -> None:
        """The worker no longer executes the owner's tools; the tools stay listed for a time."""

        async def write() -> None:
            now_ms = await self._now_ms()
            pipe = self._redis.pipeline(transaction=True)
            # Kept with the time of its going, by which its entry is dropped in the end.
            pipe.zadd(self._keys.live(queue, owner), {worker: now_ms}, xx=True)
            pipe.incr(self._keys.registry_version)
            await pipe.execute()

        await retrying(write, deadline_s=self._deadline_s)

    async def forget(self, queue: str, owner: str) -> None:
        """The owner is gone for good: its tools are no longer listed."""

        async def write() -> None:
            pipe = self._redis.pipeline(transaction=True)
            pipe.delete(self._keys.registry(queue, owner), self._keys.live(queue, owner))
            pipe.zrem(self._keys.registry_owners(queue), owner)
            pipe.incr(self._keys.registry_version)
            await pipe.execute()

        await retrying(write, deadline_s=self._deadline_s)

    async def version(self) -> int:
        """Return the counter that moves with every change."""
        reply = await retrying(
            lambda: command(self._redis, "GET", self._keys.registry_version),
            deadline_s=self._deadline_s,
        )
        return int(cast("str", reply or "0"))

    async def live_workers(self, queue: str, owner: str) -> list[str]:
        """Return the workers that can execute an owner's tools now."""
        now_ms = await self._now_ms()
        reply = await retrying(
            lambda: command(
                self._redis, "ZRANGEBYSCORE", self._keys.live(queue, owner), f"({now_ms}", "+inf"
            ),
            deadline_s=self._deadline_s,
        )
        return cast("list[str]", reply)

    async def tools(self) -> list[RegisteredTool]:
        """Return every listed tool; a name that two owners claim stays with the first."""
        found: dict[str, RegisteredTool] = {}
        for queue in QUEUES:
            for owner, offers in (await self.offers(queue)).items():
                for tool in _merged(queue, owner, offers):
                    found.setdefault(tool.spec.name, tool)
        return [found[name] for name in sorted(found)]

    async def offers(self, queue: str) -> dict[str, list[Offer]]:
        """Return what each worker said last of each owner of a queue, by owner; see `Offer`."""
        now_ms = await self._now_ms()
        key = self._keys.registry_owners(queue)
        owners = await retrying(
            lambda: command(self._redis, "ZRANGEBYSCORE", key, now_ms, "+inf"),
            deadline_s=self._deadline_s,
        )
        names = sorted(cast("list[str]", owners))
        return {owner: await self._offers(queue, owner, now_ms) for owner in names}

    async def _offers(self, queue: str, owner: str, now_ms: int) -> list[Offer]:
        async def read() -> tuple[dict[str, str], list[tuple[str, float]]]:
            pipe = self._redis.pipeline(transaction=True)
            pipe.hgetall(self._keys.registry(queue, owner))
            since_ms = now_ms - int(RESTART_S * 1000)
            live = self._keys.live(queue, owner)
            pipe.zrangebyscore(live, f"({since_ms}", "+inf", withscores=True)
            fields, until = await pipe.execute()
            return cast("tuple[dict[str, str], list[tuple[str, float]]]", (fields, until))

        fields, live = await retrying(read, deadline_s=self._deadline_s)
        until = dict(live)
        entries = {worker: entry for worker, text in fields.items() if (entry := _entry(text))}
        wanted = {entry.specs for entry in entries.values()}
        specs = {sha256: await self._specs(sha256) for sha256 in wanted}
        return [
            Offer(
                worker=worker,
                entry=entry,
                is_live=until.get(worker, 0) > now_ms,
                was_live=worker in until,
                specs=specs[entry.specs],
            )
            for worker, entry in entries.items()
        ]

    async def _specs(self, sha256: str) -> Mapping[str, ToolSpec]:
        text = await retrying(
            lambda: command(self._redis, "GET", self._keys.blob(sha256)),
            deadline_s=self._deadline_s,
        )
        specs: dict[str, ToolSpec] = {}
        for name, spec in _TEXTS.validate_json(cast("str", text or "{}")).items():
            try:
                specs[name] = ToolSpec.model_validate_json(spec)
            except ValidationError as error:
                # A newer worker may announce what this version cannot read.
                log.warning(
                    "registry.unreadable_spec", extra={"tool": name, "errors": error.error_count()}
                )
        return specs

    async def _now_ms(self) -> int:
        return await self._now_us() // 1000

    async def _now_us(self) -> int:
        reply = await retrying(lambda: command(self._redis, "TIME"), deadline_s=self._deadline_s)
        seconds, micros = cast("tuple[int, int]", reply)
        return int(seconds) * 1_000_000 + int(micros)


def _entry(text: str) -> Entry | None:
    """Return an entry as it was written, or None if it was by another version of us."""
    try:
        return _ENTRY.validate_json(text)
    except ValidationError:
        return None


def _merged(queue: str, owner: str, offers: Iterable[Offer]) -> list[RegisteredTool]:
    """Return the tools of one owner: those of all its workers, each in its newest version.

    A worker that lives is believed before one that is gone.
    """
    ordered = sorted(offers, key=lambda offer: (offer.is_live, offer.entry.since_us, offer.worker))
    newest = {name: spec for offer in ordered for name, spec in offer.specs.items()}
    older: dict[str, dict[str, RegisteredTool]] = {}
    for offer in ordered:
        for name, spec in offer.specs.items() if offer.is_live else ():
            versions = older.setdefault(name, {})
            if spec.spec_hash not in {newest[name].spec_hash, *versions}:
                versions[spec.spec_hash] = _tool(spec, queue, owner, ordered)
    return [
        replace(_tool(spec, queue, owner, ordered), older=older.get(name, {}))
        for name, spec in newest.items()
    ]


def _tool(spec: ToolSpec, queue: str, owner: str, ordered: Sequence[Offer]) -> RegisteredTool:
    same = [
        offer
        for offer in ordered
        if spec.name in offer.specs and offer.specs[spec.name].spec_hash == spec.spec_hash
    ]
    # Of a tool whose workers are all gone, what they said last still stands: they may restart.
    heard = [offer for offer in same if offer.is_live] or same
    runners: dict[str, set[str]] = {}
    for offer in ordered:
        if offer.is_live and offer.entry.available and spec.name in offer.specs:
            runners.setdefault(offer.specs[spec.name].spec_hash, set()).add(offer.worker)
    return RegisteredTool(
        spec,
        queue,
        owner,
        available=any(offer.entry.available for offer in heard),
        reason=next((offer.entry.reason for offer in heard if not offer.entry.available), ""),
        runners={spec_hash: frozenset(workers) for spec_hash, workers in runners.items()},
        missed=frozenset(
            offer.worker
            for offer in ordered
            if offer.was_live and not offer.is_live and spec.name in offer.specs
        ),
    )


class RegistryView:
    """A dispatcher's copy of the registry, reread when its version has moved."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._version = -1
        self._checked_at = self._read_at = float("-inf")
        self._tools: dict[str, RegisteredTool] = {}
        self._lock = asyncio.Lock()

    async def tools(self) -> Mapping[str, RegisteredTool]:
        """Return tools by name, at most `FRESH_S` old."""
        if asyncio.get_running_loop().time() - self._checked_at > FRESH_S:
            await self.refresh()
        return self._tools

    async def find(self, name: str) -> RegisteredTool | None:
        """Return one tool; an unknown name is looked up afresh before it is None."""
        tools = await self.tools()
        if name not in tools:
            await self.refresh()
        return self._tools.get(name)

    async def refresh(self) -> None:
        """The copy is as new as the registry."""
        clock = asyncio.get_running_loop().time
        async with self._lock:
            version = await self._registry.version()
            # A worker that died without a word moves no version; its time just runs out.
            if version != self._version or clock() - self._read_at > LIVE_S:
                self._tools = {tool.spec.name: tool for tool in await self._registry.tools()}
                self._version, self._read_at = version, clock()
            self._checked_at = clock()
