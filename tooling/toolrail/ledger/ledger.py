"""The truth of every call, changed by one atomic step at a time.

Is: the Python face of the Lua scripts; turns their status words into values and errors. Is not:
policy, results' content, or reading at large (`reader.py`, `journal.py`). Above: dispatcher,
worker, reaper, client. Below: `scripts.py` and the Lua files, which hold the state machine.

Every method is idempotent and retries while Redis is away, up to `deadline_s`.
"""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from redis.asyncio import Redis

from toolrail.errors import (
    CallConflict,
    CallNotFound,
    JournalAppendFailed,
    JournalConflict,
    LedgerError,
    RunClosed,
    RunConflict,
    RunNotFound,
)
from toolrail.ledger.arguments import (
    approve_args,
    as_json,
    dispatch_args,
    finish_args,
    flat,
)
from toolrail.ledger.conflicts import Stands, conflict
from toolrail.ledger.records import (
    CLAIM_FIELDS,
    Approval,
    Claim,
    Closed,
    Dispatched,
    Ending,
    EventLine,
    Held,
    NewCall,
    Parked,
    Refusal,
    Renewal,
    RunEnd,
)
from toolrail.ledger.scripts import Scripts, strings
from toolrail.redis_io import Argument

RENEWALS = {"1": Renewal.KEPT, "0": Renewal.LOST, "2": Renewal.CANCEL}


