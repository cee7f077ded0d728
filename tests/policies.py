"""Build tools and policies for tests in a few words.

Is: makers of specs, of layers in the letters of semantics 3.5, and of folders. Is not: assertions.
Above: the policy tests. Below: `toolrail.policy`, `toolrail_schemas`.
"""

from pathlib import Path

from pydantic import JsonValue

from toolrail.policy.layers import (
    Layers,
    PlanLayer,
    PlatformLayer,
    ProfileLayer,
    SourceLayer,
    UserLayer,
)
from toolrail.policy.load import inspect_policy
from toolrail.policy.snapshot import PolicySnapshot
from toolrail_schemas import (
    Annotations,
    Budget,
    Cost,
    Permission,
    PolicyDecision,
    Rollback,
    Source,
    SourceRef,
    SurfaceMeta,
    ToolSpec,
    Visibility,
)

LETTERS: dict[str, str] = {
    "A": "allow",
    "D": "deny",
    "Q": "approval",
    "q": "require_approval",
    "W": "waive",
}
"""The letters of the worked examples. A dash or an empty word is a layer that says nothing."""

READING = Annotations.for_builtin(read_only=True)
WRITING = Annotations.for_builtin(rollback=Rollback.CHECKPOINT)
DESTRUCTIVE = Annotations.for_builtin(destructive=True, rollback=Rollback.NONE)
COSTLY = Annotations.for_builtin(read_only=True, cost=Cost.HIGH)
EXTERNAL = Annotations.for_builtin(open_world=True, rollback=Rollback.NONE)


def native(
    name: str,
    permission: Permission = Permission.ALWAYS_ALLOW,
    *,
    annotations: Annotations = WRITING,
    source: Source = Source.BUILTIN,
    visibility: Visibility = Visibility.MODEL,
    budget: Budget | None = None,
    tags: tuple[str, ...] = (),
    allowed_callers: tuple[str, ...] | None = None,
) -> ToolSpec:
    """Return a builtin or skill tool."""
    return ToolSpec.model_validate(
        {
            "name": name,
            "description": "A tool.",
            "input_schema": {"type": "object"},
            "annotations": annotations,
            "permission": permission,
            "visibility": visibility,
            "budget": budget or Budget(),
            "source": source,
            "surface_meta": SurfaceMeta(tags=tags, allowed_callers=allowed_callers),
        }
    )


def mcp(
    name: str = "mcp.gh.create_issue",
    permission: Permission = Permission.APPROVAL_REQUIRED,
    *,
    tags: tuple[str, ...] = (),
    annotations: Annotations | None = None,
) -> ToolSpec:
    """Return a tool of an MCP server, by default an untrusted one."""
    return ToolSpec.model_validate(
        {
            "name": name,
            "description": "A tool.",
            "input_schema": {"type": "object"},
            "annotations": annotations or Annotations.worst_case(),
            "permission": permission,
            "source": Source.MCP,
            "source_ref": SourceRef(server=name.split(".")[1]),
            "surface_meta": SurfaceMeta(tags=tags),
        }
    )


def ext(
    name: str = "ext.dice.roll", permission: Permission = Permission.APPROVAL_REQUIRED
) -> ToolSpec:
    """Return a tool of an extension."""
    return ToolSpec.model_validate(
        {
            "name": name,
            "description": "A tool.",
            "input_schema": {"type": "object"},
            "permission": permission,
            "source": Source.EXTENSION,
            "source_ref": SourceRef(extension=name.split(".")[1], version="1"),
        }
    )


def said(letters: str, selector: str) -> dict[str, JsonValue]:
    """Return the plain lists of a layer that says these letters about the selector."""
    lists: dict[str, JsonValue] = {}
    for letter in letters.strip("-"):
        key = LETTERS[letter]
        if key == "approval":
            lists["tools"] = {selector: "approval"}
        else:
            lists[key] = [selector]
    return lists


def policy(
    *,
    platform: dict[str, JsonValue] | None = None,
    user: dict[str, JsonValue] | None = None,
    plan: dict[str, JsonValue] | None = None,
    profile: dict[str, JsonValue] | None = None,
    source: dict[str, JsonValue] | None = None,
) -> PolicySnapshot:
    """Return a policy of the given layers; the others say nothing."""
    return PolicySnapshot(
        Layers(
            platform=PlatformLayer.model_validate(platform or {}),
            user=UserLayer.model_validate(user or {}),
            plan=PlanLayer.model_validate(plan or {}),
            profile=ProfileLayer.model_validate(profile or {}),
            source=SourceLayer.model_validate(source or {}),
        )
    )


def flags(decision: PolicyDecision) -> str:
    """Spell visible, callable and approval as in the tables."""
    answers = (decision.visible, decision.callable, decision.approval_required)
    return "".join("T" if answer else "F" for answer in answers)


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write a policy folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def refusals(folder: Path) -> list[str]:
    """Return what is wrong with a folder, with paths relative to it."""
    _, problems = inspect_policy(folder)
    return [str(problem).replace(f"{folder}/", "") for problem in problems]
