"""Know which tools exist and who can execute them now.

Is: what workers announce and dispatchers read (DESIGN 3). Is not: permission to see or call
anything. Above: dispatcher, workers, CLI. Below: `redis_io`, `keys`.

An owner is who gives the tools: `builtin` itself, an MCP server, an extension. Its specs stay
listed for a week after the last announcement, so that calls may wait for workers that restart;
`available` says whether a call could run at this moment.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import orjson
from pydantic import ValidationError
from redis.asyncio import Redis

from toolrail.keys import Keys
from toolrail.redis_io import command, retrying
from toolrail_schemas import ToolSpec, canonical_json, sha256_hex

log = logging.getLogger(__name__)

STATE = "@state"
OWNER_TTL_MS = 7 * 86_400_000
LIVE_S = 30.0
"""A worker that has not announced for so long counts as gone."""
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
        """The owner's tools are these, and the worker can execute them for `LIVE_S` more.

        Only a change moves the version, so that readers reread only then.
        """
        texts = {spec.name: canonical_json(spec.model_dump(mode="json")).decode() for spec in specs}
        state = {
            "available": available,
            "reason": reason,
            "digest": sha256_hex(canonical_json([texts, available, reason])),
        }
        await retrying(
            lambda: self._write(queue, owner, texts, state, worker), deadline_s=self._deadline_s
        )

    async def _write(
        self,
        queue: str,
        owner: str,
        texts: Mapping[str, str],
        state: Mapping[str, object],
        worker: str,
    ) -> None:
        key, live = self._keys.registry(queue, owner), self._keys.live(queue, owner)
        held = cast("str | None", await command(self._redis, "HGET", key, STATE))
        changed = held is None or orjson.loads(held)["digest"] != state["digest"]
        now_ms = await self._now_ms()
        pipe = self._redis.pipeline(transaction=True)
        if changed:
            pipe.delete(key)
            fields: dict[bytes | bytearray | memoryview[int] | str | int | float, str] = {}
            fields.update(texts)
            fields[STATE] = orjson.dumps(state).decode()
            pipe.hset(key, mapping=fields)
            pipe.incr(self._keys.registry_version)
        pipe.pexpire(key, OWNER_TTL_MS)
        pipe.zadd(self._keys.registry_owners(queue), {owner: now_ms + OWNER_TTL_MS})
        pipe.pexpire(self._keys.registry_owners(queue), OWNER_TTL_MS)
        pipe.zadd(live, {worker: now_ms + int(LIVE_S * 1000)})
        pipe.pexpire(live, OWNER_TTL_MS)
        await pipe.execute()

    async def withdraw(self, queue: str, owner: str, *, worker: str) -> None:
        """The worker no longer executes the owner's tools; the tools stay listed."""

        async def write() -> None:
            pipe = self._redis.pipeline(transaction=True)
            pipe.zrem(self._keys.live(queue, owner), worker)
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
                self._redis, "ZRANGEBYSCORE", self._keys.live(queue, owner), now_ms, "+inf"
            ),
            deadline_s=self._deadline_s,
        )
        return cast("list[str]", reply)

    async def tools(self) -> list[RegisteredTool]:
        """Return every listed tool; a name that two owners claim stays with the first."""
        found: dict[str, RegisteredTool] = {}
        for queue in QUEUES:
            now_ms = await self._now_ms()
            owners = await retrying(
                lambda queue=queue, now_ms=now_ms: command(  # type: ignore[misc]
                    self._redis,
                    "ZRANGEBYSCORE",
                    self._keys.registry_owners(queue),
                    now_ms,
                    "+inf",
                ),
                deadline_s=self._deadline_s,
            )
            for owner in sorted(cast("list[str]", owners)):
                for tool in await self._of_owner(queue, owner):
                    found.setdefault(tool.spec.name, tool)
        return [found[name] for name in sorted(found)]

    async def _of_owner(self, queue: str, owner: str) -> Iterable[RegisteredTool]:
        reply = await retrying(
            lambda: command(self._redis, "HGETALL", self._keys.registry(queue, owner)),
            deadline_s=self._deadline_s,
        )
        fields = dict(cast("dict[str, str]", reply))
        state = orjson.loads(fields.pop(STATE, "{}"))
        tools: list[RegisteredTool] = []
        for name, text in fields.items():
            try:
                spec = ToolSpec.model_validate_json(text)
            except ValidationError as error:
                # A newer worker may announce what this version cannot read.
                log.warning(
                    "registry.unreadable_spec", extra={"tool": name, "errors": error.error_count()}
                )
                continue
            available, reason = bool(state.get("available")), str(state.get("reason", ""))
            tools.append(RegisteredTool(spec, queue, owner, available, reason))
        return tools

    async def _now_ms(self) -> int:
        reply = await retrying(lambda: command(self._redis, "TIME"), deadline_s=self._deadline_s)
        seconds, micros = cast("tuple[int, int]", reply)
        return int(seconds) * 1000 + int(micros) // 1000


class RegistryView:
    """A dispatcher's copy of the registry, reread when its version has moved."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._version = -1
        self._checked_at = float("-inf")
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
        async with self._lock:
            version = await self._registry.version()
            if version != self._version:
                self._tools = {tool.spec.name: tool for tool in await self._registry.tools()}
                self._version = version
            self._checked_at = asyncio.get_running_loop().time()
