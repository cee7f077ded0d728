"""Spell and check the canonical name of a tool, per source.

Is: the grammar of semantics 1.1 and the one place that builds `mcp.` and `ext.` names.
Is not: model-facing aliases (`toolrail/names.py`); nothing here or elsewhere parses a name back.
Above: `tool.py`. Below: the standard library.
"""

import re

NAME_MAX_CHARS = 128
BARE_NAMES = frozenset({"tool_search"})
RESERVED_GROUPS = ("mcp.", "ext.")

_NATIVE = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def mcp_name(server: str, tool: str) -> str:
    """Return the canonical name of a server's tool; `tool` is kept exactly as the server says."""
    return f"mcp.{server}.{tool}"


def extension_name(extension: str, tool: str) -> str:
    """Return the canonical name of an extension's tool."""
    return f"ext.{extension}.{tool}"


def check_native_name(name: str) -> None:
    """Refuse a name that a builtin or skill tool may not have.

    Raises:
        ValueError: Not `group.verb`, or it pretends to be an MCP or extension tool.
    """
    check_name_text(name)
    if name in BARE_NAMES:
        return
    if not _NATIVE.fullmatch(name):
        raise ValueError(f"tool name {name!r} is not group.verb in lower case, like notes.add")
    if name.startswith(RESERVED_GROUPS):
        raise ValueError(f"tool name {name!r} starts with a group kept for MCP or extensions")


def check_owned_name(name: str, prefix: str) -> None:
    """Refuse a name that is not `prefix` followed by a tool part.

    Raises:
        ValueError: Another owner's name, or an empty tool part.
    """
    check_name_text(name)
    if not name.startswith(prefix) or len(name) == len(prefix):
        raise ValueError(f"tool name {name!r} must be {prefix}<tool>")


def check_name_text(name: str) -> None:
    """Refuse a name of the wrong length or with control characters.

    Raises:
        ValueError: Empty, longer than 128 characters, or with a control character.
    """
    if not 1 <= len(name) <= NAME_MAX_CHARS:
        raise ValueError(f"a tool name has 1 to {NAME_MAX_CHARS} characters, not {len(name)}")
    if _CONTROL.search(name):
        raise ValueError("a tool name has no control characters")


def humanise(name: str) -> str:
    """Return a title for people made from a canonical name: `notes.add_line` -> `Add line`."""
    words = name.rsplit(".", 1)[-1].replace("_", " ").replace("-", " ").strip() or name
    return (words[0].upper() + words[1:])[:80]
