"""Make ledger entries for tests without a dispatcher.

Is: the smallest lawful run, call and result. Is not: a double; every value goes into the real
ledger. Above: tests of ledger and worker. Below: `toolrail.ledger`, `toolrail.results`.
"""

import itertools
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import orjson
from pydantic import JsonValue
from redis.asyncio import Redis

from toolrail.blobs import Blobs
from toolrail.doorbell import RedisDoorbell
from toolrail.keys import Keys
from toolrail.ledger import (
    Approval,
    EditedArguments,
    Ending,
    EventLine,
    JournalReader,
    Ledger,
    LedgerReader,
    NewCall,
    StoredCall,
)
from toolrail.policy.remembered import memory_field
from toolrail.redis_io import connect
from toolrail.results import ending_of, store_result
from toolrail.settings import Settings
from toolrail_schemas import (
    Doorbell,
    EventType,
    JournalEvent,
    TextBlock,
    ToolResult,
    args_ref,
    call_key,
    format_run_id,
    sha256_hex,
)

SPEC_HASH = "0" * 64
POLICY_HASH = "1" * 64
NOW_MS = itertools.count(1_790_000_000_000)


@dataclass
class LedgerBench:
    """One run in a real ledger, with everything needed to act on it."""

    settings: Settings
    redis: Redis
    ledger: Ledger
    reader: LedgerReader
    journal: JournalReader
    blobs: Blobs
    keys: Keys
    doorbell: RedisDoorbell = field(default_factory=RedisDoorbell)
    run_id: str = ""

    async def open_run(self, **fields: str | int) -> str:
        """Open a fresh run and make it the bench's."""
        self.run_id = format_run_id(next(NOW_MS), os.urandom(10))
        await self.ledger.open_run(
            self.run_id,
            digest="d",
            fields={"retention_ms": 60_000, "max_denied": 2, "max_unknown": 2, **fields},
            created={"tenant": "t"},
            snapshot={"policy_hash": POLICY_HASH},
        )
        return self.run_id

    def key(self, call_id: str, turn: int = 0) -> str:
        """Return the key of a call of the bench's run."""
        return call_key(self.run_id, turn, call_id)

    def envelope(self, key: str, attempt: int = 1, queue: str = "builtin") -> str:
        """Return the broker message of an attempt."""
        secret = self.settings.require_secret()
        ring = Doorbell.ring(secret, run_id=self.run_id, call_key=key, attempt=attempt)
        return self.doorbell.inline(queue, ring)

    def new_call(
        self,
        call_id: str,
        *,
        turn: int = 0,
        tool: str = "demo.echo",
        arguments: dict[str, object] | None = None,
        retry_safe: bool = True,
        **changes: object,
    ) -> NewCall:
        """Return a queued call; `changes` replaces attributes of the entry."""
        key = self.key(call_id, turn)
        raw = orjson.dumps(arguments or {"text": "hello"})
        digest = sha256_hex(raw)
        fields: dict[str, str | int] = {
            "call_id": call_id,
            "tool": tool,
            "turn": turn,
            "queue": "builtin",
            "source": "builtin",
            "client": "client1",
            "caller": "assistant",
            "tenant": "t",
            "profile": "p",
            "spec_hash": SPEC_HASH,
            "policy_hash": POLICY_HASH,
            "args": raw.decode(),
            "args_sha256": digest,
            "args_bytes": len(raw),
            "timeout_ms": 1000,
            "max_output_bytes": 1_000_000,
            "max_output_tokens": 1000,
            "retry_safe": int(retry_safe),
            "max_attempts": 2,
        }
        call = NewCall(
            run_id=self.run_id,
            call_key=key,
            digest=digest,
            state="queued",
            fields=fields,
            events=(_requested(key, raw),),
            deadline_ms=60_000,
            envelope=self.envelope(key),
        )
        return replace(call, **changes)  # type: ignore[arg-type]  # tests name real attributes

    async def parked_call(self, call_id: str, *, expires_in_ms: int = 60_000) -> NewCall:
        """Return a call that waits for a person."""
        call = self.new_call(call_id)
        expires = await self.reader.now_ms() + expires_in_ms
        awaiting = EventLine(
            EventType.TOOL_CALL_AWAITING_APPROVAL,
            {
                "approval_id": f"{self.run_id}.{call.call_key}",
                "args_summary": "text: hello",
                "args_ref": args_ref(call.call_key),
                "side_effect": "external",
                "destructive": True,
                "source": "builtin",
                "rollback": "none",
                "policy_reason": "a test asks",
                "expires_at": expires,
            },
        )
        return replace(
            call,
            state="awaiting_approval",
            events=(*call.events, awaiting),
            approval_expires_ms=expires,
        )

    async def ask_again(self, call_id: str, *, expires_in_ms: int = 60_000) -> bool:
        """Ask a person about a queued call, as a worker does that may not repeat it."""
        parked = await self.parked_call(call_id, expires_in_ms=expires_in_ms)
        return await self.ledger.ask_again(
            self.run_id,
            parked.call_key,
            parked.events[-1],
            record="",
            expires_ms=parked.approval_expires_ms,
            actor="worker:w",
        )

    def approval(
        self,
        key: str,
        *,
        args_sha256: str,
        spec_hash: str = SPEC_HASH,
        by: str = "ann",
        edited: bytes | None = None,
        for_run: bool = False,
    ) -> Approval:
        """Return a person's yes to a parked call, perhaps with other arguments."""
        changed = None
        if edited is not None:
            changed = EditedArguments(
                sha256=sha256_hex(edited),
                inline=edited.decode(),
                blob="",
                size_bytes=len(edited),
                summary="a summary",
            )
        payload: dict[str, JsonValue] = {
            "approval_id": f"{self.run_id}.{key}",
            "decided_by": by,
            "decided_at": 1,
            "scope": "once",
        }
        return Approval(
            by=by,
            payload=payload,
            cap_run=None,
            envelope=self.envelope(key),
            args_sha256=args_sha256,
            spec_hash=spec_hash,
            memory_field=memory_field("demo.echo", spec_hash) if for_run else "",
            memory="a decision" if for_run else "",
            edited=changed,
        )

    async def ending(self, call_id: str, *, text: str = "hello", code: str = "") -> Ending:
        """Return the ending of a call with a result that says `text`, or fails with `code`."""
        name = "demo.echo"
        if code:
            result = ToolResult.failure(call_id, name, code=code)
        else:
            result = ToolResult(call_id=call_id, name=name, content=(TextBlock(text=text),))
        stored = await store_result(result, self.blobs, inline_bytes=65_536)
        return ending_of(self.key(call_id), result, stored)

    async def call(self, call_id: str) -> StoredCall:
        """Return a call's record."""
        call = await self.reader.call(self.run_id, self.key(call_id))
        assert call is not None
        return call

    async def events(self) -> list[JournalEvent]:
        """Return the run's journal, every event lawful and known."""
        events = await self.journal.read(self.run_id)
        known = [event for event in events if isinstance(event, JournalEvent)]
        assert len(known) == len(events)
        return known

    async def kinds(self) -> list[str]:
        """Return the kinds of the run's events, in order."""
        return [event.type.value for event in await self.events()]


