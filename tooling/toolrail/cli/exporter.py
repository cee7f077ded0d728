"""`toolrail exporter`: show the cell's totals to Prometheus until SIGTERM.

Is: the command around `toolrail.metrics.exporter`. Is not: a process's own metrics, which each
worker serves itself. Above: `main.py`. Below: `toolrail.metrics.exporter`.
"""

import asyncio
import signal
from typing import Annotated

import typer

from toolrail.cli.start import start
from toolrail.metrics.exporter import DEFAULT_PORT, Exporter
from toolrail.metrics.serve import Server
from toolrail.settings import Settings
from toolrail.supervisor.ready import announce_ready


def exporter(
    context: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. [TOOLRAIL_METRICS_HOST]")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65_535,
            help=f"0 takes any free one; default {DEFAULT_PORT}. [TOOLRAIL_METRICS_PORT]",
        ),
    ] = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Show what the cell counts to Prometheus: /metrics, /healthz and /readyz, until SIGTERM.

    One per cell. It goes on while Redis is away, and shows what it read last. Exit code 78: the
    settings are wrong, starting it again does not help.
    """
    settings = start(context)
    said = {"metrics_host": host, "metrics_port": port}
    update = {name: value for name, value in said.items() if value is not None}
    asyncio.run(_run(settings.model_copy(update=update), ready_fd))


async def _run(settings: Settings, ready_fd: int | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    def tell(server: Server) -> None:
        typer.echo(f"http://{server.address}/metrics")
        if ready_fd is not None:
            announce_ready(ready_fd, address=server.address)

    await Exporter(settings).run(stop, on_ready=tell)
