"""Give a builtin executor with a team's tools, and calls for it.

Is: fixtures and makers. Is not: a test. Above: `test_builtin_executor.py`,
`test_builtin_executor_stops.py`. Below: `team_tools.py`.
"""

import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.component import team_tools
from toolrail.discovery import discover_tools
from toolrail.output import ToolOutput
from toolrail.tools import ToolContext
from toolrail_schemas import (
    Caller,
    JsonObject,
    Source,
    TextBlock,
)
from toolrail_workers.builtin.executor import BuiltinExecutor, BuiltinLimits
from toolrail_workers.executor import ClaimedCall

RUN_ID = "run_01JDXZ0000000000000000000A"


class MemoryStore:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    async def put_blob(self, data: bytes, mime: str) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return sha256


def claimed(name: str, arguments: JsonObject, *, timeout_s: float = 20.0) -> ClaimedCall:
    return ClaimedCall(
        run_id=RUN_ID,
        call_key="0123456789abcdef",
        call_id="call-1",
        tool=name,
        source=Source.BUILTIN,
        spec_hash="",
        arguments=arguments,
        attempt=1,
        fence=1,
        caller=Caller.ASSISTANT,
        tenant="t",
        profile="p",
        turn=0,
        timeout_s=timeout_s,
        max_output_bytes=1024 * 1024,
        max_output_tokens=8_000,
        policy_hash="",
        client="c",
    )


def context_of(call: ClaimedCall) -> ToolContext:
    return ToolContext(
        run_id=call.run_id,
        call_key=call.call_key,
        call_id=call.call_id,
        tool=call.tool,
        attempt=call.attempt,
        fence=call.fence,
        caller=call.caller,
        tenant=call.tenant,
        deadline=time.monotonic() + call.timeout_s,
    )


@pytest.fixture
async def executor(tmp_path: Path) -> AsyncIterator[BuiltinExecutor]:
    """An executor of our tools and the team's, started."""
    team_tools.STARTED.clear()
    team_tools.RELEASED.clear()
    found = discover_tools(modules=["tests.component.team_tools"])
    made = BuiltinExecutor(
        found=found,
        workspace_root=tmp_path / "workspaces",
        limits=BuiltinLimits(threads=2, children=1),
    )
    await made.start(lambda: None)
    yield made
    team_tools.RELEASED.set()
    await made.stop()


async def run(
    executor: BuiltinExecutor, name: str, arguments: JsonObject, *, timeout_s: float = 20.0
) -> ToolOutput:
    call = claimed(name, arguments, timeout_s=timeout_s)
    return await executor.execute(call, context_of(call))


def text_of(output: ToolOutput) -> str:
    block = output.content[0]
    assert isinstance(block, TextBlock)
    return block.text
