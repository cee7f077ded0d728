"""Carry one decision of a person to the ledger.

Is: who may decide, edited arguments checked like a model's, policy asked again, then one step of
the ledger. Is not: reading (`listing.py`). Above: `approvals.py`. Below: policy, validation,
the ledger.

Nothing is half done: a decision that is refused here leaves the question as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson
from pydantic import JsonValue

from toolrail.entry import caps_of
from toolrail.errors import ApprovalConflict, ApprovalRefused, InvalidArguments
from toolrail.ledger import ANY_UNKNOWN, Approval, EditedArguments, Stands, conflict
from toolrail.policy.dynamic import effects_of_arguments
from toolrail.policy.inputs import Facts
from toolrail.policy.remembered import RememberedApproval, memory_field
from toolrail.registry import RegisteredTool
from toolrail.request import RunContext
from toolrail.validation import ArgumentValidators, parse_arguments
from toolrail_schemas import (
    ApprovalRecord,
    ApprovalScope,
    ApprovalState,
    Caller,
    PolicyDecision,
    ReasonCode,
    sha256_hex,
)

PERSON_MAX_CHARS = 200
Arguments = Mapping[str, JsonValue]
_STILL_OPEN = "The question stands as it was."


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What became of a decision."""

    approval_id: str
    state: ApprovalState
    """approved or denied; superseded or cancelled when the call can no longer run."""
    decided_by: str
    call_state: str
    """State of the call now."""
    repeated: bool = False
    """Somebody had decided in the same way before; nothing was changed."""
    decided_at: int = 0
    """When they had, by the clock of Redis, in ms; with `repeated` only."""
    why: str = ""
    """Why an approval could not bring the call to run, or what of a repeated decision was not
    taken."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question with everything that deciding it needs."""

    run: RunContext
    fields: Mapping[str, str]
    record: ApprovalRecord

    @property
    def key(self) -> str:
        """The call key."""
        return self.record.call_key


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person approves: these arguments, for once or for the rest of the run."""

    arguments: Arguments
    raw: bytes
    sha256: str
    is_edited: bool
    scope: ApprovalScope


def check_person(by: str) -> None:
    """The name of whoever decides can stand in the journal.

    Raises:
        ApprovalRefused: Empty, over 200 characters, or with control characters.
    """
    if not 1 <= len(by) <= PERSON_MAX_CHARS or not by.isprintable() or by != by.strip():
        raise ApprovalRefused(
            f"{by[:40]!r} names nobody. Pass `by` as 1 to {PERSON_MAX_CHARS} printable "
            "characters without spaces around them."
        )


def check_right(question: Question, by: str) -> None:
    """A person of this name may decide about this question.

    Raises:
        ApprovalRefused: Why not, and whom to ask.
    """
    why = question.run.policy.why_not_decider(by, run_user=question.run.spec.user)
    if why is not None:
        is_open = question.record.state is ApprovalState.PENDING
        raise ApprovalRefused(
            f"{why} {_STILL_OPEN}" if is_open else f"{why} It is decided already."
        )


def scope_named(scope: ApprovalScope | str) -> ApprovalScope:
    """Return the scope of this name.

    Raises:
        ApprovalRefused: There is none.
    """
    try:
        return ApprovalScope(scope)
    except ValueError:
        raise ApprovalRefused(f"{scope!r} is no scope. Choose once or run.") from None


def decided_before(
    question: Question, edited: str | bytes | Arguments | None, scope: ApprovalScope
) -> Decision | None:
    """Return the earlier approval of these arguments for this scope; None while it is open.

    Raises:
        ApprovalConflict: The earlier decision says something else, or time has decided.
    """
    record = question.record
    if record.state is ApprovalState.PENDING:
        return None
    if record.state is ApprovalState.APPROVED and record.scope is scope:
        stands = record.edited_args_sha256 or record.args_sha256
        if _digest(edited, record) == stands:
            return repeated_decision(record, call_state=question.fields["state"])
    raise conflict_with(record)


def repeated_decision(record: ApprovalRecord, *, call_state: str, why: str = "") -> Decision:
    """Return what stands, for somebody who said the same later; to say it again is no mistake."""
    return Decision(
        approval_id=record.approval_id,
        state=record.state,
        decided_by=record.decided_by or "",
        call_state=call_state,
        repeated=True,
        decided_at=record.decided_at or 0,
        why=why,
    )


def conflict_with(record: ApprovalRecord) -> ApprovalConflict:
    """Return the error for a decision that came after this end of the question."""
    return conflict(
        Stands(
            state=record.state.value,
            by=record.decided_by or "",
            at_ms=record.decided_at or 0,
            scope=record.scope.value if record.scope else "",
            is_edited=record.edited_args_sha256 is not None,
        )
    )


def wanted(
    question: Question, asked: bytes, edited: str | bytes | Arguments | None, scope: ApprovalScope
) -> Wanted:
    """Return what the person wants to approve.

    Args:
        question: About which call.
        asked: The model's arguments, as JSON.
        edited: The person's, or None to take the model's.
        scope: For how long.

    Raises:
        ApprovalRefused: The scope is not offered, or the edited arguments are no JSON object.
    """
    record = question.record
    if scope is ApprovalScope.ALWAYS:
        raise ApprovalRefused(
            "An approval for always is a matter of policy: waive the tool in users/<user>.toml. "
            f"Approve this call with scope once or run. {_STILL_OPEN}"
        )
    if scope not in record.scopes:
        asking = ", ".join(layer.value for layer in record.layers) or "the tool"
        raise ApprovalRefused(
            f"This approval cannot hold for scope {scope.value}: {asking} wants to be asked each "
            f"time. Approve with scope once. {_STILL_OPEN}"
        )
    arguments, raw = _parsed(asked if edited is None else edited)
    sha256 = sha256_hex(raw)
    return Wanted(arguments, raw, sha256, sha256 != record.args_sha256, scope)


def ask_policy_again(
    question: Question, tool: RegisteredTool, wants: Wanted, validators: ArgumentValidators
) -> PolicyDecision | None:
    """Return the policy's answer now, or None when the call can no longer run as it was asked.

    Raises:
        ApprovalRefused: Edited arguments that schema or policy refuse, or a tool that nothing can
            execute at the moment.
    """
    facts = Facts(
        source_available=tool.available, dynamic=effects_of_arguments(tool.spec, wants.arguments)
    )
    decision = question.run.policy.resolve(
        tool.spec,
        caller=Caller(question.fields["caller"]),
        surface=question.run.spec.surface,
        facts=facts,
    )
    if decision.reason.code is ReasonCode.SOURCE_UNAVAILABLE:
        why = tool.reason or "No worker that runs it is up."
        raise ApprovalRefused(
            f"{tool.spec.name} cannot be executed at the moment. {why} Approve when it is back, "
            f"or deny. {_STILL_OPEN}"
        )
    if not decision.visible or not decision.callable:
        if not wants.is_edited:
            return None
        raise ApprovalRefused(
            f"The policy does not allow the call with these arguments: {decision.reason.message} "
            f"Edit them, or deny. {_STILL_OPEN}"
        )
    if wants.is_edited:
        try:
            validators.check(tool.spec, dict(wants.arguments))
        except InvalidArguments as error:
            raise _not_like_that(error) from error
    return decision


def approval_of(
    question: Question,
    wants: Wanted,
    tool: RegisteredTool,
    decision: PolicyDecision,
    *,
    by: str,
    now_ms: int,
    envelope: str,
    edited: EditedArguments | None,
    effect_may_repeat: bool,
) -> Approval:
    """Return the decision as the ledger takes it."""
    record = question.record
    payload: dict[str, JsonValue] = {
        "approval_id": record.approval_id,
        "decided_by": by,
        "decided_at": now_ms,
        "scope": wants.scope.value,
        "args_sha256": record.args_sha256,
    }
    if edited is not None:
        payload["edited_args_sha256"] = edited.sha256
    field, memory = "", ""
    if wants.scope is ApprovalScope.RUN:
        covers = effects_of_arguments(tool.spec, wants.arguments)
        field = memory_field(tool.spec.name, tool.spec.spec_hash)
        memory = RememberedApproval(record.approval_id, by, now_ms, covers).dumps()
    return Approval(
        by=by,
        payload=payload,
        cap_run=decision.budget.calls_remaining,
        envelope=envelope,
        args_sha256=record.args_sha256,
        spec_hash=tool.spec.spec_hash,
        memory_field=field,
        memory=memory,
        # Of the arguments that run, which need not have the effects of those asked about.
        caps=caps_of(decision.budget),
        edited=edited,
        told_unknown=_told_unknown(question, edited, effect_may_repeat),
    )


def _told_unknown(
    question: Question, edited: EditedArguments | None, effect_may_repeat: bool
) -> str:
    if effect_may_repeat:
        return ANY_UNKNOWN
    # Whoever was asked because of a loss knows of that one; whoever edits one in does not.
    return question.fields.get("asked_unknown", "") if edited is None else ""


def _digest(edited: str | bytes | Arguments | None, record: ApprovalRecord) -> str:
    return record.args_sha256 if edited is None else sha256_hex(_parsed(edited)[1])


def _parsed(given: str | bytes | Arguments) -> tuple[dict[str, JsonValue], bytes]:
    try:
        arguments = parse_arguments(given)
    except InvalidArguments as error:
        raise _not_like_that(error) from error
    return arguments, orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)


def _not_like_that(error: InvalidArguments) -> ApprovalRefused:
    return ApprovalRefused(
        f"The edited arguments do not fit the tool. {error.message} {_STILL_OPEN}"
    )
