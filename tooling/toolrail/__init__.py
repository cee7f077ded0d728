"""Everything an agent service and a tool author import.

Is: the public names, each loaded when it is first used, so that a tool's child process does not
pay for the client and `toolrail --help` not for Redis. Is not: code that runs tools
(`toolrail_workers`). Above: agent services, tool authors. Below: the modules that define the names.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolrail.client import Toolrail
    from toolrail.connecting import connect
    from toolrail.request import CallRequest, Ticket
    from toolrail.run import Run
    from toolrail.settings import Settings
    from toolrail.tool import Tool, ToolContext, ToolError, ToolOutput, tool

__all__ = [
    "CallRequest",
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
    "Run": "toolrail.run",
    "Settings": "toolrail.settings",
    "Ticket": "toolrail.request",
    "Tool": "toolrail.tool",
    "ToolContext": "toolrail.tool",
    "ToolError": "toolrail.tool",
    "ToolOutput": "toolrail.tool",
    "Toolrail": "toolrail.client",
    "connect": "toolrail.connecting",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'toolrail' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """This package; its name `tool` is the decorator, whatever was imported before.

    The submodule has the same name, and whoever imports it would put it in the decorator's place.
    """

    @property
    def tool(self) -> object:
        """The decorator."""
        decorator: object = import_module("toolrail.tool").tool
        return decorator

    @tool.setter
    def tool(self, submodule: object) -> None:
        """Let the import system think that it has set the submodule."""


sys.modules[__name__].__class__ = _Package
