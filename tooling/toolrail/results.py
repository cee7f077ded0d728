"""Store a call's result where it fits, and load it again.

Is: inline or blob, what the inbox carries, and the ending that tells it to the ledger. Is not:
making the result (executors) or cutting it (`toolrail_workers.output`). Above: dispatcher,
worker, reaper, client. Below: `blobs`, the ledger's records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from toolrail.blobs import Blobs
from toolrail.ledger.records import Ending, EventLine, Outcome, StoredCall
from toolrail.notice import with_notice
from toolrail.redaction import clean
from toolrail_schemas import (
    ErrorClass,
    EventType,
    Level,
    TextBlock,
    ToolResult,
    canonical_json,
    error_info,
    result_ref,
    sha256_hex,
)

INBOX_MAX_BYTES = 4096
"""A larger result is read from its record; the inbox holds thousands of entries."""
EVENT_REFS_MAX = 16
"""Refs named by `tool_call_completed`. Source: semantics 2.3."""
EVENT_REFS_BYTES = 4096
"""Of a payload's 8 KiB, for those refs; ids and names of odd characters may need the rest."""

_OUTCOME_OF_CODE = {
    "tool.timeout": Outcome.TIMEOUT,
    "tool.cancelled": Outcome.CANCELLED,
    "tool.outcome_unknown": Outcome.LOST,
    "tool.worker_lost": Outcome.LOST,
    "tool.dead_lettered": Outcome.LOST,
    "tool.budget_exhausted": Outcome.OVER_BUDGET,
    "tool.turn_budget_exhausted": Outcome.OVER_BUDGET,
    "approval.expired": Outcome.APPROVAL_EXPIRED,
}


@dataclass(frozen=True, slots=True)
class StoredResult:
    """Where a result's JSON is."""

    inline: str
    blob: str
    sha256: str
    size_bytes: int
    inbox: str


async def store_result(result: ToolResult, blobs: Blobs, *, inline_bytes: int) -> StoredResult:
    """The result is durable as a blob, or small enough to travel in the record."""
    data = result.__pydantic_serializer__.to_json(result)
    sha256 = sha256_hex(data)
    if len(data) > inline_bytes:
        return StoredResult("", await blobs.put(data), sha256, len(data), "")
    text = data.decode()
    return StoredResult(text, "", sha256, len(data), text if len(data) <= INBOX_MAX_BYTES else "")


async def load_result(call: StoredCall, blobs: Blobs) -> ToolResult:
    """Return the result of a call that has ended.

    A call whose outcome could not be journaled has no result of its own; its error code makes one.

    Raises:
        BlobMissing: The result outlived its blob.
    """
    text = call.fields.get("result", "")
    blob = call.fields.get("result_blob", "")
    if text:
        return ToolResult.model_validate_json(text)
    if blob:
        return ToolResult.model_validate_json(await blobs.get(blob))
    code = call.fields.get("error_code") or "journal.append_failed"
    result = ToolResult.failure(call.fields["call_id"], call.fields["tool"], code=code)
    return with_notice(result, call.fields.get("edited", ""))


def outcome_of(result: ToolResult, *, is_denied: bool = False) -> Outcome:
    """Return how a result counts; the closed set of the metrics.

    Args:
        result: What the caller gets.
        is_denied: Permission ended the call. For a hidden tool the result itself does not say so.
    """
    if not result.is_error or result.error_code is None:
        return Outcome.OK
    known = _OUTCOME_OF_CODE.get(result.error_code)
    if known is not None:
        return known
    match result.error_class:
        case ErrorClass.POLICY_DENIED:
            return Outcome.DENIED
        case ErrorClass.SYSTEM:
            return Outcome.SYSTEM_ERROR
        case _:
            return Outcome.DENIED if is_denied else Outcome.TOOL_ERROR


def ending_of(
    call_key: str,
    result: ToolResult,
    stored: StoredResult,
    *,
    before: tuple[EventLine, ...] = (),
    run_end: Literal["completed", "failed", ""] = "",
    run_end_code: str = "",
    denied: dict[str, JsonValue] | None = None,
) -> Ending:
    """Return the ending of a call: result stored, then its terminal event.

    Args:
        call_key: Of the call.
        result: What the caller gets.
        stored: Where it is.
        before: Events of effects, or of the call's history, that come first.
        run_end: How the run ends with it, if it does.
        run_end_code: Why.
        denied: Payload of `tool_call_denied`, when permission is what ended the call.
    """
    ref = result_ref(call_key)
    told: dict[str, JsonValue] = {
        "result_ref": ref,
        "sha256": stored.sha256,
        "bytes": stored.size_bytes,
        "truncated": result.truncated,
    }
    stored_event = EventLine(EventType.TOOL_RESULT_STORED, told, Level.DEBUG)
    state: Literal["completed", "failed", "denied"]
    if denied is not None:
        state, last = "denied", EventLine(EventType.TOOL_CALL_DENIED, denied, Level.WARN)
    elif result.is_error:
        state, last = "failed", _failed(ref, result)
    else:
        state, last = "completed", _completed(ref, result)
    return Ending(
        state=state,
        outcome=outcome_of(result, is_denied=denied is not None),
        error_class=result.error_class.value if result.error_class else "",
        error_code=result.error_code or "",
        result=stored.inline,
        result_blob=stored.blob,
        result_sha256=stored.sha256,
        inbox_result=stored.inbox,
        run_end=run_end,
        run_end_code=run_end_code,
        events=(*before, stored_event, last),
    )


def _failed(ref: str, result: ToolResult) -> EventLine:
    # The result's own words may quote arguments or content, even our words on a broken schema, so
    # they stay in the stored result (semantics 2.8).
    system = result.error_class is ErrorClass.SYSTEM
    payload: dict[str, JsonValue] = {
        "error_class": result.error_class.value if result.error_class else "recoverable",
        "error_code": result.error_code,
        "message": error_info(result.error_code or "").sentence,
        "result_ref": ref,
        "duration_ms": result.usage.duration_ms,
    }
    return EventLine(EventType.TOOL_CALL_FAILED, payload, Level.ERROR if system else Level.WARN)


def _completed(ref: str, result: ToolResult) -> EventLine:
    payload: dict[str, JsonValue] = {
        "result_ref": ref,
        "is_error": False,
        "duration_ms": result.usage.duration_ms,
        "output_tokens": result.usage.output_tokens,
        "resource_refs": _fitting(result.resource_refs),
    }
    return EventLine(EventType.TOOL_CALL_COMPLETED, payload)


def _fitting(refs: Sequence[str]) -> list[JsonValue]:
    """Return the refs that an event has room for; the stored result names them all.

    One that spells a secret is no ref any more once it is clean, so it stays out.
    """
    fitting: list[JsonValue] = []
    room = EVENT_REFS_BYTES
    for ref in refs[:EVENT_REFS_MAX]:
        room -= len(canonical_json(ref)) + 1
        if room < 0:
            break
        if clean(ref) == ref:
            fitting.append(ref)
    return fitting


def error_text(result: ToolResult) -> str:
    """Return the first text block of a result, or nothing."""
    return next((block.text for block in result.content if isinstance(block, TextBlock)), "")
