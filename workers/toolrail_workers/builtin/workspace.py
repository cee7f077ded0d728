"""Declare the workspace tools: list, read, write, patch, keep, finish.

Is: names, parameters, effects and examples, as a model and a policy see them. Is not: what the
tools do (`listing.py`, `reading.py`, `writing.py`, `patches.py`, `checkpointing.py`,
`finishing.py`).
Above: the entry point `toolrail.tools`, `executor.py`. Below: those six.
"""

from typing import Annotated, Literal

from pydantic import Field

from toolrail.errors import SystemFailure
from toolrail.tools import (
    Budget,
    Isolation,
    Rollback,
    SideEffect,
    SurfaceMeta,
    Tool,
    ToolContext,
    ToolOutput,
    tool,
)
from toolrail_schemas import JsonObject, Permission
from toolrail_workers.builtin.checkpointing import (
    LABEL_MAX_CHARS,
    PATHS_MAX,
    create_checkpoint,
)
from toolrail_workers.builtin.finishing import finish
from toolrail_workers.builtin.listing import DEPTH_MAX, LIMIT_MAX, Query, list_entries
from toolrail_workers.builtin.patches import Request, apply_patch
from toolrail_workers.builtin.patching.model import Format
from toolrail_workers.builtin.patching.tiers import Match
from toolrail_workers.builtin.reading import CHARS_MAX, LINES_MAX, Range, read_text
from toolrail_workers.builtin.run_workspace import RunWorkspace
from toolrail_workers.builtin.writing import CONTENT_MAX_BYTES, Wanted, WriteMode, write_text

FilePath = Annotated[
    str,
    Field(description="Relative path from the workspace's top, such as output/report.md."),
]

PATCH_EXAMPLES: tuple[JsonObject, ...] = (
    {
        "patch": "*** Begin Patch\n*** Update File: output/report.md\n@@ ## Results\n"
        " Runs: 12\n-Failed: 2\n+Failed: 0\n*** End Patch\n"
    },
    {
        "patch": "--- a/output/app.py\n+++ b/output/app.py\n@@ -3,2 +3,3 @@\n import os\n"
        "+import sys\n \n",
        "dry_run": True,
    },
)


@tool(
    "workspace.list_files",
    title="List files",
    read_only=True,
    open_world=False,
    idempotent=True,
    isolation=Isolation.THREAD,
    surface=SurfaceMeta(
        tags=("files",),
        input_examples=({}, {"prefix": "output", "depth": 3}),
    ),
)
def list_files(
    context: ToolContext,
    prefix: Annotated[
        str | None, Field(description="Directory to list; left out, the workspace's top.")
    ] = None,
    depth: Annotated[
        int, Field(ge=1, le=DEPTH_MAX, description="How many levels below the prefix.")
    ] = 2,
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX, description="Entries per page.")] = 200,
    cursor: Annotated[
        str | None, Field(max_length=2048, description="next_cursor of the page before.")
    ] = None,
    include_hidden: Annotated[
        bool, Field(description="Whether names that start with a dot are listed.")
    ] = False,
) -> ToolOutput:
    """List files and directories of the run's workspace.

    Entries are in byte order of their paths. Symlinks are listed, never followed.
    """
    query = Query(
        prefix=prefix, depth=depth, limit=limit, cursor=cursor, include_hidden=include_hidden
    )
    return list_entries(_workspace_of(context), query)


@tool(
    "workspace.read_file",
    title="Read file",
    read_only=True,
    open_world=False,
    idempotent=True,
    isolation=Isolation.THREAD,
    budget=Budget(max_output_tokens=20_000),
    surface=SurfaceMeta(
        tags=("files",),
        input_examples=(
            {"path": "input/brief.md"},
            {"path": "output/report.md", "start_line": 40, "line_count": 60},
        ),
    ),
)
def read_file(
    context: ToolContext,
    path: FilePath,
    start_line: Annotated[int | None, Field(ge=1, description="First line, from 1.")] = None,
    line_count: Annotated[
        int | None, Field(ge=1, le=LINES_MAX, description="How many lines.")
    ] = None,
    start_char: Annotated[
        int | None, Field(ge=0, description="First character, from 0; not with lines.")
    ] = None,
    max_chars: Annotated[
        int | None, Field(ge=1, le=CHARS_MAX, description="How many characters.")
    ] = None,
    line_numbers: Annotated[
        bool, Field(description="Whether each line is numbered; never with characters.")
    ] = True,
) -> ToolOutput:
    """Read a text file of the run's workspace, whole or in part.

    A file of up to 256 KiB and 1200 lines may be read whole; of a larger one, read a range of
    lines or of characters. The answer names the file's version (sha256), which
    workspace.write_file needs to replace it.
    """
    wanted = Range(
        start_line=start_line,
        line_count=line_count,
        start_char=start_char,
        max_chars=max_chars,
        line_numbers=line_numbers,
    )
    tokens = context.max_output_tokens
    return read_text(_workspace_of(context), path, wanted, max_tokens=tokens)


