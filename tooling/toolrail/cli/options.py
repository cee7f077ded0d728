"""What every command shares: the global options and how a command ends.

Is: plain data, and the error of a wrong command line. Is not: settings; `start.py` combines both.
Above: every command. Below: `toolrail.errors`.
"""

from dataclasses import dataclass
from typing import Literal

from toolrail.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class GlobalOptions:
    """Options that stand before the command: `toolrail --debug journal RUN`."""

    is_debugging: bool = False
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    log_format: Literal["text", "json"] | None = None


class UsageError(ConfigError):
    """The command line is wrong. Read the command's --help.

    Attributes:
        key: The option, as it is typed, or the argument as the help names it.
    """

    code = "config.usage"


class CommandExit(Exception):
    """A command ends with this exit code, having said what there is to say. Control flow."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
