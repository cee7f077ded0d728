"""`toolrail call NAME`: one governed call through the cluster.

Is: the whole way from policy to result, from a terminal. Is not: `toolrail try`, which runs a tool
without a cluster.
Above: `main.py`. Below: `toolrail.client`.
"""

import asyncio
import uuid
from dataclasses import dataclass
from typing import Annotated

import typer

from toolrail.cli.arguments import read_arguments
from toolrail.cli.failures import answering
from toolrail.cli.options import CommandExit
from toolrail.cli.show import exit_code_of, result_text
from toolrail.cli.start import options_of, start
from toolrail.client import Toolrail
from toolrail.request import CallRequest
from toolrail.settings import Settings
from toolrail_schemas import ToolResult

DEFAULT_PROFILE = "assistant"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user wants called, and in which run."""

    name: str
    arguments: str
    run_id: str | None
    call_id: str
    turn: int
    profile: str
    tenant: str
    user: str | None
    timeout_s: float | None


def call(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Canonical tool name.")],
    *,
    args: Annotated[
        str, typer.Option(metavar="JSON|@FILE", help="Arguments as a JSON object; @- is stdin.")
    ] = "{}",
    run: Annotated[
        str | None, typer.Option(help="Call in this run. Default: a run for this call alone.")
    ] = None,
    id_: Annotated[str | None, typer.Option("--id", help="Call id; default: a new one.")] = None,
    turn: Annotated[int, typer.Option(min=0, help="Turn of the run.")] = 0,
    profile: Annotated[str, typer.Option(help="Profile of a new run.")] = DEFAULT_PROFILE,
    tenant: Annotated[str, typer.Option(help="Tenant of a new run.")] = "default",
    user: Annotated[str | None, typer.Option(help="Whose settings apply to a new run.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds to wait; the call itself goes on.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole ToolResult.")] = False,
) -> None:
    """Call one tool through the cluster and print its result.

    A call that waits for a person says so at once, on stderr, with the command that decides.

    Exit code: 0 fine, 1 the model could correct it, 2 refused by policy, 3 the run failed or the
    cluster cannot be used, 4 the run has ended or the id is another call's, 64 wrong usage, 78
    wrong settings.
    """
    with answering(options_of(context)):
        asked = Asked(
            name=name,
            arguments=read_arguments(args),
            run_id=run,
            call_id=id_ or f"cli-{uuid.uuid4().hex[:12]}",
            turn=turn,
            profile=profile,
            tenant=tenant,
            user=user,
            timeout_s=timeout,
        )
        result = asyncio.run(_call(start(context), asked))
    typer.echo(result.model_dump_json(indent=2) if as_json else result_text(result))
    raise CommandExit(exit_code_of(result))


async def _call(settings: Settings, asked: Asked) -> ToolResult:
    async with Toolrail(settings) as rail:
        if asked.run_id is None:
            run = await rail.open_run(profile=asked.profile, tenant=asked.tenant, user=asked.user)
        else:
            run = await rail.run(asked.run_id)
        try:
            request = CallRequest(
                id=asked.call_id, name=asked.name, arguments=asked.arguments, turn=asked.turn
            )
            ticket = await run.dispatch(request)
            if ticket.state == "awaiting_approval" and (awaited := await run.awaited(ticket)):
                # At once, since nothing else is printed until somebody has decided.
                typer.echo(awaited, err=True)
            return await run.wait(ticket, timeout_s=asked.timeout_s)
        finally:
            typer.secho(f"run {run.id}", err=True, dim=True)
            if asked.run_id is None and await run.status() == "open":
                # With a call still open this is refused, and the run goes on with it.
                await run.complete()
