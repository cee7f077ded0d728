"""Spell the arguments of each ledger script, in its order.

Is: values to flat lists; the head of each Lua file names the same order. Is not: the calls
(`ledger.py`). Above: `ledger.py`. Below: `records.py`.
"""

from collections.abc import Mapping, Sequence

import orjson
from pydantic import JsonValue

from toolrail.ledger.records import Approval, Ending, EventLine, NewCall
from toolrail.redaction import clean_payload
from toolrail.redis_io import Argument

NO_CAP = -1


def approve_args(approval: Approval) -> list[Argument]:
    """Return what `lua/approve.lua` takes after the call key."""
    edited = approval.edited
    return [
        approval.by,
        as_json(clean_payload(approval.payload)),
        _cap(approval.cap_run),
        approval.envelope,
        approval.args_sha256,
        approval.spec_hash,
        approval.memory_field,
        approval.memory,
        edited.sha256 if edited else "",
        edited.inline if edited else "",
        edited.blob if edited else "",
        edited.size_bytes if edited else 0,
        edited.summary if edited else "",
        approval.told_unknown,
        *flat(approval.caps)[1:],
    ]


def dispatch_args(call: NewCall) -> list[Argument]:
    """Return what `lua/dispatch.lua` takes."""
    end = call.ending
    fields = flat(call.fields)
    return [
        call.run_id,
        call.call_key,
        call.digest,
        call.state,
        _cap(call.cap_run),
        _cap(call.cap_turn),
        call.deadline_ms,
        call.envelope,
        call.drift,
        end.run_end if end else "",
        end.run_end_code if end else "",
        end.outcome if end else "",
        end.error_class if end else "",
        end.error_code if end else "",
        end.inbox_result if end else "",
        call.approval_expires_ms,
        int(call.alone),
        call.memory,
        fields[0],
        len(call.events),
        *fields[1:],
        *triples(call.events),
    ]


def finish_args(
    ending: Ending,
    guard: str,
    fence: int,
    actor: str,
    approval_state: str,
    dead_letter: bool,
    comment: str,
) -> list[Argument]:
    """Return what `lua/finish.lua` takes after the call key."""
    return [
        guard,
        fence,
        ending.state,
        ending.outcome,
        ending.error_class,
        ending.error_code,
        ending.result,
        ending.result_blob,
        ending.result_sha256,
        ending.inbox_result,
        actor,
        ending.run_end,
        ending.run_end_code,
        approval_state,
        int(dead_letter),
        len(ending.events),
        *triples(ending.events),
        comment,
    ]


def as_json(value: Mapping[str, JsonValue]) -> str:
    """Return a payload as its script takes it."""
    return orjson.dumps(value).decode()


def flat(fields: Mapping[str, str | int]) -> list[Argument]:
    """Return how many arguments follow, then name and value of each field."""
    listed: list[Argument] = [2 * len(fields)]
    for name, value in fields.items():
        listed += (name, value)
    return listed


def triples(events: Sequence[EventLine]) -> list[Argument]:
    """Return type, level and payload of each event."""
    return [part for event in events for part in event.triple()]


def _cap(calls: int | None) -> int:
    return NO_CAP if calls is None else calls
