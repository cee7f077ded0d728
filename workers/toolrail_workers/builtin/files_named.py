"""Find the files that a team's tool names in its answer and that are not there.

Is: one look into the run's workspace per ref. Is not: the check of other refs, which the worker
makes for every source (`toolrail_workers.given_refs`).
Above: `executor.py`. Below: `run_workspace.py`.
"""

from collections.abc import Sequence

from toolrail.errors import SystemFailure, ToolError
from toolrail.tools import ToolOutput
from toolrail_schemas import parse_ref, workspace_path
from toolrail_workers.builtin.run_workspace import RunWorkspace
from toolrail_workers.output import given_refs


def workspace_refs(output: ToolOutput) -> tuple[str, ...]:
    """Return the refs to workspace files that an output gives out."""
    return tuple(ref for ref in given_refs(output) if ref.startswith("workspace:"))


def first_missing(workspace: RunWorkspace, refs: Sequence[str]) -> str | None:
    """Return the first ref that names nothing the run may see; of any version of a file.

    Raises:
        SystemFailure: `workspace.io_failed`.
    """
    return next((ref for ref in refs if not _is_there(workspace, ref)), None)


def _is_there(workspace: RunWorkspace, ref: str) -> bool:
    try:
        path = workspace.resolve(workspace_path(parse_ref(ref)), directory=True)
        with workspace.tree.entry(path) as entry:
            return entry.status is not None
    except (ToolError, ValueError):
        return False
    except SystemFailure as error:
        # A path to the outside in an answer is a wrong ref; nobody was led there by it.
        if error.code != "workspace.path_escape":
            raise
        return False
