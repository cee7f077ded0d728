"""Tell a user what went wrong and what to do.

Is: the sentences on standard error. Is not: exit codes (`main.py`).
Above: `main.py`, commands that go on after an error. Below: `toolrail.errors`.
"""

import importlib
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import cast

import typer

from toolrail import exit_codes
from toolrail.cli.options import CommandExit, GlobalOptions
from toolrail.errors import ConfigError, ToolrailError


@contextmanager
def answering(options: GlobalOptions) -> Generator[None]:
    """Keep the exit codes 0 to 2 for answers of tools, in commands whose exit code is one.

    Raises:
        CommandExit: 78 for wrong settings, 3 for any other failure of ours; both are told.
    """
    try:
        yield
    except ToolrailError as error:
        tell_error(error, is_debugging=options.is_debugging)
        code = exit_codes.CONFIG if isinstance(error, ConfigError) else exit_codes.SYSTEM
        raise CommandExit(code) from error


def tell_error(error: ToolrailError, *, is_debugging: bool = False) -> None:
    """Say what happened in one red line, and below it what to do."""
    if is_debugging:
        _print_trace(error)
    message, fix = str(error), None
    if isinstance(error, ConfigError) and error.fix is not None:
        message, fix = message.removesuffix(error.fix).rstrip(), error.fix
    first, *rest = _clean(message).splitlines() or [error.code]
    typer.secho(f"error: {first}", err=True, fg=typer.colors.RED)
    for line in (*rest, *(() if fix is None else (f"fix: {fix}",))):
        typer.secho(f"  {line}", err=True)


def tell_bug(error: Exception, *, is_debugging: bool = False) -> None:
    """Name an exception that no code expected, and say how to get its trace."""
    if is_debugging:
        _print_trace(error)
    typer.secho(
        f"error: {type(error).__name__}: {_clean(str(error))}", err=True, fg=typer.colors.RED
    )
    hint = "this is a bug of Toolrail; run it again with `toolrail --debug …` and report the trace"
    if not is_debugging:
        typer.secho(f"  {hint}", err=True)


def _print_trace(error: BaseException) -> None:
    typer.echo(_clean("".join(traceback.format_exception(error))), err=True, nl=False)


def _clean(text: str) -> str:
    # Loaded when there is something to tell: `toolrail --help` has no time for it.
    clean = cast("Callable[[str], str]", importlib.import_module("toolrail.redaction").clean_said)
    # Names in it come from outside, and must not steer the terminal.
    return "".join(map(_visible, clean(text)))


def _visible(char: str) -> str:
    if char.isprintable() or char == "\n":
        return char
    return char.encode("unicode_escape").decode("ascii")
