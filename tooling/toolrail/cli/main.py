"""The `toolrail` program: find the command, run it, turn every end into an exit code.

Is: the process edge of the CLI. Is not: any command (`catalogue.py` knows them by name).
Above: the console script and `python -m toolrail`. Below: `catalogue.py`, typer.

Exit codes: see `toolrail.exit_codes`.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import typer

from toolrail import exit_codes
from toolrail.cli.catalogue import Command, Entry, all_commands
from toolrail.cli.failures import code_of, tell_bug, tell_error
from toolrail.cli.options import CommandExit, GlobalOptions
from toolrail.errors import ToolrailError

_TYPER_USAGE = 2


def main() -> None:
    """Run the command line of this process and end it with the command's exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str], *, commands: Mapping[str, Entry] | None = None) -> int:
    """Run one command line and return its exit code; no exception leaves it.

    Args:
        arguments: The words after the program's name.
        commands: What can be run, by name; None is everything installed.
    """
    is_debugging = "--debug" in arguments
    try:
        app = build_app(arguments, all_commands() if commands is None else commands)
        app(args=list(arguments), prog_name="toolrail")
    except CommandExit as end:
        return end.code
    except SystemExit as end:
        return _exit_code(end)
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except ToolrailError as error:
        tell_error(error, is_debugging=is_debugging)
        return code_of(error)
    except Exception as error:  # noqa: BLE001  # the process edge: no traceback reaches a user
        tell_bug(error, is_debugging=is_debugging)
        return code_of(error)
    return 0


def build_app(arguments: Sequence[str], commands: Mapping[str, Entry]) -> typer.Typer:
    """Return the app for this command line: the command it names is loaded, all others named."""
    app = typer.Typer(
        name="toolrail",
        help="Governed tool calls for AI agents, on a real message queue.",
        epilog=_exit_codes(),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        # The tables of rich cut options on a narrow terminal, and break lines where we did.
        rich_markup_mode=None,
    )
    app.callback()(_global_options)
    wanted = next((word for word in arguments if word in commands), None)
    for name, entry in commands.items():
        if name == wanted:
            _mount(app, name, entry.load())
        elif wanted is None:
            _mount_name(app, entry)
    return app


def _exit_codes() -> str:
    codes = "; ".join(f"{code} {text}" for code, text in exit_codes.MEANINGS.items())
    return f"Exit codes: {codes}."


def _mount(app: typer.Typer, name: str, command: Command) -> None:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=name)
    else:
        app.command(name)(command)


def _mount_name(app: typer.Typer, entry: Entry) -> None:
    """List a command in the help; it is never run, since no argument names it."""
    app.command(entry.name, help=entry.help())(_placeholder)


def _placeholder() -> None:
    return None


def _global_options(
    context: typer.Context,
    *,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks and debug logging.")
    ] = False,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="Lowest level that is written. [TOOLRAIL_LOG_LEVEL]"),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"] | None,
        typer.Option(help="Text or JSON lines. [TOOLRAIL_LOG_FORMAT]"),
    ] = None,
) -> None:
    level = "debug" if debug and log_level is None else log_level
    context.obj = GlobalOptions(is_debugging=debug, log_level=level, log_format=log_format)


def _exit_code(end: SystemExit) -> int:
    match end.code:
        case None:
            return 0
        case int(code) if code == _TYPER_USAGE:
            return exit_codes.USAGE
        case int(code):
            return code
        case text:
            typer.secho(text, err=True, fg=typer.colors.RED)
            return exit_codes.FAILED
