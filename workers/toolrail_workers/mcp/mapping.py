"""Turn what an MCP server answered, or how it failed, into a tool's output or error.

Is: the one place that knows how MCP results and errors read on our side (mcp.md 5).
Is not: retries or deadlines (`execute.py`), or single blocks (`blocks.py`).
Above: `executor.py`. Below: `blocks.py`.
"""

import json
from collections.abc import Sequence

from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    ContentBlock,
    TextContent,
)
from pydantic import JsonValue

from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_schemas import (
    Block,
    ErrorClass,
    TextBlock,
    ToolSpec,
    error_info,
)
from toolrail_workers.mcp.blocks import BlockMapper, json_block

ERROR_CHARS = 1_500
"""Of a server's own words in an error; the whole text has a limit of 2000."""


async def to_output(result: CallToolResult, *, server: str, context: ToolContext) -> ToolOutput:
    """Return the output a result stands for, whole; the worker checks its schema and cuts it.

    Raises:
        ToolError: `tool.invalid_output`, mislabelled media; `tool.output_too_large`.
    """
    if result.is_error:
        return _error_output(result.content)
    mapper = BlockMapper(server=server, run_id=context.run_id, store=context.store)
    structured: JsonValue = result.structured_content
    blocks: list[Block] = []
    for block in result.content:
        if structured is None or not _repeats(block, structured):
            blocks += await mapper.map(block)
    if structured is not None and blocks:
        # Alone it needs no block: the worker shows it when there is nothing else to show.
        blocks.insert(0, json_block(structured))
    return ToolOutput(content=tuple(blocks), structured=structured)


def to_error(error: Exception, *, server: str, spec: ToolSpec) -> ToolError:
    """Return the recoverable error for a call that got no result.

    Args:
        error: What the SDK raised after the request may have left.
        server: The server's id.
        spec: Of the called tool; says whether the call may safely be made again.
    """
    if isinstance(error, MCPError):
        return _from_protocol(error, server=server, spec=spec)
    # A result the SDK could not read, though the tap had cleaned it: the tool did run.
    return ToolError(
        "mcp.protocol_error",
        f"The MCP server {server!r} answered in a form that cannot be understood. "
        "The tool may have done its work.",
        next_action="Check whether the effect happened before you do anything again.",
    )


def needs_input(server: str) -> ToolError:
    """Return the error for a server that asks back instead of answering."""
    return ToolError(
        "tool.mcp_error",
        f"The MCP server {server!r} asked for further input, which is not offered to it.",
        next_action="Give everything the tool needs in its arguments, or use another tool.",
    )


def unavailable(server: str, *, sent: bool = False) -> ToolError:
    """Return the error for a server that is not there.

    Args:
        server: Its id.
        sent: Whether the call had reached it, which only a safely repeatable one may admit.
    """
    what = "went away during the call" if sent else "is not running now; the call was not made"
    return ToolError(
        "mcp.server_unavailable",
        f"The MCP server {server!r} {what}.",
        next_action="Try again later, or continue without it.",
    )


def busy(server: str) -> ToolError:
    """Return the error for a call that waited its whole time for others of its server."""
    return ToolError(
        "mcp.server_unavailable",
        f"The MCP server {server!r} was busy with other calls; this one was not made.",
        next_action="Try again later, with fewer calls at once.",
    )


def _from_protocol(error: MCPError, *, server: str, spec: ToolSpec) -> ToolError:
    if error.code == CONNECTION_CLOSED:
        if spec.annotations.retry_safe:
            return unavailable(server, sent=True)
        return _unknown(f"The MCP server {server!r} went away during the call")
    if error.code == REQUEST_TIMEOUT:
        if spec.annotations.retry_safe:
            return ToolError("tool.timeout", error_info("tool.timeout").sentence)
        return _unknown(f"The MCP server {server!r} did not answer in time and was told to stop")
    said = error.message[:ERROR_CHARS]
    if error.code == INVALID_PARAMS:
        return ToolError(
            "tool.invalid_arguments",
            f"The MCP server {server!r} refused the call: {said}",
            next_action="Correct the arguments and call again.",
        )
    if error.code == METHOD_NOT_FOUND:
        said = "it does not offer tools"
    return ToolError(
        "mcp.protocol_error",
        f"The MCP server {server!r} answered with an error ({error.code}): {said}",
        next_action="Try again once; then continue without it.",
    )


def _unknown(what: str) -> ToolError:
    return ToolError(
        "tool.outcome_unknown",
        f"{what}. The tool may or may not have done its work.",
        next_action="Check whether the effect happened before you do anything again.",
    )


def _error_output(content: Sequence[ContentBlock]) -> ToolOutput:
    """Return an error in the server's words, then ours on what to do."""
    info = error_info("tool.mcp_error")
    texts = [block.text for block in content if isinstance(block, TextContent) and block.text]
    said = "\n".join(texts)[:ERROR_CHARS] or info.sentence
    return ToolOutput(
        content=(TextBlock(text=f"{said}\n\n{info.remedy}"),),
        is_error=True,
        error_code=info.code,
        error_class=ErrorClass.RECOVERABLE,
    )


def _repeats(block: ContentBlock, structured: JsonValue) -> bool:
    """Tell whether a text block only says the structured result again."""
    if not isinstance(block, TextContent) or block.meta:
        return False
    if structured == {"result": block.text}:
        return True
    try:
        return bool(json.loads(block.text) == structured)
    except (ValueError, RecursionError):
        return False
