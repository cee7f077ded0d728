"""Everything an agent service and a tool author import.

Is: the public names, each loaded when it is first used, so that a tool's child process does not
pay for the client and `toolrail --help` not for Redis. Is not: code that runs tools
(`toolrail_workers`). Above: agent services, tool authors. Below: the modules that define the names.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrail.client import Toolrail
    from toolrail.connecting import connect
    from toolrail.extension import Extension
    from toolrail.request import CallRequest, Ticket
    from toolrail.run import Run
    from toolrail.settings import Settings
    from toolrail.tools import Tool, ToolContext, ToolError, ToolOutput, tool

__all__ = [
    "CallRequest",
    "Extension",
    "Run",
    "Settings",
    "Ticket",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "Toolrail",
    "connect",
    "tool",
]

_HOME = {
    "CallRequest": "toolrail.request",
    "Extension": "toolrail.extension",
    "Run": "toolrail.run",
    "Settings": "toolrail.settings",
    "Ticket": "toolrail.request",
    "Tool": "toolrail.tools",
    "ToolContext": "toolrail.tools",
    "ToolError": "toolrail.tools",
    "ToolOutput": "toolrail.tools",
    "Toolrail": "toolrail.client",
    "connect": "toolrail.connecting",
    "tool": "toolrail.tools",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'toolrail' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value
