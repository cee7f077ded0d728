"""Connect an agent service to a Toolrail cell.

Is: `Toolrail`, which opens runs and finds them again; it owns the connections. Is not: what
happens inside a run (`run.py`). Above: agent services, `sync.py`, the CLI. Below: everything a
run needs, put together here once.

    async with Toolrail(Settings.from_env()) as rail:
        run = await rail.open_run(profile="assistant")
        result = await run.call("workspace.read_file", {"path": "input/a.txt"}, id="c1")
        await run.complete()
"""

import asyncio
import os
import time
import uuid
from types import TracebackType
from typing import Self

from prometheus_client import CollectorRegistry
from pydantic import JsonValue
from redis.asyncio import Redis

from toolrail.admission import Admission
from toolrail.approvals import Approvals, Questions
from toolrail.blobs import Blobs
from toolrail.dispatcher import Dispatcher
from toolrail.doorbell import DoorbellPort, KombuDoorbell, RedisDoorbell
from toolrail.drafting import Drafter
from toolrail.entry import EntryWriter
from toolrail.errors import Closed, RunConflict
from toolrail.inbox import Inbox
from toolrail.keys import Keys
from toolrail.ledger import JournalReader, Ledger, LedgerReader
from toolrail.lookup import RunLookup
from toolrail.metrics.process import ClientMetrics
from toolrail.policy.load import load_plan, load_policy
from toolrail.policy.snapshot import PolicySnapshot
from toolrail.redaction import know
from toolrail.redis_io import check_version, command, connect, retrying
from toolrail.registry import Registry, RegistryView
from toolrail.request import Limits, RunContext, run_spec
from toolrail.run import Parts, Run
from toolrail.settings import Settings
from toolrail_schemas import (
    ApprovalMode,
    Caller,
    JsonObject,
    RunLimits,
    RunSpec,
    format_run_id,
    sha256_hex,
)


