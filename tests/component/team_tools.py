"""Tools as a team would write them, for every isolation.

Is: a module that children import by name. Is not: part of the product.
Above: `test_builtin_executor.py`. Below: `toolrail.tools`.
"""

import asyncio
import os
import threading
from pathlib import Path

from pydantic import BaseModel

from toolrail.tools import (
    Isolation,
    Rollback,
    SystemFailure,
    Tool,
    ToolContext,
    ToolError,
    ToolOutput,
    tool,
)
from toolrail_schemas import EventType

STARTED = threading.Event()
"""Set by `team.hang` and `team.stubborn` once they run, for tests in this process."""
RELEASED = threading.Event()
"""Lets `team.stubborn` return."""


class Sum(BaseModel):
    """What `team.add` answers."""

    total: int


@tool("team.add", read_only=True)
def add(a: int, b: int = 1) -> Sum:
    """Add two numbers."""
    return Sum(total=a + b)


@tool("team.where", read_only=True)
def where(context: ToolContext) -> dict[str, str]:
    """Tell what a child process sees."""
    context.report_progress(0.5, "half")
    return {
        "pid": str(os.getpid()),
        "call_key": context.call_key,
        "attempt": str(context.attempt),
        "workspace": str(context.workspace),
        "secret": os.environ.get("TOOLRAIL_SECRET", "none"),  # noqa: TID251  # what leaks is asked
    }


@tool("team.long", read_only=True)
def long(size: int) -> str:
    """Answer with much text."""
    return '"\n' * (size // 2)


@tool("team.event", destructive=False, open_world=False, rollback=Rollback.NONE)
def event() -> ToolOutput:
    """Answer with an event."""
    return ToolOutput(
        content=ToolOutput.text("done").content,
        events=((EventType.WORKSPACE_FILE_WRITTEN, {"path": "output/x"}),),
    )


@tool("team.refer", read_only=True)
def refer(ref: str) -> ToolOutput:
    """Answer with a reference."""
    return ToolOutput(resource_refs=(ref,))


@tool("team.refer_loop", read_only=True)
async def refer_loop(ref: str) -> ToolOutput:
    """Answer with a reference, and say that something was written."""
    return ToolOutput(
        resource_refs=(ref,), events=((EventType.WORKSPACE_FILE_WRITTEN, {"path": "output/x"}),)
    )


@tool("team.fail_process", read_only=True)
def fail_process(kind: str) -> str:
    """Fail in a child."""
    return _fail(kind)


@tool("team.fail_thread", read_only=True, isolation=Isolation.THREAD)
def fail_thread(kind: str) -> str:
    """Fail in a thread."""
    return _fail(kind)


@tool("team.fail_loop", read_only=True)
async def fail_loop(kind: str) -> str:
    """Fail on the loop."""
    return _fail(kind)


def _fail(kind: str) -> str:
    match kind:
        case "tool":
            raise ToolError(
                "team.no_luck", "no luck", next_action="Try later.", structured={"n": 1}
            )
        case "system":
            raise SystemFailure("workspace.io_failed", "the disk is gone")
        case "odd":
            raise KeyError("needle-in-words")
        case _:
            return "fine"


@tool("team.hang", read_only=True)
def hang(marker: str) -> str:
    """Never end."""
    Path(marker).write_text(str(os.getpid()))
    threading.Event().wait()
    return "never"


@tool("team.doze", read_only=True)
async def doze(context: ToolContext) -> str:
    """Wait on the loop, without an end."""
    STARTED.set()
    await asyncio.Event().wait()
    return context.call_key


@tool("team.stubborn", read_only=True, isolation=Isolation.THREAD)
def stubborn() -> str:
    """Block a thread and never look up."""
    STARTED.set()
    RELEASED.wait()
    return "late"


@tool("team.copy", destructive=False, rollback=Rollback.NONE, isolation=Isolation.THREAD)
def copy(source: str, target: str, context: ToolContext) -> str:
    """Copy a file of the workspace."""
    if context.workspace is None or context.session is None:
        raise RuntimeError("a thread tool has a workspace")
    content = context.workspace.read_bytes(source)
    return context.workspace.write_bytes(
        target, content, expected_sha256=context.session.version_of(target)
    )


@tool("team.store", read_only=True, isolation=Isolation.THREAD)
def store(text: str, context: ToolContext) -> str:
    """Store a text as a blob, from a thread."""
    context.report_progress(1.0, "stored")
    return context.keep(text.encode(), "text/plain") if context.keep else "nowhere"


TOOLS: tuple[Tool, ...] = (
    add,
    where,
    long,
    event,
    refer,
    refer_loop,
    fail_process,
    fail_thread,
    fail_loop,
    hang,
    doze,
    stubborn,
    copy,
    store,
)
