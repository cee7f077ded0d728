"""Look at MCP servers and extensions: who is up, and why not.

Is: what live workers announce of each owner, and the servers that this machine's file names.
Is not: starting one. Above: `examine.py`. Below: `toolrail.registry`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from toolrail.doctor.finding import Finding, fail, ok, warn
from toolrail.redaction import clean
from toolrail.registry import Offer

OWNERS = {"mcp": "MCP server", "extension": "extension"}
_REASON_MAX_CHARS = 300


def judge_owners(queue: str, owners: Mapping[str, Sequence[Offer]]) -> list[Finding]:
    """Return what the live workers of a queue say about its owners.

    Args:
        queue: `mcp` or `extension`.
        owners: Owner to what each worker said last of it.
    """
    return [_owner(queue, owner, offers) for owner, offers in owners.items()]


def judge_servers_file(file: Path, announced: Mapping[str, Sequence[Offer]]) -> list[Finding]:
    """Return which servers of a file nobody has announced."""
    if (problem := unreadable(file)) is not None:
        return [problem]
    names = list(_names(file))
    known = {owner for owner, offers in announced.items() if any(offer.is_live for offer in offers)}
    missing = sorted(set(names) - known)
    if not missing:
        return [ok("mcp", f"{file} names {len(names)} servers, all of them known to workers")]
    seen = f"{file} names servers that no live worker has: {', '.join(missing)}"
    return [warn("mcp", seen, "toolrail worker mcp, with the same TOOLRAIL_MCP_SERVERS_FILE")]


def unreadable(file: Path) -> Finding | None:
    """Return what is wrong with a servers file as a file, or None."""
    try:
        list(_names(file))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it is not JSON"
        fix = "Correct TOOLRAIL_MCP_SERVERS_FILE, or the file."
        return fail("mcp", f"{file} cannot be read: {reason}", fix)
    return None


def _owner(queue: str, owner: str, offers: Sequence[Offer]) -> Finding:
    name = f"{OWNERS[queue]} {owner}"
    live = [offer for offer in offers if offer.is_live]
    if not live:
        seen = f"{name}: no live worker has it"
        return warn(queue, seen, f"toolrail worker {queue}; it is forgotten after a week.")
    up = [offer for offer in live if offer.entry.available]
    tools = {tool for offer in live for tool in offer.specs}
    seen = f"{name}: up in {len(up)} of {len(live)} workers, {len(tools)} tools"
    if len(up) == len(live):
        return ok(queue, seen)
    reasons = dict.fromkeys(o.entry.reason for o in live if not o.entry.available)
    why = " ".join(clean(reason)[:_REASON_MAX_CHARS] for reason in reasons if reason)
    said = f"{seen}. {why or 'No reason was given.'}"
    fix = "Do what the reason says; the worker tries again by itself."
    return warn(queue, said, fix) if up else fail(queue, said, fix)


def _names(file: Path) -> Iterator[str]:
    """Yield the enabled servers that a file names; a worker reads the rest strictly."""
    root = _object(json.loads(file.read_text(encoding="utf-8-sig")))
    servers = _object(root.get("mcpServers", root.get("servers")))
    for name, entry in servers.items():
        if _object(entry).get("disabled") is not True:
            yield name


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError('it must have one object "mcpServers", of an object for each server')
    return cast("Mapping[str, object]", value)
