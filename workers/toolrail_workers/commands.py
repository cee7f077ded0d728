"""The commands that this package adds to `toolrail`: worker, try, demo.

Is: their options and help, and nothing else, so that `toolrail --help` stays quick. Is not: what
they do (`serve.py`, `trial.py`, `demo/`), which is imported when the command runs.
Above: `toolrail.cli`, through the entry-point group `toolrail.commands`. Below: typer.
"""

import importlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from toolrail.errors import ConfigError

_WORKER_PACKAGES = frozenset({"celery", "mcp", "anyio", "prometheus_client"})


class Queue(StrEnum):
    """A queue that a worker can serve."""

    BUILTIN = "builtin"
    MCP = "mcp"
    EXTENSION = "extension"


def worker(
    context: typer.Context,
    queues: Annotated[list[Queue], typer.Argument(help="What to serve; several are possible.")],
    *,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Calls at once. [TOOLRAIL_SLOTS]")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Shown in journal and logs, such as mcp.1; default: queues.")
    ] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run a worker, which runs the tools of its queues.

    It takes calls, runs their tools and stores the results, and waits for Redis as long as it
    takes. SIGTERM lets running calls finish (TOOLRAIL_DRAIN_S). Exit code 78: the settings are
    wrong, starting it again does not help.
    """
    serve = _load("toolrail_workers.serve:serve")
    serve(
        context,
        queues=tuple(dict.fromkeys(queue.value for queue in queues)),
        slots=slots,
        name=name,
        ready_fd=ready_fd,
    )


def try_tool(
    context: typer.Context,
    tool: Annotated[str, typer.Argument(help="Canonical name, such as workspace.read_file.")],
    *,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder that is the run's workspace. Default: an empty one.")
    ] = None,
    args: Annotated[
        str, typer.Option(metavar="JSON|@FILE", help="Arguments as a JSON object; @- is stdin.")
    ] = "{}",
    profile: Annotated[
        str | None, typer.Option(help="Ask the policy of this profile first. Default: do not ask.")
    ] = None,
    chat: Annotated[
        str | None, typer.Option(help="Chat that the run reads, of the tenant `default`.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole ToolResult.")] = False,
) -> None:
    """Run one tool here, without a cluster.

    The checks, limits and the answer are those of a worker.

    Exit code: 0 fine, 1 the model could correct it, 2 refused by policy, 3 the run would fail,
    64 wrong usage, 78 wrong settings.
    """
    run_trial = _load("toolrail_workers.trial:run_trial")
    run_trial(
        context,
        name=tool,
        workspace=workspace,
        args=args,
        profile=profile,
        chat=chat,
        as_json=as_json,
    )


def demo(
    context: typer.Context,
    *,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the cluster up afterwards, until Ctrl-C.")
    ] = False,
) -> None:
    """Show everything once, on a real cluster.

    A scripted agent plays its turns; then a table says what was promised and what was seen.
    """
    run_demo = _load("toolrail_workers.demo.show:run_demo")
    run_demo(context, keep=keep)


def _load(target: str) -> Callable[..., None]:
    """Import what a command does, only when it runs.

    Raises:
        ConfigError: The packages that workers need are not installed.
    """
    module, _, attribute = target.partition(":")
    try:
        return cast("Callable[..., None]", getattr(importlib.import_module(module), attribute))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _WORKER_PACKAGES:
            raise
        fix = "Run: pip install 'toolrail[worker]'"
        raise ConfigError(f"The package {error.name} is not installed.", fix=fix) from None