class Ledger:
    """All writes to runs and calls; for `measured` see `script_text`."""

    def __init__(
        self, redis: Redis, *, prefix: str, deadline_s: float, measured: bool = True
    ) -> None:
        self._scripts = Scripts(redis, prefix=prefix, measured=measured)
        self._deadline_s = deadline_s

    async def open_run(
        self,
        run_id: str,
        *,
        digest: str,
        fields: Mapping[str, str | int],
        created: Mapping[str, JsonValue],
        snapshot: Mapping[str, JsonValue],
    ) -> None:
        """The run is open and its first two events stand in its journal.

        Raises:
            RunConflict: The id is taken by a run with another spec.
            JournalAppendFailed: The journal refused.
        """
        reply = await self._call(
            "open_run", run_id, digest, as_json(created), as_json(snapshot), *flat(fields)
        )
        match reply[0]:
            case "OK" | "DUP":
                return
            case "CONFLICT":
                raise RunConflict
            case _:
                raise _refused(reply, run_id)

    async def dispatch(self, call: NewCall, *, deadline_s: float | None = None) -> Dispatched:
        """The call stands in the ledger with its whole history before the queue.

        Raises:
            RunNotFound: There is no such run.
            RunClosed: The run takes no more calls.
            CallConflict: The key was used for another content.
            JournalAppendFailed: The journal refused; the run is failed.
            AdmissionClosed: Redis is out of memory.
            RedisUnavailable: No answer in time; dispatching again is safe.
        """
        reply = await self._call("dispatch", *dispatch_args(call), deadline_s=deadline_s)
        match reply[0]:
            case "OK":
                return Dispatched("accepted", call.state)
            case "DUP":
                return Dispatched("duplicate", reply[1])
            case "BUDGET":
                return _over_budget(reply[1])
            case "CALLS_PENDING":
                return Dispatched("calls_pending")
            case "AFTER_FINISH":
                return Dispatched("after_finish")
            case "REPEATS_UNKNOWN":
                return Dispatched("repeats_unknown")
            case "REMEMBERED":
                return Dispatched("remembered", memory=reply[1])
            case _:
                raise _refused(reply, call.run_id)

    async def approve(self, run_id: str, call_key: str, approval: Approval) -> Dispatched:
        """The parked call is approved, has its budget and is queued.

        Raises:
            ApprovalConflict: Decided otherwise, or too late.
            RunClosed, CallNotFound, JournalAppendFailed: As named.
        """
        reply = await self._call("approve", run_id, call_key, *approve_args(approval))
        match reply[0]:
            case "OK":
                return Dispatched("accepted", "queued")
            case "DUP":
                return Dispatched("duplicate", "queued", by=reply[1], at_ms=int(reply[2] or 0))
            case "BUDGET":
                return _over_budget(reply[1])
            case "CALLS_PENDING":
                return Dispatched("calls_pending")
            case "SUPERSEDED":
                return Dispatched("superseded")
            case "REPEATS_UNKNOWN":
                return Dispatched("repeats_unknown")
            case "CONFLICT":
                state, who, at_ms, scope, edited = reply[1:]
                raise conflict(
                    Stands(
                        state=state,
                        by=who,
                        at_ms=int(at_ms or 0),
                        scope=scope,
                        is_edited=edited != "",
                    )
                )
            case "EXPIRED":
                raise conflict(Stands(state="expired"))
            case _:
                raise _refused(reply, run_id)

    async def ask_again(
        self,
        run_id: str,
        call_key: str,
        event: EventLine,
        *,
        record: str,
        expires_ms: int,
        actor: str,
    ) -> bool:
        """The queued call waits for a person; False when it may run, or waits no more.

        Args:
            run_id: The run.
            call_key: A call whose claim was refused as `REPEATS_UNKNOWN`.
            event: `tool_call_awaiting_approval`.
            record: The `ApprovalRecord` as JSON.
            expires_ms: By the clock of Redis.
            actor: Who found out.

        Raises:
            JournalAppendFailed: The journal refused; the run is failed.
        """
        payload = event.triple()[2]
        reply = await self._call("ask_again", run_id, call_key, record, expires_ms, payload, actor)
        if reply[0] == "JOURNAL_FAILED":
            raise _refused(reply, run_id)
        return reply[0] == "OK"

    async def parked(self, run_id: str, *, offset: int, limit: int) -> Parked:
        """Return one page of the calls that wait for a person; of all runs for an empty id."""
        now_ms, total, *records = await self._call("parked", run_id, offset, limit)
        return Parked(int(now_ms), int(total), tuple(records))

    async def claim(
        self,
        run_id: str,
        call_key: str,
        *,
        attempt: int,
        nonce: str,
        worker: str,
        lease_ms: int,
        tools: str = "",
    ) -> Claim | Refusal:
        """The attempt belongs to this worker until its lease ends, or the reason why not.

        Args:
            run_id: The run.
            call_key: The call.
            attempt: As the doorbell says.
            nonce: Names this claim.
            worker: Who claims.
            lease_ms: For how long.
            tools: Digest of the tools the worker can run (`Registry.keep_tools`), and no other
                call is given to it; "" for a worker that takes any.
        """
        reply = await self._call("claim", run_id, call_key, attempt, nonce, worker, lease_ms, tools)
        if reply[0] != "OK":
            return Refusal(reply[0])
        fields: dict[str, str] = dict(zip(CLAIM_FIELDS, reply[3:], strict=True))
        return Claim(run_id, call_key, int(reply[1]), int(reply[2]), fields)

    async def renew(
        self, held: Sequence[Held], *, lease_ms: int, deadline_s: float | None = None
    ) -> list[Renewal]:
        """All leases last `lease_ms` from now; per call, in order, whether it is still ours."""
        args: list[Argument] = []
        for call in held:
            args += (call.run_id, call.call_key, call.fence)
        reply = await self._call("renew", "", lease_ms, *args, deadline_s=deadline_s)
        return [RENEWALS[item] for item in reply]

    async def finish(
        self,
        run_id: str,
        call_key: str,
        ending: Ending,
        *,
        fence: int,
        actor: str,
        guard: str = "running",
        approval_state: str = "",
        comment: str = "",
        dead_letter: bool = False,
        deadline_s: float | None = None,
    ) -> Closed:
        """The call has this outcome, unless the guard no longer holds.

        Args:
            run_id: The run.
            call_key: The call.
            ending: Outcome, result and the events that tell it, in order.
            fence: Of the claim; for guards without a worker, of the record.
            actor: `worker:<id>`, `user:<id>` or `runtime:<part>`.
            guard: See `lua/finish.lua`.
            approval_state: denied, expired, superseded or cancelled, which "" means too; of a call
                that is parked.
            comment: Words of the person who denied.
            dead_letter: List it for operators.
            deadline_s: How long to retry while Redis is away.
        """
        args = finish_args(ending, guard, fence, actor, approval_state, dead_letter, comment)
        reply = await self._call("finish", run_id, call_key, *args, deadline_s=deadline_s)
        match reply[0]:
            case "OK":
                return Closed("closed", ending.state)
            case "DUP":
                return Closed("duplicate", ending.state)
            case "LATE":
                return Closed("late", reply[1])
            case "REFUSED":
                return Closed("refused", reply[1])
            case "NO_CALL":
                return Closed("gone")
            case "JOURNAL_FAILED":
                return Closed("journal_failed", "failed")
            case _:
                raise _refused(reply, run_id)

    async def cancel(self, run_id: str, call_key: str) -> str:
        """The call is marked, durably; returns the state it was in.

        Raises:
            CallNotFound: There is no such call.
        """
        reply = await self._call("cancel", run_id, call_key)
        if reply[0] == "NO_CALL":
            raise CallNotFound
        return reply[0]

    async def requeue(
        self, run_id: str, call_key: str, *, fence: int, attempt: int, envelope: str, actor: str
    ) -> bool:
        """The next attempt is queued; False when the lease was not over after all."""
        reply = await self._call("requeue", run_id, call_key, fence, attempt, envelope, actor)
        return reply[0] == "OK"

    async def ring(
        self, run_id: str, call_key: str, *, attempt: int, ring: int, envelope: str
    ) -> bool:
        """A queued call has a new doorbell; False when it no longer needs one."""
        reply = await self._call("ring", run_id, call_key, attempt, ring, envelope)
        return reply[0] == "OK"

    async def end_run(self, run_id: str, *, status: str, code: str, actor: str) -> RunEnd:
        """The run ends as `status` (completed, failed, cancelled), once its calls have ended.

        Raises:
            RunNotFound: There is no such run.
        """
        reply = await self._call("end_run", run_id, status, code, actor)
        match reply[0]:
            case "ENDED":
                return RunEnd("ended", reply[1])
            case "ENDING":
                return RunEnd("ending", open_calls=tuple(reply[1:]))
            case "CALLS_PENDING":
                return RunEnd("calls_pending", open_calls=tuple(reply[1:]))
            case _:
                raise _refused(reply, run_id)

    async def append(
        self, run_id: str, event: EventLine, *, event_id: str, digest: str, actor: str
    ) -> int:
        """The event stands in the journal once; returns its sequence number.

        Raises:
            JournalConflict: The event id stands there with another content.
            RunNotFound, RunClosed, JournalAppendFailed: As named.
        """
        kind, level, payload = event.triple()
        reply = await self._call("append", run_id, event_id, digest, kind, level, actor, payload)
        match reply[0]:
            case "OK" | "DUP":
                return int(reply[1])
            case "CONFLICT":
                raise JournalConflict
            case _:
                raise _refused(reply, run_id)

    async def _call(self, name: str, *args: Argument, deadline_s: float | None = None) -> list[str]:
        limit = self._deadline_s if deadline_s is None else deadline_s
        return strings(await self._scripts.call(name, *args, deadline_s=limit))


def _over_budget(cap: str) -> Dispatched:
    return Dispatched("over_run_budget" if cap == "run" else "over_turn_budget")


def _refused(reply: Sequence[str], run_id: str) -> LedgerError:
    detail = reply[1] if len(reply) > 1 else ""
    match reply[0]:
        case "NO_RUN":
            return RunNotFound(f"There is no run {run_id!r}. Check the id, or open a new run.")
        case "NO_CALL":
            return CallNotFound()
        case "RUN_CLOSED":
            return RunClosed(f"The run is {detail} and takes no more calls. Open a new run.")
        case "CONFLICT" if detail == "open":
            return CallConflict(
                "A call of another turn with this id is still open, and their results could not be "
                "told apart. Use a new id, or wait for its result."
            )
        case "CONFLICT" if detail == "redrive":
            return CallConflict(
                "That redrive of the dead letter is over: it was given up, or the letter was "
                "handled meanwhile. Redrive the letter again; no call was made."
            )
        case "CONFLICT":
            return CallConflict()
        case "JOURNAL_FAILED":
            return JournalAppendFailed(
                f"{JournalAppendFailed.default_message()} Redis said: {detail}"
            )
        case _:
            return LedgerError(f"The ledger answered {reply[0]!r}, which this version cannot read.")
