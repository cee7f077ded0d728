"""What a type checker knows about the client; never run.

Is: one line per promise of a type. Is not: a test that pytest collects. Above: `make check`, whose
two type checkers read it. Below: `toolrail`.
"""

from collections.abc import AsyncIterator
from typing import assert_type

from pydantic import JsonValue

import toolrail
from toolrail import (
    CallRequest,
    Run,
    Settings,
    Ticket,
    Tool,
    ToolContext,
    ToolOutput,
    Toolrail,
    tool,
)
from toolrail.ledger import RunEnd
from toolrail.providers import Anthropic, Conversation, Turn
from toolrail.sync import Run as BlockingRun
from toolrail.sync import Toolrail as BlockingToolrail
from toolrail_schemas import JournalEvent, ToolResult, ToolSpec, UnknownEvent


async def asynchronous() -> None:
    """The async client."""
    assert_type(toolrail.connect(), Toolrail)
    async with Toolrail(Settings()) as rail:
        run = await rail.open_run(profile="reader")
        assert_type(run, Run)
        assert_type(await run.tools(), list[ToolSpec])
        request = CallRequest(id="c1", name="a.b", arguments='{"x": 1}')
        ticket = await run.dispatch(request)
        assert_type(ticket, Ticket)
        assert_type(await run.wait(ticket, timeout_s=1), ToolResult)
        assert_type(await run.result(ticket), ToolResult | None)
        assert_type(await run.call("a.b", {"x": 1}, id="c2"), ToolResult)
        assert_type(await run.call_many([request]), list[ToolResult])
        assert_type(run.events(), AsyncIterator[JournalEvent | UnknownEvent])
        assert_type(await run.complete(), RunEnd)


async def five_lines(run: Run, response: dict[str, JsonValue]) -> None:
    """From a model's answer to governed results."""
    chat = Conversation(Anthropic(), run_id=run.id)
    assert_type(chat.tools(await run.tools()), list[dict[str, JsonValue]])
    turn = chat.decode(response)
    assert_type(turn, Turn)
    results = await run.call_many(turn.requests)
    assert_type(chat.encode(turn, results), list[dict[str, JsonValue]])


def blocking() -> None:
    """The same, without an event loop."""
    with BlockingToolrail(Settings()) as rail:
        run = rail.open_run(profile="reader")
        assert_type(run, BlockingRun)
        assert_type(run.call("a.b", id="c1"), ToolResult)
        assert_type(run.call_many([]), list[ToolResult])


@tool("demo.plain", read_only=True)
def plain(text: str) -> str:
    """Say it."""
    return text


@tool("demo.told", read_only=True)
async def told(context: ToolContext, times: int = 1) -> ToolOutput:
    """Say it with the context."""
    return ToolOutput.text(context.call_id * times)


assert_type(plain, Tool)
assert_type(told, Tool)
