"""Name the top-level folders of a run's workspace and who may do what in them.

Is: the table of roots (semantics 5.1) and its two questions, visible and writable.
Is not: path grammar (`paths.py`) or the file system (`walk.py`).
Above: `workspace.py`, the tools. Below: `paths.py`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from toolrail.errors import ToolError
from toolrail_workers.builtin.paths import LogicalPath

STATE_DIR = ".toolrail"
"""Holds the run's locks and version memory."""
MANIFEST = "manifest.json"
RESERVED = frozenset(
    {
        STATE_DIR,
        MANIFEST,
        ".tmp",
        "tool-args",
        "tool-results",
        "model-responses",
        "checkpoints",
        "journal",
    }
)
"""Names of the runtime's own entries; to a tool they are as if they did not exist."""

TEMP_PREFIX = ".tr-"
TEMP_SUFFIX = ".tmp"


class RootKind(StrEnum):
    """Where the content of a root comes from."""

    MATERIALIZED = "materialized"
    """Files that were put there before the run, or that outlive it."""
    GENERATED = "generated"
    """Files the agent makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One top-level folder."""

    name: str
    kind: RootKind
    visible: bool = True
    writable: bool = True


DEFAULT_ROOTS = (
    Root(name="input", kind=RootKind.MATERIALIZED, writable=False),
    Root(name="output", kind=RootKind.GENERATED),
    Root(name="scratch", kind=RootKind.GENERATED),
    Root(name="plan", kind=RootKind.GENERATED),
    Root(name="summaries", kind=RootKind.GENERATED),
    Root(name="persist", kind=RootKind.MATERIALIZED),
)


class Roots:
    """The folders of one run. A profile may only take away from them."""

    def __init__(self, roots: Collection[Root] = DEFAULT_ROOTS) -> None:
        self._roots = {root.name: root for root in roots}
        clash = RESERVED & self._roots.keys()
        if clash:
            raise ValueError(f"a root cannot have a reserved name: {sorted(clash)}")

    def __iter__(self) -> Iterator[Root]:
        return iter(self._roots.values())

    def narrowed(self, *, hide: Collection[str] = (), read_only: Collection[str] = ()) -> "Roots":
        """Return these roots without some of their visibility or writability."""
        return Roots(
            [
                replace(
                    root,
                    visible=root.visible and root.name not in hide,
                    writable=root.writable and root.name not in read_only,
                )
                for root in self
            ]
        )

    def check_visible(self, path: LogicalPath) -> Root:
        """Return the root of `path`.

        A reserved name, a hidden root and a name that does not exist are answered alike, so an
        answer tells nothing about what is hidden.

        Raises:
            ToolError: `workspace.path_not_visible`.
        """
        root = self._roots.get(path.root)
        if root is None or not root.visible or any(map(is_temp_name, path.segments)):
            raise ToolError(
                "workspace.path_not_visible",
                f"There is nothing you can use at {str(path)!r}.",
                next_action=f"Use a path under {self._listed(root.name for root in self.visible)}.",
            )
        return root

    def check_writable(self, path: LogicalPath) -> None:
        """Return when `path` may be written.

        Raises:
            ToolError: `workspace.path_not_visible` or `workspace.path_not_writable`.
        """
        if self.check_visible(path).writable:
            return
        writable = [root.name for root in self.visible if root.writable]
        raise ToolError(
            "workspace.path_not_writable",
            f"{path.root}/ is read-only.",
            next_action=f"Write under {self._listed(writable)}." if writable else None,
        )

    def is_writable(self, name: str) -> bool:
        """Return whether the root of this name may be written."""
        root = self._roots.get(name)
        return root is not None and root.visible and root.writable

    @property
    def visible(self) -> list[Root]:
        """The roots a tool may see, in the order of the table."""
        return [root for root in self if root.visible]

    @staticmethod
    def _listed(names: "Iterator[str] | list[str]") -> str:
        return ", ".join(f"{name}/" for name in names) or "another workspace"


def is_temp_name(name: str) -> bool:
    """Return whether `name` is one of our temp files, which no tool ever sees."""
    return name.startswith(TEMP_PREFIX) and name.endswith(TEMP_SUFFIX)
