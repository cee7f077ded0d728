"""`toolrail demo`: build the world, start the cluster, play the script, show the table.

Is: the order of these, and the exit code. Is not: any of them.
Above: `toolrail_workers.commands`. Below: `world.py`, `agent.py`, `toolrail.testing`.
"""

import asyncio
import contextlib
import logging
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toolrail import exit_codes
from toolrail.cli.options import CommandExit
from toolrail.cli.start import options_of, start
from toolrail.errors import RedisUnavailable
from toolrail.ledger import LedgerReader
from toolrail.redis_io import connect
from toolrail.settings import Settings
from toolrail.supervisor.spec import ChildSpec
from toolrail.supervisor.spec import Stage as ChildStage
from toolrail.testing import Cluster
from toolrail_workers.demo.agent import Stage, play
from toolrail_workers.demo.findings import Finding, check_books
from toolrail_workers.demo.world import make_world

SCALE = {"builtin": 2, "mcp": 1, "extension": 1}
SCRIPT_WITHIN_S = 100.0


def run_demo(context: typer.Context, *, keep: bool) -> None:
    """Run the demo and end with 0 only if everything promised was seen."""
    own = start(context, joins_cluster=False)
    if not options_of(context).is_debugging:
        logging.getLogger("toolrail").setLevel(logging.WARNING)
    directory = Path(tempfile.mkdtemp(prefix="toolrail-demo-"))
    begun = time.monotonic()
    try:
        typer.echo(f"Preparing {directory} (an MCP server is installed once) ...")
        settings = make_world(directory, downloads=own.state_dir.absolute() / "demo")
        findings = asyncio.run(_run(settings, directory, keep=keep))
    except asyncio.CancelledError:
        raise CommandExit(exit_codes.INTERRUPTED) from None
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
    typer.echo(f"{time.monotonic() - begun:.0f} s in all.")
    holds = bool(findings) and all(finding.holds for finding in findings)
    raise CommandExit(exit_codes.OK if holds else exit_codes.FAILED)


async def _run(settings: Settings, directory: Path, *, keep: bool) -> list[Finding]:
    console = Console()
    colour = sys.stdout.isatty()
    typer.echo("Starting Redis and four workers ...")
    async with Cluster(directory, settings=settings, scale=SCALE) as cluster:
        _stop_on_signals(cluster)
        await cluster.add(_glossary(cluster))
        async with cluster.client() as rail:
            stage = Stage(cluster=cluster, rail=rail, say=typer.echo, colour=colour)
            try:
                async with asyncio.timeout(SCRIPT_WITHIN_S):
                    await play(stage)
            except Exception as error:  # noqa: BLE001  # half a table and the reason, no trace
                stage.check(
                    "The script ends.", seen=f"{type(error).__name__}: {error}", holds=False
                )
                _show_logs(cluster)
            stage.findings.append(await _check_books(cluster.settings))
        console.print(_table(stage.findings))
        if keep:
            await _keep_up(cluster, directory)
    return stage.findings


async def _check_books(settings: Settings) -> Finding:
    redis = connect(settings.redis_url, timeout_s=settings.redis_timeout_s, name="toolrail-demo")
    reader = LedgerReader(redis, prefix=settings.key_prefix, deadline_s=settings.redis_timeout_s)
    try:
        return check_books(await reader.totals())
    except RedisUnavailable as error:
        return Finding("The ledger's books balance at the end.", str(error), holds=False)
    finally:
        await redis.aclose()


def _glossary(cluster: Cluster) -> ChildSpec:
    return ChildSpec(
        name="glossary",
        argv=(sys.executable, "-m", "toolrail_workers.demo.glossary"),
        env=cluster.environment(),
        stage=ChildStage.FRONT,
        stop_grace_s=5.0,
    )


def _table(findings: list[Finding]) -> Table:
    table = Table("promised", "seen", "")
    for finding in findings:
        mark = "[green]holds[/]" if finding.holds else "[bold red]BROKEN[/]"
        table.add_row(finding.promise, escape(finding.seen), mark)
    return table


def _show_logs(cluster: Cluster) -> None:
    typer.echo("\nThe last lines of the cluster:")
    for line in cluster.lines()[-40:]:
        typer.echo(f"  {line}")


def _stop_on_signals(cluster: Cluster) -> None:
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    asked: list[bool] = []

    def stop() -> None:
        cluster.ask_stop()
        # Only once: the second signal kills the children, and the stop itself must go on.
        if task is not None and not asked:
            task.cancel()
        asked.append(True)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)


async def _keep_up(cluster: Cluster, directory: Path) -> None:
    typer.echo(f"\nThe cluster stays up until Ctrl-C. In another terminal:\n  cd {directory}")
    typer.echo("  toolrail doctor\n  toolrail run open --profile assistant")
    with contextlib.suppress(asyncio.CancelledError):
        await cluster.wait_stop_asked()