@tool(
    "workspace.write_file",
    title="Write file",
    destructive=False,
    open_world=False,
    # A repeated attempt of one call finds out what the first has done; see `versions.py`.
    idempotent=True,
    side_effect=SideEffect.WORKSPACE,
    rollback=Rollback.CHECKPOINT,
    permission=Permission.ALWAYS_ALLOW,
    isolation=Isolation.THREAD,
    surface=SurfaceMeta(
        tags=("files",),
        input_examples=(
            {"path": "output/report.md", "content": "# Report\n", "mode": "create"},
            {"path": "scratch/log.txt", "content": "step 2 done\n", "mode": "append"},
        ),
    ),
)
def write_file(
    context: ToolContext,
    path: FilePath,
    content: Annotated[
        str,
        Field(max_length=CONTENT_MAX_BYTES, description="Written exactly as given."),
    ],
    mode: Annotated[
        Literal["create", "replace", "append"],
        Field(description="create: must not exist. replace: whole content. append: at the end."),
    ] = "replace",
    expected_sha256: Annotated[
        str | None,
        Field(
            pattern=r"^[0-9a-f]{64}$",
            description="Version that may be replaced; left out, the one this run last saw.",
        ),
    ] = None,
) -> ToolOutput:
    """Write a text file of the run's workspace in one step.

    An existing file is replaced only when this run has read or written its present version.
    Missing directories are made. At most 512 KiB at once.
    """
    wanted = Wanted(content=content, mode=WriteMode(mode), expected_sha256=expected_sha256)
    return write_text(_workspace_of(context), path, wanted, context)


@tool(
    "workspace.apply_patch",
    title="Apply patch",
    # A patch that deletes or moves is destructive for that call alone; see
    # `toolrail.policy.dynamic`.
    destructive=False,
    open_world=False,
    # A repeated attempt answers what the first has done; see `transaction.py`.
    idempotent=True,
    side_effect=SideEffect.WORKSPACE,
    rollback=Rollback.CHECKPOINT,
    permission=Permission.ALWAYS_ALLOW,
    isolation=Isolation.THREAD,
    surface=SurfaceMeta(tags=("files",), input_examples=PATCH_EXAMPLES),
)
def patch_files(
    context: ToolContext,
    patch: Annotated[str, Field(description="The whole patch, with its end line.")],
    format: Annotated[
        Literal["auto", "v4a", "unified"], Field(description="auto finds out.")
    ] = "auto",
    dry_run: Annotated[bool, Field(description="Only say what would change.")] = False,
    match: Annotated[
        Literal["strict", "default", "lenient"],
        Field(
            description="How exactly old lines must match. default: but for blanks at line ends "
            "and typographic characters. lenient: but for indentation too."
        ),
    ] = "default",
) -> ToolOutput:
    """Change, add, delete or move text files: all of the patch or nothing.

    Format, or a unified diff:
    *** Begin Patch
    *** Update File: output/a.py
    @@ def main():
     unchanged line
    -old line
    +new line
    *** Add File: output/b.txt
    +content
    *** Delete File: output/c.txt
    *** End Patch
    `@@ ` names a line above the change where the context alone stands at several places;
    `*** Move to: path` below an Update line renames; `*** End of File` ends a chunk at the end.
    """
    request = Request(
        patch=patch,
        form=None if format == "auto" else Format(format),
        match=Match(match),
        dry_run=dry_run,
    )
    return apply_patch(_workspace_of(context), request, context)


@tool(
    "workspace.create_checkpoint",
    title="Create checkpoint",
    destructive=False,
    open_world=False,
    # What has not changed since is not kept twice.
    idempotent=True,
    # Files stay as they are.
    side_effect=SideEffect.CONTROL,
    permission=Permission.ALWAYS_ALLOW,
    isolation=Isolation.THREAD,
    surface=SurfaceMeta(
        tags=("files",),
        input_examples=({"label": "before the rewrite"}, {"paths": ["output/report.md"]}),
    ),
)
def checkpoint_files(
    context: ToolContext,
    label: Annotated[
        str | None,
        Field(min_length=1, max_length=LABEL_MAX_CHARS, description="What it is known by."),
    ] = None,
    paths: Annotated[
        list[str] | None,
        Field(
            min_length=1,
            max_length=PATHS_MAX,
            description="Files to keep; left out, all of the writable folders.",
        ),
    ] = None,
) -> ToolOutput:
    """Keep what files hold now, so that a person can go back to it.

    Every change of a file makes one by itself; a label keeps it from being pruned.
    """
    return create_checkpoint(_workspace_of(context), label, paths, context)


@tool(
    "workspace.finish",
    title="Finish",
    destructive=False,
    open_world=False,
    idempotent=True,
    side_effect=SideEffect.CONTROL,
    permission=Permission.ALWAYS_ALLOW,
    isolation=Isolation.THREAD,
    surface=SurfaceMeta(input_examples=({"reason": "The report is written and checked."},)),
)
def finish_run(
    context: ToolContext,
    reason: Annotated[
        str | None, Field(max_length=500, description="Why the work is complete.")
    ] = None,
) -> ToolOutput:
    """Say that the work is complete; must be the last call of a turn.

    Every file that was required of this run is checked first; what is missing is listed and the
    run goes on.
    """
    return finish(_workspace_of(context), reason, context.call_key)


def _workspace_of(context: ToolContext) -> RunWorkspace:
    if not isinstance(context.workspace, RunWorkspace):
        raise SystemFailure("tool.internal_error", "The worker opened no workspace for this call.")
    return context.workspace


TOOLS: tuple[Tool, ...] = (
    list_files,
    read_file,
    write_file,
    patch_files,
    checkpoint_files,
    finish_run,
)
