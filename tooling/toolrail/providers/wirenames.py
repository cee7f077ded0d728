"""Find the tool that a model means by the name it wrote.

Is: exact first, then the slips models really make, each told. Is not: permission; policy judges the
canonical name afterwards. Above: `toolbox.py`, `decoding.py`. Below: `toolrail.names`. Source:
providers.md 2.
"""

import re
from collections.abc import Callable, Sequence

from toolrail.names import AliasMap
from toolrail_schemas import ToolSpec

_PREFIX = re.compile(r"(?:default_api|functions?|tools?)[.:/]")
_PUNCTUATION = re.compile(r"[^a-z0-9]+")


class WireNames:
    """The names of the tools in one request."""

    def __init__(self, specs: Sequence[ToolSpec], wire_name: Callable[[str], str]) -> None:
        self._canonical = {wire_name(spec.name): spec.name for spec in specs}
        self._known = {spec.name for spec in specs}
        self._aliases = AliasMap(self._known)
        self._specs = specs
        self._loose: dict[str, str | None] | None = None

    def find(self, name: str, namespace: str = "") -> tuple[str | None, str]:
        """Return the canonical name, if any, and how it was found.

        Args:
            name: As the model wrote it.
            namespace: Beside it, where the provider has that.

        Returns:
            The name with "exact", "dotted", "prefix" or "loose"; or None with "unknown".
        """
        if namespace and namespace != name:
            for joint in ("__", "."):
                found = self._exact(f"{namespace}{joint}{name}")
                if found:
                    return found, "exact"
        found = self._exact(name)
        if found:
            return found, "dotted" if found == name and found not in self._canonical else "exact"
        bare = _PREFIX.sub("", name.strip(), count=1)
        found = self._exact(bare)
        if found:
            return found, "prefix"
        found = self._loosely(bare)
        return found, "loose" if found else "unknown"

    def _exact(self, name: str) -> str | None:
        found = self._canonical.get(name) or self._aliases.canonical(name)
        return found or (name if name in self._known else None)

    def _loosely(self, name: str) -> str | None:
        if self._loose is None:
            self._loose = self._fold()
        return self._loose.get(_folded(name))

    def _fold(self) -> dict[str, str | None]:
        """Case and punctuation forgotten; where that is ambiguous or dangerous, nothing."""
        loose: dict[str, str | None] = {}
        for spec in self._specs:
            key = _folded(spec.name)
            taken = key in loose or spec.annotations.destructive
            loose[key] = None if taken else spec.name
        return loose


def _folded(name: str) -> str:
    return _PUNCTUATION.sub("", name.casefold())
