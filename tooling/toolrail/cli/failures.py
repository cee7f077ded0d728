"""Tell a user what went wrong and what to do, and know the exit code of every error.

Is: the sentences on standard error; the one place that maps errors to `exit_codes`. Is not: the
end of a command that found no error (each command says its own).
Above: `main.py`, commands that go on after an error. Below: `toolrail.errors`.
"""

import importlib
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import cast

import typer

from toolrail import exit_codes
from toolrail.cli.options import CommandExit, GlobalOptions, UsageError
from toolrail.errors import (
    AdmissionClosed,
    ApprovalConflict,
    ApprovalRefused,
    BlobMissing,
    CallConflict,
    Closed,
    ConfigError,
    DoorbellInvalid,
    InvalidArguments,
    JournalAppendFailed,
    JournalConflict,
    JournalGap,
    PolicySnapshotCorrupt,
    PublishFailed,
    RedisError,
    RedisUnavailable,
    RunClosed,
    RunConflict,
    SecretMissing,
    SystemFailure,
    ToolrailError,
    WaitTimeout,
)

_BROKEN = (
    AdmissionClosed,
    BlobMissing,
    Closed,
    DoorbellInvalid,
    JournalAppendFailed,
    JournalConflict,
    JournalGap,
    PolicySnapshotCorrupt,
    PublishFailed,
    RedisError,
    SystemFailure,
    WaitTimeout,
)
"""What no other question would avoid: Toolrail itself could not answer."""
_NOWHERE = (
    "No cluster is up in this folder, and no TOOLRAIL_REDIS_URL names another.",
    "fix: run `toolrail up` here, or go to the folder where it runs",
)


def code_of(error: Exception) -> int:
    """Return the exit code of a command that ends with this error; a bug is ours, so 3."""
    match error:
        case UsageError():
            return exit_codes.USAGE
        case ConfigError():
            return exit_codes.CONFIG
        case ApprovalConflict() | RunClosed() | RunConflict() | CallConflict():
            return exit_codes.CONFLICT
        case ApprovalRefused() | InvalidArguments():
            return exit_codes.POLICY
        case error if isinstance(error, _BROKEN):
            return exit_codes.SYSTEM
        case ToolrailError():
            return exit_codes.FAILED
        case _:
            return exit_codes.SYSTEM


@contextmanager
def answering(options: GlobalOptions) -> Generator[None]:
    """Keep the exit codes 0 to 2 for answers of tools, in commands whose exit code is one.

    Raises:
        CommandExit: 64 for a wrong command line, 78 for wrong settings, 3 for any other failure of
            ours; all are told.
    """
    try:
        yield
    except ToolrailError as error:
        tell_error(error, is_debugging=options.is_debugging)
        code = code_of(error)
        is_said = code in {exit_codes.USAGE, exit_codes.CONFIG, exit_codes.CONFLICT}
        raise CommandExit(code if is_said else exit_codes.SYSTEM) from error


def tell_error(error: ToolrailError, *, is_debugging: bool = False) -> None:
    """Say what happened in one red line, and below it what to do."""
    if is_debugging:
        _print_trace(error)
    first, *rest = lines_of(error)
    typer.secho(f"error: {first}", err=True, fg=typer.colors.RED)
    for line in rest:
        typer.secho(f"  {line}", err=True)


def lines_of(error: ToolrailError) -> list[str]:
    """Return what happened, and below it what to do, as lines that cannot steer a terminal."""
    message, fix = str(error), list[str]()
    if isinstance(error, ConfigError) and error.fix is not None:
        message, fix = message.removesuffix(error.fix).rstrip(), [f"fix: {_clean(error.fix)}"]
    lines = [*(_clean(message).splitlines() or [error.code]), *fix]
    is_nowhere = isinstance(error, RedisUnavailable | SecretMissing) and _is_nowhere()
    return [*_NOWHERE, *lines] if is_nowhere else lines


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


def _is_nowhere() -> bool:
    # Loaded when there is something to tell, as below; whoever raised this error has loaded it.
    ask = cast("Callable[[], bool]", importlib.import_module("toolrail.cli.start").is_nowhere)
    return ask()


def _clean(text: str) -> str:
    # Loaded when there is something to tell: `toolrail --help` has no time for it.
    clean = cast("Callable[[str], str]", importlib.import_module("toolrail.redaction").clean_said)
    # Names in it come from outside, and must not steer the terminal.
    return "".join(map(_visible, clean(text)))


def _visible(char: str) -> str:
    if char.isprintable() or char == "\n":
        return char
    return char.encode("unicode_escape").decode("ascii")
