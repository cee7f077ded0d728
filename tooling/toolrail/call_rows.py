"""Show a call's record to an operator: what, where it stands, why, and nothing of its content.

Is: the fields of a record that may be printed, with a redacted summary of the arguments. Is not:
arguments, results, or the record itself (`ledger/reader.py`).
Above: `runs.py`, `dead_letters.py`. Below: `paging.py`, `redaction.py`, `registry.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import orjson

from toolrail.paging import number
from toolrail.redaction import summarize
from toolrail.registry import Registry
from toolrail_schemas import JsonObject, ToolSpec, summarize_arguments

ARGUMENT_FIELDS = ("args", "args_bytes", "args_blob", "spec_hash")
"""What a summary of the arguments needs; some are large."""
PLAIN_FIELDS = (
    "call_id",
    "tool",
    "state",
    "queue",
    "turn",
    "tenant",
    "profile",
    "caller",
    "attempt",
    "max_attempts",
    "worker",
    "error_class",
    "error_code",
    "accepted_ms",
    "started_ms",
    "ended_ms",
)
FIELDS = (*PLAIN_FIELDS, *ARGUMENT_FIELDS)
"""What is read of a record. A record of another version may lack any of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call as an operator may see it.

    Attributes:
        run_id: Its run.
        call_key: Its key in the ledger.
        call_id: The provider's id.
        tool: Canonical name, or whatever a model made up.
        state: queued, awaiting_approval, running, completed, failed or denied; "" when the record
            does not say.
        source: Name of its queue.
        turn: Which model response it came in.
        tenant: Whose call it is.
        profile: What the agent may use.
        caller: Who invoked it.
        attempts: Attempts begun, the one that is queued included.
        attempts_max: Attempts it may have.
        worker: Who had it last; "" before the first claim.
        error_class: recoverable, policy_denied or system; "" for a success.
        error_code: Why it failed; "" for a success.
        accepted_ms: When the ledger took it, by the clock of Redis.
        ended_ms: When it had its outcome; 0 while it has none.
        args_summary: Redacted, escaped, at most 1000 characters, one line for each argument; ""
            in lists.
    """

    run_id: str
    call_key: str
    call_id: str
    tool: str
    state: str
    source: str
    turn: int
    tenant: str
    profile: str
    caller: str
    attempts: int
    attempts_max: int
    worker: str
    error_class: str
    error_code: str
    accepted_ms: int
    ended_ms: int
    args_summary: str


async def known_specs(registry: Registry) -> dict[str, ToolSpec]:
    """Return the present specs by hash: what says which arguments of a call are secret."""
    return {tool.spec.spec_hash: tool.spec for tool in await registry.tools()}


def call_row(
    run_id: str, call_key: str, fields: Mapping[str, str], specs: Mapping[str, ToolSpec] | None
) -> CallRow:
    """Return the row of a record, whatever it lacks.

    Args:
        run_id: The run.
        call_key: The call.
        fields: Of the record.
        specs: By hash. Of a call whose spec is not among them no argument's value is shown, for
            nobody can tell which of them the tool's schema marks as secret. None: the arguments are
            not looked at.
    """
    return CallRow(
        run_id=run_id,
        call_key=call_key,
        call_id=fields.get("call_id", ""),
        tool=fields.get("tool", ""),
        state=fields.get("state", ""),
        source=fields.get("queue", ""),
        turn=number(fields, "turn"),
        tenant=fields.get("tenant", ""),
        profile=fields.get("profile", ""),
        caller=fields.get("caller", ""),
        attempts=number(fields, "attempt"),
        attempts_max=number(fields, "max_attempts"),
        worker=fields.get("worker", ""),
        error_class=fields.get("error_class", ""),
        error_code=fields.get("error_code", ""),
        accepted_ms=number(fields, "accepted_ms"),
        ended_ms=number(fields, "ended_ms"),
        args_summary="" if specs is None else _summary(fields, specs),
    )


def _summary(fields: Mapping[str, str], specs: Mapping[str, ToolSpec]) -> str:
    text = fields.get("args", "")
    if not text:
        stored = f"{number(fields, 'args_bytes')} bytes, stored apart"
        return f"({stored})" if fields.get("args_blob") else "(not recorded)"
    try:
        arguments: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return "(not readable)"
    if not isinstance(arguments, dict):
        return "(not readable)"
    known = cast("JsonObject", arguments)
    spec = specs.get(fields.get("spec_hash", ""))
    if spec is None:
        return summarize_arguments(known, secret_keys=known.keys()) or "(none)"
    return summarize(spec, known) or "(none)"
