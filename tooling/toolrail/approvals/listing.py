"""Read questions: those that wait, one by its id, and each as it comes and goes.

Is: call records to `ApprovalRecord`, in the state the clock of Redis gives them. Is not: deciding
(`deciding.py`). Above: `approvals.py`. Below: the ledger's reader and journal.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pydantic import JsonValue

from toolrail.approvals.deciding import Question
from toolrail.blobs import Blobs
from toolrail.errors import ApprovalNotFound, Closed
from toolrail.ledger import JournalReader, Ledger, LedgerReader, StoredCall
from toolrail.lookup import RunLookup
from toolrail.redis_io import Away, outlasting
from toolrail.request import approval_id_of
from toolrail_schemas import ApprovalRecord, ApprovalScope, ApprovalState, EventType

PAGE_MAX = 1000
LATELY_EVENTS = 5000
"""Of the cell's events, how many are looked through for a question that was asked lately."""
ASKING = frozenset({EventType.TOOL_CALL_AWAITING_APPROVAL})
CHANGING = frozenset(
    {
        EventType.TOOL_CALL_AWAITING_APPROVAL,
        EventType.TOOL_CALL_APPROVED,
        EventType.TOOL_CALL_DENIED,
        EventType.TOOL_CALL_FAILED,
    }
)
"""Events with which a question begins or ends; a call that is cancelled while it waits fails."""


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Some of the questions that wait, the first to expire first."""

    now_ms: int
    """By the clock of Redis, which also says when they expire."""
    total: int
    """How many wait in all."""
    records: tuple[ApprovalRecord, ...]


def split_id(approval_id: str) -> tuple[str, str]:
    """Return run id and call key of an approval id.

    Raises:
        ApprovalNotFound: It is no id of an approval.
    """
    run_id, _, call_key = approval_id.strip().partition(".")
    if not run_id.startswith("run_") or not call_key or not approval_id.isascii():
        raise ApprovalNotFound(
            f"{approval_id[:80]!r} is no id of an approval. An id is run_…, a dot and a call key; "
            "`toolrail approvals list` shows those that wait."
        )
    return run_id, call_key


def standing(fields: Mapping[str, str], *, now_ms: int) -> ApprovalRecord:
    """Return a question in its state, from the record of its call.

    Raises:
        ApprovalNotFound: Nobody was asked about this call.
    """
    if "approval" not in fields:
        raise ApprovalNotFound(
            "Nobody was asked about this call. `toolrail approvals list` shows those that wait."
        )
    record = ApprovalRecord.model_validate_json(fields["approval"])
    state = ApprovalState(fields.get("approval_state") or "pending")
    if state is ApprovalState.PENDING and record.expires_at <= now_ms:
        state = ApprovalState.EXPIRED
    known: dict[str, JsonValue | ApprovalScope | ApprovalState] = {"state": state}
    if state in {ApprovalState.APPROVED, ApprovalState.DENIED}:
        known["decided_by"] = fields.get("decided_by") or "unknown"
        known["decided_at"] = int(fields.get("decided_ms") or now_ms)
    if state is ApprovalState.APPROVED:
        known["scope"] = ApprovalScope(fields.get("decided_scope") or "once")
        known["edited_args_sha256"] = fields["args_sha256"] if fields.get("edited") else None
    if state is ApprovalState.DENIED:
        known["comment"] = fields.get("comment") or None
    return record.model_copy(update=known)


class Questions:
    """The questions of one cell, to be read."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        reader: LedgerReader,
        journal: JournalReader,
        blobs: Blobs,
        runs: RunLookup,
    ) -> None:
        self._ledger = ledger
        self._reader = reader
        self._journal = journal
        self._blobs = blobs
        self._runs = runs

    async def pending(self, *, run_id: str, offset: int, limit: int) -> ApprovalPage:
        """Return one page of those that wait, the first to expire first."""
        size = max(0, min(limit, PAGE_MAX))
        page = await self._ledger.parked(run_id, offset=max(offset, 0), limit=size)
        records = map(ApprovalRecord.model_validate_json, page.records)
        return ApprovalPage(page.now_ms, page.total, tuple(records))

    async def record(self, approval_id: str) -> ApprovalRecord:
        """Return one question in its state.

        Raises:
            ApprovalNotFound: There is none, or it is past its run's retention.
        """
        call = await self._call(approval_id)
        return standing(call.fields, now_ms=await self._reader.now_ms())

    async def question(self, approval_id: str) -> Question:
        """Return one question with its run, to be decided.

        Raises:
            ApprovalNotFound, RunNotFound, PolicySnapshotCorrupt: As named.
        """
        call = await self._call(approval_id)
        record = standing(call.fields, now_ms=await self._reader.now_ms())
        return Question(await self._runs.context(call.run_id), call.fields, record)

    async def arguments(self, fields: Mapping[str, str]) -> bytes:
        """Return the arguments of a call as JSON.

        Raises:
            BlobMissing: They outlived their blob.
        """
        inline = fields.get("args", "")
        return inline.encode() if inline else await self._blobs.get(fields["args_blob"])

    async def ids(self) -> list[str]:
        """Return the ids of all questions that wait, the first to expire first."""
        return [approval_id_of(run_id, key) for run_id, key in await self._reader.parked()]

    async def lately(self) -> list[str]:
        """Return the ids of questions asked within the newest events of the cell, newest first."""
        asked = await self._journal.lately(kinds=ASKING, limit=LATELY_EVENTS)
        return [approval_id_of(run_id, key) for run_id, key in asked]

    async def watch(self, away: Away | None) -> AsyncGenerator[ApprovalRecord]:
        """Yield what waits now, then each question as it is asked and as it ends.

        Ends with its client.
        """
        last = await self._journal.last_change()
        # By name, since places in the list move as questions end; those are told of afterwards.
        waiting = await self._reader.parked()
        for start in range(0, len(waiting), PAGE_MAX):
            for record in await self._still_pending(waiting[start : start + PAGE_MAX]):
                yield record
        try:
            async for run_id, key in self._journal.changes(after=last, kinds=CHANGING, away=away):
                changed = await outlasting(
                    partial(self._standing, run_id, key),
                    deadline_s=0.0,  # each read in it has its own
                    away=away,
                )
                if changed is not None:
                    yield changed
        except Closed:
            return

    async def _still_pending(self, calls: Sequence[tuple[str, str]]) -> list[ApprovalRecord]:
        rows = await self._reader.call_fields(calls, ("approval", "approval_state"))
        return [
            ApprovalRecord.model_validate_json(row["approval"])
            for row in rows
            if "approval" in row and row.get("approval_state") == ApprovalState.PENDING
        ]

    async def _standing(self, run_id: str, key: str) -> ApprovalRecord | None:
        call = await self._reader.call(run_id, key)
        if call is None or "approval" not in call.fields:
            return None
        return standing(call.fields, now_ms=await self._reader.now_ms())

    async def _call(self, approval_id: str) -> StoredCall:
        run_id, key = split_id(approval_id)
        call = await self._reader.call(run_id, key)
        if call is None:
            raise ApprovalNotFound(
                f"There is no approval {approval_id[:80]!r}. It is forgotten with its run; "
                "`toolrail approvals list` shows those that wait."
            )
        return call