def _requested(key: str, raw: bytes) -> EventLine:
    return EventLine(
        EventType.TOOL_CALL_REQUESTED,
        {
            "caller": "assistant",
            "source": "builtin",
            "spec_hash": SPEC_HASH,
            "args_ref": args_ref(key),
            "args_bytes": len(raw),
            "args_sha256": sha256_hex(raw),
        },
    )


@asynccontextmanager
async def ledger_bench(settings: Settings) -> AsyncGenerator[LedgerBench]:
    """Give a bench on the test's database with one open run."""
    prefix, deadline_s = settings.key_prefix, 5.0
    redis = connect(settings.redis_url, timeout_s=5, name="bench")
    blocking = connect(settings.redis_url, timeout_s=5, name="bench", blocking=True)
    bench = LedgerBench(
        settings=settings,
        redis=redis,
        ledger=Ledger(redis, prefix=prefix, deadline_s=deadline_s),
        reader=LedgerReader(redis, prefix=prefix, deadline_s=deadline_s),
        journal=JournalReader(redis, blocking, prefix=prefix, deadline_s=deadline_s),
        blobs=Blobs(redis, prefix=prefix, ttl_s=60, deadline_s=deadline_s),
        keys=Keys(prefix),
    )
    await bench.open_run()
    try:
        yield bench
    finally:
        await redis.aclose()
        await blocking.aclose()
