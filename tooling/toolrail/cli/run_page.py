"""Show one run as a page: whose it is, how it stands, what it used, its newest calls.

Is: the page of `toolrail run show`, as text and as JSON. Is not: the reading (`toolrail.runs`).
Above: `run.py`. Below: `tables.py`.
"""

from collections.abc import Mapping

from toolrail.call_rows import CallRow
from toolrail.cli.tables import print_fields, print_note, print_table
from toolrail.runs import RunPage
from toolrail.spans import age_text, since
from toolrail_schemas import JsonObject, format_timestamp

_CALL_COLUMNS = ("call", "turn", "tool", "state", "attempt", "age", "took", "arguments")


def print_page(page: RunPage) -> None:
    """Print the page."""
    print_fields(_head(page))
    if page.calls:
        print_table(("", *_CALL_COLUMNS), (("", *_cells(page, call)) for call in page.calls))
    if not page.is_whole:
        print_note("Only the newest calls are shown; `toolrail journal` has all of them.")


def page_json(page: RunPage) -> dict[str, object]:
    """Return the page as JSON has it."""
    spec: JsonObject | None = None
    if page.spec is not None:
        # The plan is policy that an agent service made, in whatever words it likes.
        spec = page.spec.model_dump(mode="json", exclude={"plan"})
    return {
        "run": page.row,
        "spec": spec,
        "used": dict(page.used),
        "calls": list(page.calls),
        "is_whole": page.is_whole,
        "now_ms": page.now_ms,
    }


def _head(page: RunPage) -> Mapping[str, str]:
    row, spec = page.row, page.spec
    head = {
        "run": row.run_id,
        "status": f"{row.status or '?'} ({row.code})" if row.code else row.status or "?",
        "tenant": row.tenant or "?",
        "profile": row.profile or "?",
    }
    if spec is not None:
        head |= {
            "user": spec.user or "-",
            "name": spec.name or "-",
            "surface": spec.surface,
            "caller": spec.caller.value,
            "approval mode": spec.approval_mode.value,
            "plan": "yes" if spec.plan is not None else "no",
            "policy": (spec.policy_hash or "")[:12] or "-",
        }
    head["opened"] = _instant(row.opened_ms, page.now_ms)
    if row.ended_ms:
        head["ended"] = _instant(row.ended_ms, page.now_ms)
    head["events"] = str(row.events)
    head["open calls"] = str(row.open_calls)
    if page.used:
        head["used"] = "\n".join(f"{count} x {tool}" for tool, count in page.used.items())
    return head


def _instant(then_ms: int, now_ms: int) -> str:
    return f"{format_timestamp(then_ms)}, {since(now_ms, then_ms)} ago" if then_ms else "?"


def _cells(page: RunPage, call: CallRow) -> tuple[str, ...]:
    took_ms = call.ended_ms - call.accepted_ms if call.ended_ms and call.accepted_ms else None
    return (
        call.call_id,
        str(call.turn),
        call.tool,
        f"{call.state} {call.error_code}".strip(),
        f"{call.attempts}/{call.attempts_max}" if call.attempts_max else str(call.attempts),
        since(page.now_ms, call.accepted_ms),
        f"{took_ms} ms" if took_ms is not None and took_ms < 1000 else age_text(took_ms),
        call.args_summary.replace("\n", "; "),
    )
