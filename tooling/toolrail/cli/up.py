"""`toolrail up`: a whole cluster on this machine, until Ctrl-C.

Is: the terminal side of `LocalCluster`. Is not: the cluster.
Above: `main.py`. Below: `toolrail.supervisor`.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from toolrail import exit_codes
from toolrail.cli.options import CommandExit, UsageError
from toolrail.cli.start import start
from toolrail.errors import ConfigError
from toolrail.policy.load import load_policy
from toolrail.settings import Settings
from toolrail.supervisor.cluster import ONE_OF_EACH, SOURCES, LocalCluster
from toolrail.supervisor.console import ConsoleSink, JsonSink, LineSink
from toolrail.supervisor.spec import ChildState
from toolrail.supervisor.supervisor import ChildNeverReady
from toolrail.urls import redact_url

_REFUSED = "worker.start_failed: "
"""How a worker's log begins what keeps it from starting."""


def up(
    context: typer.Context,
    *,
    scale: Annotated[
        list[str] | None,
        typer.Option(help="Workers per source, such as mcp=2; repeat it or use commas."),
    ] = None,
) -> None:
    """Run a whole cluster on this machine: Redis, a worker per source, metrics, until Ctrl-C.

    The first Ctrl-C (or SIGTERM) drains and stops in order, the second kills. Commands that are
    run in the same folder meanwhile find the cluster by themselves.
    """
    settings = start(context, joins_cluster=False)
    workers = parse_scale(scale or [])
    # Its clients in this folder read it; here it would be missed by nobody before the first run.
    load_policy(settings.policy_dir)
    try:
        code = asyncio.run(_up(settings, workers))
    except ChildNeverReady as error:
        if error.exit_code != exit_codes.CONFIG:
            raise
        raise _wrong_setting(error) from error
    raise CommandExit(code)


def parse_scale(texts: list[str]) -> dict[str, int]:
    """Return workers per source from `mcp=2` or `builtin=2,mcp=0`; sources not named have one.

    Raises:
        UsageError: Not of that form, or an unknown source.
    """
    scale = dict(ONE_OF_EACH)
    for part in (part.strip() for text in texts for part in text.split(",")):
        source, _, count = part.partition("=")
        if source not in SOURCES or not count.isdecimal() or int(count) > 99:
            fix = f"Write SOURCE=COUNT with SOURCE one of {', '.join(SOURCES)}, such as mcp=2."
            raise UsageError(f"{part!r} is no scale.", fix=fix, key="--scale")
        scale[source] = int(count)
    return scale


def _wrong_setting(error: ChildNeverReady) -> ConfigError:
    """Return what the child said about its settings, which the lines of others have buried."""
    said = next((line for line in reversed(error.last_lines) if _REFUSED in line), None)
    if said is None:
        fix = "Read what it printed, and start again."
        return ConfigError("its settings are wrong.", fix=fix, key=error.name)
    if said.startswith("{"):
        said = str(json.loads(said)["event"])
    return ConfigError(said.partition(_REFUSED)[2], key=error.name)


async def _up(settings: Settings, scale: Mapping[str, int]) -> int:
    """Run the cluster until it is asked to stop; 1 when a child had to be given up."""
    sink = _sink(settings)
    cluster = LocalCluster(settings, sink, scale=scale, exports=True)
    loop = asyncio.get_running_loop()
    starting = asyncio.create_task(cluster.start())
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cluster.supervisor.ask_stop)
    stop_asked = asyncio.create_task(cluster.wait_stop_asked())
    await asyncio.wait({starting, stop_asked}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done() and not cluster.start_failed:
        # Asked to stop while starting: `start` stops what it has started.
        starting.cancel()
        await asyncio.wait({starting})
        gave_up = any(s.state is ChildState.GIVEN_UP for s in cluster.supervisor.statuses())
        return int(gave_up)
    effective = await starting
    _tell_ready(effective, cluster.metrics_address, sink)
    await stop_asked
    sink.event("cluster", "stopping; once more kills")
    await cluster.stop()
    given_up = [s for s in cluster.supervisor.statuses() if s.state is ChildState.GIVEN_UP]
    return exit_codes.FAILED if given_up else exit_codes.OK


def _sink(settings: Settings) -> LineSink:
    if settings.log_format == "json":
        return JsonSink(sys.stdout)
    return ConsoleSink(sys.stdout, colour=sys.stdout.isatty())


def _tell_ready(settings: Settings, metrics_address: str, sink: LineSink) -> None:
    sink.event("cluster", f"ready at {redact_url(settings.redis_url)}; Ctrl-C stops it")
    sink.event("cluster", f"metrics at http://{metrics_address}/metrics")
    folder = settings.state_dir.absolute().parent
    sink.event("cluster", f"in {folder} try: toolrail call workspace.list_files --args '{{}}'")
