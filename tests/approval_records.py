"""Questions for tests of what a person sees, without a run behind them.

Is: one `ApprovalRecord` to vary. Is not: a double; it is what `toolrail.asking` writes.
Above: tests of `toolrail approvals`. Below: the schemas.
"""

from toolrail_schemas import (
    Annotations,
    ApprovalRecord,
    Rollback,
    Source,
    SourceRef,
    args_ref,
)

RUN_ID = "run_01J00000000000000000000000"
KEY = "0123456789abcdef"
ASKED_MS = 1_790_000_000_000
NOW_MS = ASKED_MS + 5_000
EXPIRES_MS = ASKED_MS + 600_000
CAREFUL = Annotations.for_builtin(destructive=True, rollback=Rollback.CHECKPOINT)


def question(**changes: object) -> ApprovalRecord:
    """Return a pending question of a trusted builtin tool, with these fields changed."""
    fields: dict[str, object] = {
        "approval_id": f"{RUN_ID}.{KEY}",
        "run_id": RUN_ID,
        "call_id": "c1",
        "call_key": KEY,
        "name": "demo.ask",
        "title": "Ask",
        "source": Source.BUILTIN,
        "trusted": True,
        "spec_hash": "a" * 64,
        "args_sha256": "b" * 64,
        "policy_hash": "c" * 64,
        "args_summary": 'text: "hello"',
        "args_ref": args_ref(KEY),
        "annotations": CAREFUL,
        "rollback": CAREFUL.rollback,
        "policy_reason": "Approval is required by platform, rule mail.",
        "requested_at": ASKED_MS,
        "expires_at": EXPIRES_MS,
    }
    return ApprovalRecord.model_validate({**fields, **changes})


def foreign(**changes: object) -> ApprovalRecord:
    """Return a pending question about a tool of an MCP server that nobody vouches for."""
    hints = Annotations.worst_case()
    fields: dict[str, object] = {
        "name": "mcp.mail.send",
        "title": "Send",
        "source": Source.MCP,
        "source_ref": SourceRef(server="mail"),
        "trusted": False,
        "annotations": hints,
        "rollback": hints.rollback,
    }
    return question(**{**fields, **changes})
