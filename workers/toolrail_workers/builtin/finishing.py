"""Answer workspace.finish: are the promised artifacts there?

Is: the check of the run's manifest, and the reason as data. Is not: the end of the run; that
finish is the last call of its turn, that nothing is pending and the run's own end are the
dispatcher's.
Above: `workspace.py`. Below: `run_workspace.py`, `texts.py`.

A run may have a `manifest.json` at the top of its workspace, written by whoever opened the run:
`{"required": [{"path": "output/report.md", "kind": "markdown", "max_bytes": 100000}]}`.
"""

import json
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolrail.errors import SystemFailure, ToolError
from toolrail.tools import ToolOutput
from toolrail_schemas import JsonObject, TextBlock
from toolrail_workers.builtin.checkpointing import checkpoint_after
from toolrail_workers.builtin.files import read_whole
from toolrail_workers.builtin.paths import LogicalPath
from toolrail_workers.builtin.roots import MANIFEST
from toolrail_workers.builtin.run_workspace import RunWorkspace
from toolrail_workers.builtin.texts import TextFile, load_text

_MANIFEST_MAX_BYTES = 1024 * 1024
_SHOWN = 20


class ArtifactKind(StrEnum):
    """What the content of an artifact has to be."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


class RequiredArtifact(BaseModel):
    """One file that must be there before a run may finish."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    path: str
    kind: ArtifactKind = ArtifactKind.TEXT
    """Non-empty UTF-8 in any case; `json` must parse as well."""
    max_bytes: Annotated[int, Field(ge=1)] | None = None
    """None: only the limits of the workspace."""


class Manifest(BaseModel):
    """What a run has promised. Other keys belong to whoever wrote it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    required: tuple[RequiredArtifact, ...] = ()


def finish(workspace: RunWorkspace, reason: str | None, call_key: str) -> ToolOutput:
    """Return that the run may end, with all its files in a checkpoint.

    Raises:
        ToolError: `workspace.manifest_incomplete`, with every artifact that is missing or wrong.
        SystemFailure: The manifest itself cannot be read; `checkpoint.create_failed`.
    """
    missing: list[JsonObject] = []
    manifest = _load(workspace)
    for artifact in manifest.required:
        problem = _problem(workspace, artifact)
        if problem is not None:
            missing.append({"path": artifact.path, "problem": problem})
    if missing:
        lines = [f"- {item['path']}: {item['problem']}" for item in missing[:_SHOWN]]
        raise ToolError(
            "workspace.manifest_incomplete",
            "The run cannot finish yet:\n" + "\n".join(lines),
            next_action="Write or correct these files, then call workspace.finish again.",
            structured={"missing": missing},
        )
    count = len(manifest.required)
    text = f"Finished; {count} required artifacts are complete." if count else "Finished."
    taken = checkpoint_after(workspace, call_key)
    return ToolOutput(
        content=(TextBlock(text=text),),
        structured={
            "reason": reason,
            "artifacts": [item.path for item in manifest.required],
            "checkpoint_id": taken.checkpoint_id,
        },
        events=taken.events,
    )


def _load(workspace: RunWorkspace) -> Manifest:
    path = LogicalPath((MANIFEST,))
    try:
        with workspace.opened(path) as descriptor:
            content = read_whole(descriptor, limit_bytes=_MANIFEST_MAX_BYTES)
        return Manifest.model_validate_json(content or b"")
    except ToolError as error:
        if error.code == "workspace.file_not_found":
            return Manifest()
        raise SystemFailure("tool.internal_error", "The run's manifest is not a file.") from error
    except ValidationError as error:
        raise SystemFailure("tool.internal_error", "The run's manifest is not valid.") from error


def _problem(workspace: RunWorkspace, artifact: RequiredArtifact) -> str | None:
    """Return what is wrong with an artifact, or None."""
    try:
        file = load_text(workspace, workspace.resolve(artifact.path))
    except ToolError as error:
        return "is missing" if error.code == "workspace.file_not_found" else error.message
    if not isinstance(file, TextFile):
        return "is not UTF-8 text"
    if not file.text.strip():
        return "is empty"
    if artifact.max_bytes is not None and file.size > artifact.max_bytes:
        return f"has {file.size} bytes, at most {artifact.max_bytes} are allowed"
    if artifact.kind is ArtifactKind.JSON:
        try:
            json.loads(file.text)
        except ValueError:
            return "is not valid JSON"
    return None