class Toolrail:
    """One client process. Open it with `async with`; use it from one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secret = settings.require_secret()
        know(settings.secrets())
        self._keys = Keys(settings.key_prefix)
        self._policies = load_policy(settings.policy_dir)
        self._client = uuid.uuid4().hex
        self._metrics = ClientMetrics(build=settings.build)
        self._parts: Parts | None = None
        self._doorbell: DoorbellPort | None = None
        self._connections: list[Redis] = []

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            RedisUnavailable, RedisTooOld: The cell cannot be used as it is.
        """
        settings = self._settings
        name = f"toolrail-client-{self._client[:8]}"
        redis = connect(
            settings.redis_url,
            timeout_s=settings.redis_timeout_s,
            name=name,
            meter=self._metrics.redis,
        )
        blocking = connect(
            settings.redis_url, timeout_s=settings.redis_timeout_s, name=name, blocking=True
        )
        self._connections = [redis, blocking]
        try:
            await check_version(redis, deadline_s=settings.redis_timeout_s)
        except BaseException:
            await self.close()
            raise
        self._parts = self._assemble(redis, blocking)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Disconnect; accepted calls go on."""
        await self.close()

    async def close(self) -> None:
        """Disconnect; accepted calls go on."""
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.open.clear()
            await parts.inbox.close()
        if self._doorbell is not None:
            await self._doorbell.close()
        for connection in self._connections:
            await connection.aclose()
        self._connections = []

    @property
    def metrics(self) -> CollectorRegistry:
        """What this client counts of itself, to be shown in the /metrics of its service.

        `generate_latest(rail.metrics)` writes it; `REGISTRY.register(rail.metrics)` adds it to
        what the service shows already, for one client of the process.
        """
        return self._metrics.registry

    @property
    def approvals(self) -> Approvals:
        """The calls of all runs that wait for a person."""
        return self._open_parts().approvals

    async def refresh_tools(self) -> None:
        """The client sees every tool that is announced by now, not only those of a second ago."""
        await self._open_parts().registry.refresh()

    async def open_run(
        self,
        *,
        profile: str,
        tenant: str = "default",
        user: str | None = None,
        surface: str = "core",
        caller: Caller = Caller.ASSISTANT,
        plan: JsonObject | None = None,
        approval_mode: ApprovalMode = ApprovalMode.DENY_ALL,
        limits: RunLimits | None = None,
        name: str | None = None,
        chat: str | None = None,
        chat_messages: int | None = None,
    ) -> Run:
        """Return a new run under the policy as it is now, or the tenant's open run of that name.

        Args:
            profile: Name of a profile in the policy folder.
            tenant: See `RunSpec` for this and the others.
            user: Whose settings apply, a file in `users/`.
            surface: Product surface of the catalog.
            caller: Caller of the run's calls unless a call says otherwise.
            plan: The plan node's policy, in the shape of a policy file.
            approval_mode: What happens to a call that needs a person.
            limits: How many denials and unknown tools the run survives.
            name: The tenant's own; opening it twice gives the same run.
            chat: Id of the chat that the run may read.
            chat_messages: How many of its messages exist for the run; None: all there are by then.

        Raises:
            UnknownProfile: The policy folder has no such profile.
            ConfigError: The plan, or another value, is not well formed.
            RunConflict, RedisUnavailable, JournalAppendFailed: As named.
        """
        policy = self._policy(profile, user, plan)
        spec = run_spec(
            tenant=tenant,
            profile=profile,
            surface=surface,
            caller=caller,
            plan=plan,
            approval_mode=approval_mode,
            limits=limits or RunLimits(),
            user=user,
            name=name,
            chat=chat,
            chat_messages=chat_messages,
        )
        return await self._begin(spec, policy)

    async def open_again(self, run_id: str, *, name: str) -> Run:
        """Return a new run like that one, or the tenant's open run of that name.

        It has the same tenant, profile, user, plan and limits. It is bound by the policy as it is
        now and by the one that run was frozen under: of two answers the stricter counts.

        Args:
            run_id: Of a run that may have ended.
            name: Of the new run; opening it twice gives the same run.

        Raises:
            RunNotFound: No such run, or it is past its retention.
            PolicySnapshotCorrupt: The policy of that run is gone.
            UnknownProfile, RunConflict, RedisUnavailable, JournalAppendFailed: As named.
        """
        old = await self._open_parts().lookup.context(run_id)
        spec = old.spec
        today = self._policy(spec.profile, spec.user, spec.plan)
        policy = today.bound_by(old.policy)
        changes = {"name": name, "chat_messages": None}
        return await self._begin(spec.model_copy(update=changes), policy)

    async def run(self, run_id: str) -> Run:
        """Return a run that was opened before, by any client.

        Raises:
            RunNotFound: No such run, or not a run id at all.
        """
        parts = self._open_parts()
        return Run(await parts.lookup.context(run_id), parts)

    def _policy(self, profile: str, user: str | None, plan: JsonObject | None) -> PolicySnapshot:
        node = None if plan is None else load_plan(plan)
        return self._policies.snapshot(profile=profile, user=user, plan=node)

    async def _begin(self, spec: RunSpec, policy: PolicySnapshot) -> Run:
        spec = spec.model_copy(update={"policy_hash": policy.policy_hash})
        run_id = await self._run_id(spec)
        known = await self._open_parts().reader.run(run_id) if spec.name is not None else None
        if known is not None and known["status"] == "open":
            return await self._same_run(run_id, spec)
        if known is not None:
            run_id = await self._take_name(spec)
        await self._store_policy(policy)
        await self._open(run_id, spec, policy)
        return Run(RunContext(run_id, spec, policy), self._open_parts())

    async def _take_name(self, spec: RunSpec) -> str:
        """Return the id of a new run under a name whose run has ended."""
        fresh = _fresh_run_id()
        await self._ask("SET", self._name_key(spec), fresh, "PX", self._name_ttl_ms)
        return fresh

    def _name_key(self, spec: RunSpec) -> str:
        return self._keys.run_name(
            sha256_hex(spec.tenant.encode())[:16], sha256_hex((spec.name or "").encode())[:32]
        )

    @property
    def _name_ttl_ms(self) -> int:
        return int(self._settings.retention_s * 1000)

    async def _same_run(self, run_id: str, spec: RunSpec) -> Run:
        """Return the named run; it keeps the policy, and as much of a chat, as it began with."""
        run = await self.run(run_id)
        frozen = {"policy_hash": spec.policy_hash, "chat_messages": spec.chat_messages}
        if run.spec.model_copy(update=frozen) != spec:
            raise RunConflict
        return run

    async def _open(self, run_id: str, spec: RunSpec, policy: PolicySnapshot) -> None:
        text = spec.model_dump_json()
        same = spec.model_copy(update={"chat_messages": None})
        created: dict[str, JsonValue] = {
            "tenant": spec.tenant,
            "profile": spec.profile,
            "surface": spec.surface,
            "caller": spec.caller.value,
            "approval_mode": spec.approval_mode.value,
        }
        await self._open_parts().ledger.open_run(
            run_id,
            digest=sha256_hex(same.model_dump_json().encode()),
            fields={
                "spec": text,
                "tenant": spec.tenant,
                "profile": spec.profile,
                "policy_hash": policy.policy_hash,
                "client": self._client,
                "retention_ms": int(self._settings.retention_s * 1000),
                "max_denied": spec.limits.max_denied,
                "max_unknown": spec.limits.max_unknown,
            },
            created=created,
            snapshot={"policy_hash": policy.policy_hash},
        )

    async def _run_id(self, spec: RunSpec) -> str:
        fresh = _fresh_run_id()
        if spec.name is None:
            return fresh
        key = self._name_key(spec)
        await self._ask("SET", key, fresh, "NX", "PX", self._name_ttl_ms)
        # Asked apart: redis-py turns the answer of SET with GET into a truth value.
        held = await self._ask("GET", key)
        return str(held) if held else fresh

    async def _store_policy(self, policy: PolicySnapshot) -> None:
        # Twice the retention: a run may last, and is read for as long again after its end.
        ttl_ms = int(self._settings.retention_s * 2000)
        key = self._keys.policy(policy.policy_hash)
        await self._ask("SET", key, policy.dumps(), "PX", ttl_ms)

    async def _ask(self, *args: str | int) -> object:
        self._open_parts()
        redis = self._connections[0]
        return await retrying(
            lambda: command(redis, *args), deadline_s=self._settings.redis_timeout_s
        )

    def _open_parts(self) -> Parts:
        if self._parts is None:
            raise Closed("This client is not open. Use it inside `async with Toolrail(...)`.")
        return self._parts

    def _admission(self, redis: Redis) -> Admission:
        settings = self._settings
        admission = Admission(
            redis,
            memory_ratio=settings.admission_memory_ratio,
            deadline_s=settings.redis_timeout_s,
        )
        self._metrics.watch_admission(lambda: admission.is_open)
        return admission

    def _entries(self, reader: LedgerReader, blobs: Blobs, doorbell: DoorbellPort) -> EntryWriter:
        return EntryWriter(
            reader=reader,
            blobs=blobs,
            doorbell=doorbell,
            secret=self._secret,
            client=self._client,
            limits=Limits.of(self._settings),
        )

    def _assemble(self, redis: Redis, blocking: Redis) -> Parts:
        settings, prefix = self._settings, self._settings.key_prefix
        deadline_s = settings.redis_timeout_s
        ledger = Ledger(redis, prefix=prefix, deadline_s=deadline_s)
        reader = LedgerReader(redis, prefix=prefix, deadline_s=deadline_s)
        registry = RegistryView(Registry(redis, prefix=prefix, deadline_s=deadline_s))
        blobs = Blobs(redis, prefix=prefix, ttl_s=settings.blob_ttl_s, deadline_s=deadline_s)
        doorbell = _doorbell(settings)
        self._doorbell = doorbell
        entries = self._entries(reader, blobs, doorbell)
        drafter = Drafter(registry, call_deadline_ms=int(settings.call_deadline_s * 1000))
        dispatcher = Dispatcher(
            ledger=ledger,
            drafter=drafter,
            entries=entries,
            doorbell=doorbell,
            on_rejected=self._metrics.note_rejected,
        )
        journal = JournalReader(redis, blocking, prefix=prefix, deadline_s=deadline_s)
        lookup = RunLookup(reader)
        approvals = Approvals(
            questions=Questions(
                ledger=ledger, reader=reader, journal=journal, blobs=blobs, runs=lookup
            ),
            ledger=ledger,
            reader=reader,
            registry=registry,
            entries=entries,
            doorbell=doorbell,
            blobs=blobs,
            inline_args_bytes=settings.inline_args_bytes,
            inline_result_bytes=settings.inline_result_bytes,
        )
        return Parts(
            ledger=ledger,
            reader=reader,
            journal=journal,
            lookup=lookup,
            registry=registry,
            blobs=blobs,
            inbox=Inbox(blocking, keys=self._keys, client=self._client),
            dispatcher=dispatcher,
            approvals=approvals,
            admission=self._admission(redis),
            on_rejected=self._metrics.note_rejected,
            open=_opened(),
        )


def _opened() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


def _doorbell(settings: Settings) -> DoorbellPort:
    if settings.broker_url is None or settings.broker_url == settings.redis_url:
        return RedisDoorbell()
    return KombuDoorbell(settings.broker_url, timeout_s=settings.redis_timeout_s)


def _fresh_run_id() -> str:
    return format_run_id(time.time_ns() // 1_000_000, os.urandom(10))
