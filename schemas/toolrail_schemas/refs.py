"""Spell and read resource refs: string handles to something that is stored elsewhere.

Is: the grammar of semantics 1.5, both directions. Is not: a store; only the owning store
resolves a ref, and only inside the same run.
Above: results, journal, stores. Below: the standard library.
"""

import re
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote, unquote

from pydantic import AfterValidator, StringConstraints

REF_MAX_CHARS = 2048

_RUN = r"run_[0-7][0-9A-HJKMNP-TV-Z]{25}"
_LINES = r"(?:#L(?P<from_line>[1-9][0-9]{0,8})-L(?P<to_line>[1-9][0-9]{0,8}))?"
_PATTERNS: dict[str, re.Pattern[str]] = {
    "workspace": re.compile(
        r"(?P<target>[^\x00-\x1f\x7f@#]+)(?:@(?P<version>[0-9a-f]{12}))?" + _LINES
    ),
    "artifact": re.compile(rf"(?P<target>{_RUN}/[A-Za-z0-9][A-Za-z0-9_.-]{{0,127}})"),
    "chat": re.compile(
        r"(?P<target>current#[0-9]{1,9})"
        r"(?::chars=(?P<from_char>[0-9]{1,9})\.\.(?P<to_char>[0-9]{1,9}))?"
    ),
    "skill": re.compile(
        r"(?P<target>[^\x00-\x1f\x7f/#]+/[^\x00-\x1f\x7f#]+)(?:#(?P<section>[^\x00-\x1f\x7f]+))?"
    ),
    "worldinfo": re.compile(r"(?P<target>[^\x00-\x1f\x7f/#]+)"),
    "mcp": re.compile(r"(?P<target>[A-Za-z0-9][A-Za-z0-9_-]{0,63}/[A-Za-z0-9%._~-]+)"),
    "result": re.compile(r"(?P<target>[0-9a-f]{16})"),
    "args": re.compile(r"(?P<target>[0-9a-f]{16})"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRef:
    """The parts of one ref."""

    scheme: str
    """workspace, artifact, chat, skill, worldinfo, mcp, result or args."""
    target: str
    """What the owning store looks up, percent escapes still in place."""
    version: str | None = None
    """First 12 hex digits of the content's SHA-256 (workspace only)."""
    lines: tuple[int, int] | None = None
    """First and last line, from 1, both included (workspace only)."""
    chars: tuple[int, int] | None = None
    """First character and the one after the last, from 0 (chat only)."""
    section: str | None = None
    """What follows `#` (skill only)."""


def parse_ref(ref: str) -> ParsedRef:
    """Return the parts of a ref.

    Raises:
        ValueError: No known scheme, or not its grammar.
    """
    scheme, _, rest = ref.partition(":")
    pattern = _PATTERNS.get(scheme)
    match = pattern.fullmatch(rest) if pattern and len(ref) <= REF_MAX_CHARS else None
    if match is None:
        raise ValueError(f"not a resource ref: {ref[:100]!r}")
    parts = match.groupdict()
    return ParsedRef(
        scheme=scheme,
        target=parts["target"],
        version=parts.get("version"),
        lines=_span(parts.get("from_line"), parts.get("to_line"), ref),
        chars=_span(parts.get("from_char"), parts.get("to_char"), ref),
        section=parts.get("section"),
    )


def _span(first: str | None, last: str | None, ref: str) -> tuple[int, int] | None:
    if first is None or last is None:
        return None
    if int(first) > int(last):
        raise ValueError(f"a range that ends before it starts: {ref[:100]!r}")
    return int(first), int(last)


def check_ref(ref: str) -> str:
    """Return `ref` unchanged if it follows the grammar.

    Raises:
        ValueError: It does not.
    """
    parse_ref(ref)
    return ref


ResourceRefStr = Annotated[
    str, StringConstraints(max_length=REF_MAX_CHARS), AfterValidator(check_ref)
]
"""A field that holds a ref."""


def workspace_ref(
    path: str, *, sha256: str | None = None, lines: tuple[int, int] | None = None
) -> str:
    """Return the ref of a workspace file; `@`, `#` and `%` in the path are percent-escaped."""
    ref = "workspace:" + re.sub(r"[%@#]", lambda hit: f"%{ord(hit[0]):02X}", path)
    if sha256 is not None:
        ref += f"@{sha256[:12]}"
    if lines is not None:
        ref += f"#L{lines[0]}-L{lines[1]}"
    return check_ref(ref)


def workspace_path(ref: ParsedRef) -> str:
    """Return the path inside a workspace ref, escapes undone.

    Raises:
        ValueError: The ref is of another scheme.
    """
    if ref.scheme != "workspace":
        raise ValueError(f"a {ref.scheme} ref has no workspace path")
    return unquote(ref.target)


def artifact_ref(run_id: str, artifact_id: str) -> str:
    """Return the ref of an artifact of a run."""
    return check_ref(f"artifact:{run_id}/{artifact_id}")


def mcp_ref(server: str, uri: str) -> str:
    """Return the ref of a resource of an MCP server; the URI is percent-encoded whole."""
    return check_ref(f"mcp:{server}/{quote(uri, safe='')}")


def result_ref(call_key: str) -> str:
    """Return the ref of a call's stored result."""
    return check_ref(f"result:{call_key}")


def args_ref(call_key: str) -> str:
    """Return the ref of a call's stored arguments."""
    return check_ref(f"args:{call_key}")
