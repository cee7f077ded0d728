"""Turn a server's configuration into the exact process to start.

Is: its environment (an allowlist, never ours whole) and its resolved `${NAME}` references.
Is not: starting it (`process.py`) or reading variables (`toolrail.settings` does).
Above: `server.py`. Below: `config.py`, `toolrail.settings`.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from toolrail.errors import ToolrailError
from toolrail.redaction import know
from toolrail.settings import safe_environment
from toolrail_workers.mcp.config import REFERENCE, ServerConfig, may_be_secret
from toolrail_workers.mcp.stdio import StdioCommand


class CannotStart(ToolrailError):
    """The MCP server cannot be started as it is configured. Correct its entry in the file."""

    code = "mcp.cannot_start"


def resolve_command(config: ServerConfig) -> StdioCommand:
    """Return what to start, from the configuration and this process's allowed variables.

    Raises:
        CannotStart: A variable it refers to is not set, or its folder does not exist.
    """
    return command_for(config, safe_environment(config.options.env_passthrough))


def command_for(config: ServerConfig, inherited: Mapping[str, str]) -> StdioCommand:
    """Return what to start when these are the variables the server may have.

    Raises:
        CannotStart: A variable it refers to is not set, or its folder does not exist.
    """
    expand = _expander(inherited)
    cwd = None if config.cwd is None else Path(expand(config.cwd))
    if cwd is not None and not cwd.is_dir():
        raise CannotStart(f"Its folder {cwd} does not exist. Create it or correct cwd.")
    own = {name: expand(value) for name, value in config.env.items()}
    passed = {name: inherited[name] for name in config.options.env_passthrough if name in inherited}
    # Before the server can say anything, so that nothing it says is written down with them.
    know(value for name, value in {**passed, **own}.items() if may_be_secret(name, value))
    return StdioCommand(
        command=expand(config.command),
        args=tuple(expand(argument) for argument in config.args),
        environment={**inherited, **own},
        cwd=cwd,
    )


def explain_start_failure(error: OSError, command: str) -> str:
    """Return what an operator has to do about a command that could not be started."""
    match error:
        case FileNotFoundError():
            return (
                f"The command {command!r} was not found. Install it, or give its full path; "
                "the server's PATH is that of the worker unless its env says otherwise."
            )
        case PermissionError():
            return f"The command {command!r} may not be executed. Make it executable."
        case _:
            return f"The command {command!r} could not be started: {error.strerror}."


def _expander(variables: Mapping[str, str]) -> Callable[[str], str]:
    def value_of(reference: re.Match[str]) -> str:
        name = reference.group(1)
        if name not in variables:
            raise CannotStart(f"It refers to ${{{name}}}, which is not set. Set it for the worker.")
        return variables[name]

    return lambda text: REFERENCE.sub(value_of, text)
