"""Map canonical tool names to names that every model provider accepts, and back.

Is: a pure function of the name (`alias_of`) and a frozen table (`AliasMap`). Is not: provider
formats or calls. Above: client, providers. Below: nothing. Source: providers.md 2.

A plain name turns its dots into `__` and holds no `___`; any other name becomes a readable
prefix, `___` and 12 characters of its SHA-256. So the two kinds can never meet.
"""

import base64
import hashlib
import re
from collections.abc import Iterable

ALIAS_MAX_CHARS = 64
SHOWN_MAX_CHARS = 128
"""Of a name that no tool has."""
HASH_CHARS = 12
_SEGMENT = r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*"
_PLAIN = re.compile(rf"(?=[A-Za-z]){_SEGMENT}(?:\.{_SEGMENT})*\Z")
_FOREIGN = re.compile(r"[^A-Za-z0-9-]+")

RESERVED = frozenset(
    {
        "advisor",
        "apply_patch",
        "bash",
        "bash_code_execution",
        "browser",
        "code_execution",
        "computer",
        "default_api",
        "google_search",
        "local_shell",
        "memory",
        "multi_tool_use",
        "parallel",
        "shell",
        "str_replace_based_edit_tool",
        "str_replace_editor",
        "text_editor_code_execution",
        "tool_search_tool_bm25",
        "tool_search_tool_regex",
        "url_context",
        "web_fetch",
        "web_search",
    }
)
"""Names that providers keep for tools of their own."""


def alias_of(name: str) -> str:
    """Return the model-facing name: letters, digits, `_` and `-`, at most 64, letter first."""
    if _PLAIN.match(name):
        alias = name.replace(".", "__")
        if len(alias) <= ALIAS_MAX_CHARS and alias not in RESERVED:
            return alias
    digest = hashlib.sha256(name.encode("utf-8")).digest()
    suffix = "___" + base64.b32encode(digest).decode("ascii").lower()[:HASH_CHARS]
    room = ALIAS_MAX_CHARS - len(suffix)
    stem = _FOREIGN.sub("_", name).strip("_")
    if not stem[:1].isalpha():
        stem = f"t_{stem}"
    return stem[:room].rstrip("_-") + suffix


def shown_name(name: str) -> str:
    """Return a name nobody knows, fit for results, journal and counters."""
    printable = "".join(char if char.isprintable() else "\ufffd" for char in name)
    return printable.encode("utf-8", "replace").decode()[:SHOWN_MAX_CHARS] or "\ufffd"


class AliasMap:
    """The aliases of one run's tools; the only way back from an alias to a canonical name."""

    def __init__(self, names: Iterable[str]) -> None:
        self._canonical: dict[str, str] = {}
        for name in sorted(set(names)):
            other = self._canonical.setdefault(alias_of(name), name)
            if other != name:
                raise ValueError(f"{name!r} and {other!r} share the alias {alias_of(name)!r}")

    def canonical(self, wire_name: str) -> str | None:
        """Return the canonical name behind an alias, or None."""
        return self._canonical.get(wire_name)
