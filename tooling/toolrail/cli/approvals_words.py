"""Say what a question is about: how dangerous, whose, who asks, how long, how it ended.

Is: our own words for the fields of an `ApprovalRecord`. Is not: their place on the screen
(`approvals_page.py`). Above: `approvals_page.py`, `approvals_watch.py`, `approvals_decide.py`.
Below: `plain.py`, the schemas.
"""

import re
from collections.abc import Mapping
from typing import Final

import typer

from toolrail.cli.plain import plain, said
from toolrail.spans import age_text
from toolrail_schemas import (
    ApprovalRecord,
    ApprovalScope,
    ApprovalState,
    Cost,
    Rollback,
    SideEffect,
    Source,
)

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_./@-]+")
_SIDE_EFFECT: Final[Mapping[SideEffect, str]] = {
    SideEffect.NONE: "changes nothing",
    SideEffect.WORKSPACE: "changes workspace",
    SideEffect.CHAT: "changes chat",
    SideEffect.EXTERNAL: "external",
    SideEffect.CONTROL: "controls the run",
}
_SOURCE: Final[Mapping[Source, str]] = {
    Source.BUILTIN: "builtin",
    Source.MCP: "MCP server",
    Source.EXTENSION: "extension",
    Source.SKILL: "skill",
}
_COVERS: Final[Mapping[ApprovalScope, str]] = {
    ApprovalScope.ONCE: "for this call",
    ApprovalScope.RUN: "for the rest of the run",
    ApprovalScope.ALWAYS: "for ever",
}
_WHY_OVER: Final[Mapping[ApprovalState, str]] = {
    ApprovalState.EXPIRED: "nobody decided in time, which is a refusal",
    ApprovalState.CANCELLED: "the call ended before anybody's decision could bring it to run",
    ApprovalState.SUPERSEDED: "the tool or the policy changed after it was asked",
}
_RED, _YELLOW, _GREEN = typer.colors.RED, typer.colors.YELLOW, typer.colors.GREEN
STATE_COLOUR: Final[Mapping[ApprovalState, str]] = {
    ApprovalState.PENDING: _YELLOW,
    ApprovalState.APPROVED: _GREEN,
    ApprovalState.DENIED: _RED,
}


def name_words(record: ApprovalRecord) -> str:
    """Return the tool's name; in quotes when a stranger chose it and it could pass for more."""
    return record.name if _PLAIN_NAME.fullmatch(record.name) else said(record.name)


def effect_words(record: ApprovalRecord) -> list[str]:
    """Return what the call may do, the loudest marked: read-only, destructive, NO ROLLBACK, ...."""
    hints = record.annotations
    words = ["read-only" if hints.read_only else _SIDE_EFFECT[hints.side_effect]]
    if hints.side_effect is SideEffect.EXTERNAL:
        words[0] = _loud(words[0], _YELLOW)
    elif hints.open_world:
        words.append("talks to the outside")
    if hints.destructive:
        words.append(_loud("destructive", _RED))
    words += [
        _loud(f"{plain(effect)} with these arguments", _RED)
        for effect in record.effects
        if not (effect == "destructive" and hints.destructive)
    ]
    if hints.cost is Cost.HIGH:
        words.append(_loud("high cost", _YELLOW))
    if record.rollback is Rollback.NONE:
        words.append(typer.style("NO ROLLBACK", fg=_RED, bold=True))
    elif record.rollback is Rollback.CHECKPOINT:
        words.append("rollback by checkpoint")
    return words


def source_words(record: ApprovalRecord) -> str:
    """Return who provides the tool, and whether the operator vouches for its words."""
    ref = record.source_ref
    owner = None if ref is None else ref.server or ref.extension or ref.skill
    version = None if ref is None else ref.version
    whose = " ".join(
        (_SOURCE[record.source], *(plain(word) for word in (owner, version) if word is not None))
    )
    return f"{whose}, trusted" if record.trusted else f"{whose}, {_loud('untrusted', _YELLOW)}"


def left_words(record: ApprovalRecord, *, now_ms: int) -> str:
    """Return how long the question still stands, by the clock of Redis; "over" past its end."""
    left_ms = record.expires_at - now_ms
    return age_text(left_ms) if left_ms > 0 else "over"


def state_words(record: ApprovalRecord, *, now_ms: int) -> str:
    """Return where the question is: how long it stands, or who ended it, when and how."""
    match record.state:
        case ApprovalState.PENDING:
            left = left_words(record, now_ms=now_ms)
            return f"{left} left" if record.expires_at > now_ms else left
        case ApprovalState.APPROVED | ApprovalState.DENIED:
            ago = age_text(now_ms - (record.decided_at or now_ms))
            covers = "" if record.scope is None else f", {_COVERS[record.scope]}"
            edited = ", with edited arguments" if record.edited_args_sha256 else ""
            return f"by {plain(record.decided_by or 'unknown')}, {ago} ago{covers}{edited}"
        case state:
            return _WHY_OVER[state]


def _loud(word: str, colour: str) -> str:
    return typer.style(word, fg=colour)
