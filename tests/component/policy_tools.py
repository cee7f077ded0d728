"""Tools that the tests of `toolrail policy` install by module name.

Is: two small tools. Is not: collected by pytest. Above: `test_policy_cli.py`.
Below: `toolrail.tools`.
"""

from toolrail.tools import Rollback, tool


@tool("notes.read", read_only=True, destructive=False)
async def read_note(name: str) -> str:
    """Read a note."""
    return name


@tool("notes.wipe", destructive=True, rollback=Rollback.NONE)
async def wipe_notes() -> None:
    """Delete every note."""


TOOLS = (read_note, wipe_notes)
