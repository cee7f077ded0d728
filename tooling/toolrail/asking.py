"""Write the question that a person is asked about one call.

Is: `ApprovalRecord` from a draft, the tool and the policy's answer: everything of semantics 6
that a person must see, and its event. Is not: its storing. Above: `entry.py`; the worker's
`repeats.py`. Below: policy, the schemas.
"""

from typing import Final

from pydantic import JsonValue

from toolrail.drafting import Draft
from toolrail.ledger import EventLine
from toolrail.policy.dynamic import effects_of_arguments
from toolrail.policy.remembered import effect_names, offered_scopes
from toolrail.redaction import clean, summarize
from toolrail.registry import RegisteredTool
from toolrail.request import RunContext, approval_id_of
from toolrail_schemas import ApprovalRecord, EventType, Layer, PolicyDecision, args_ref

TITLE_MAX_CHARS: Final = 80
DESCRIPTION_MAX_CHARS: Final = 500
REASON_MAX_CHARS: Final = 1000


def approval_record(
    run: RunContext,
    draft: Draft,
    tool: RegisteredTool,
    decision: PolicyDecision,
    *,
    now_ms: int,
    expires_ms: int,
) -> ApprovalRecord:
    """Return the question, pending."""
    spec, arguments = tool.spec, draft.asked.arguments or {}
    return ApprovalRecord(
        approval_id=approval_id_of(run.run_id, draft.key),
        run_id=run.run_id,
        call_id=draft.asked.call_id,
        call_key=draft.key,
        tenant=run.spec.tenant,
        profile=run.spec.profile,
        caller=draft.asked.caller,
        name=spec.name,
        title=clean(spec.title or spec.name)[:TITLE_MAX_CHARS],
        description=clean(spec.description)[:DESCRIPTION_MAX_CHARS],
        source=spec.source,
        source_ref=spec.source_ref,
        trusted=spec.annotations.trusted,
        spec_hash=spec.spec_hash,
        args_sha256=draft.raw_sha256,
        policy_hash=run.policy.policy_hash,
        args_summary=summarize(spec, arguments),
        args_ref=args_ref(draft.key),
        annotations=spec.annotations,
        rollback=spec.annotations.rollback,
        effects=tuple(effect_names(effects_of_arguments(spec, arguments))),
        policy_reason=_who_asks(run, decision),
        layers=decision.approval_required_by,
        scopes=offered_scopes(decision),
        requested_at=now_ms,
        expires_at=expires_ms,
    )


def question_event(record: ApprovalRecord) -> EventLine:
    """Return what the journal says of a question."""
    awaiting: dict[str, JsonValue] = {
        "approval_id": record.approval_id,
        "args_summary": record.args_summary,
        "args_ref": record.args_ref,
        "side_effect": record.annotations.side_effect.value,
        "destructive": record.annotations.destructive,
        "source": record.source.value,
        "rollback": record.rollback.value,
        "policy_reason": record.policy_reason,
        "expires_at": record.expires_at,
    }
    return EventLine(EventType.TOOL_CALL_AWAITING_APPROVAL, awaiting)


def expiry_ms(run: RunContext, tool: RegisteredTool, *, default_ms: int) -> int:
    """Return how long the question stands."""
    seconds = run.policy.approval_expiry_s(tool.spec.source)
    return default_ms if seconds is None else seconds * 1000


def _who_asks(run: RunContext, decision: PolicyDecision) -> str:
    asking = zip(decision.approval_required_by, decision.approval_rules, strict=True)
    # The reason is cut at its end, and a person must read first that an effect may be a second.
    first = sorted(asking, key=lambda asked: asked[0] is not Layer.CONTEXT)
    said = "; ".join(f"{run.policy.compiled.title(layer)}, rule {rule}" for layer, rule in first)
    return clean(f"Approval is required by {said or 'the tool'}.")[:REASON_MAX_CHARS]
