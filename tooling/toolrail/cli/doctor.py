"""`toolrail doctor`: is everything here that Toolrail needs, and what to do if not.

Is: `toolrail.doctor` on a terminal. Is not: any check.
Above: `main.py`. Below: `toolrail.doctor`, `tables.py`.
"""

import asyncio
import logging
from typing import Annotated

import typer

from toolrail import exit_codes
from toolrail.cli.options import CommandExit
from toolrail.cli.plain import plain
from toolrail.cli.start import options_of, start
from toolrail.cli.tables import print_json
from toolrail.doctor import Finding, Level, examine
from toolrail.errors import ConfigError
from toolrail.settings import Settings

_COLOURS = {
    Level.OK: typer.colors.GREEN,
    Level.WARN: typer.colors.YELLOW,
    Level.FAIL: typer.colors.RED,
}
_LEVEL_WIDTH, _SUBJECT_WIDTH = 6, 13


def doctor(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Look at this machine, its settings, Redis, queues, workers, MCP servers and extensions.

    Nothing is changed, and no MCP server is called: what is said of one is what the workers that
    live announced last, with their errors. Each finding is ok, warn or fail, and says what to do;
    exit code 1 when one of them is fail.
    """
    findings = asyncio.run(examine(_settings(context)))
    for finding in findings:
        if as_json:
            print_json(finding)
        else:
            _show(finding)
    if any(finding.level is Level.FAIL for finding in findings):
        raise CommandExit(exit_codes.FAILED)


def _settings(context: typer.Context) -> Settings | ConfigError:
    try:
        settings = start(context)
    except ConfigError as error:
        return error
    if not options_of(context).is_debugging:
        # What is found is said once, and not in the log as well.
        logging.disable(logging.CRITICAL)
    return settings


def _show(finding: Finding) -> None:
    mark = typer.style(finding.level.value.ljust(_LEVEL_WIDTH), fg=_COLOURS[finding.level])
    subject = finding.subject.ljust(_SUBJECT_WIDTH)
    indent = " " * (_LEVEL_WIDTH + _SUBJECT_WIDTH)
    first, *rest = map(plain, finding.seen.splitlines() or [""])
    typer.echo(f"{mark}{subject}{first}")
    for line in rest:
        typer.echo(f"{indent}{line}")
    if finding.fix:
        typer.echo(f"{indent}fix: {plain(finding.fix)}")
