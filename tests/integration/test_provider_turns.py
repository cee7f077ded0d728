"""Five lines from a model's answer to governed results, on a real cell, for every provider.

Is: decode, `call_many`, encode with a real Redis and worker. Is not: formats in detail
(`tests/unit/test_provider_*.py`). Above: nothing. Below: `toolrail.providers`, `tests/cells.py`.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.providers.answers import SPEAKERS, Asked, Speaker
from toolrail import Settings
from toolrail.providers import Conversation
from toolrail_schemas import ToolResult

pytestmark = pytest.mark.one_redis


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client."""
    policy_dir = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": policy_dir})) as cell:
        yield cell


@pytest.mark.parametrize("speaker", SPEAKERS, ids=lambda speaker: speaker.name)
async def test_five_lines_answer_every_call_of_a_turn(cell: Cell, speaker: Speaker) -> None:
    """A good call, text that is no JSON, arguments that do not fit, and a tool nobody has."""
    asked = [
        Asked({"text": "hello"}, id="c1", name="demo__echo"),
        Asked('{"text": "cut', id="c2", name="demo__echo"),
        Asked({"text": 7}, id="c3", name="demo__echo"),
        Asked({}, id="c4", name="make_coffee"),
    ]
    run = await opened(cell)
    async with serve(cell):
        chat = Conversation(speaker.provider, run_id=run.id)
        tools = chat.tools(await run.tools())
        turn = chat.decode(speaker.answer(asked, "calls"))
        results = await run.call_many(turn.requests, timeout_s=10)
        messages = chat.encode(turn, results)

    assert "demo__echo" in json.dumps(tools)
    assert [result.error_code for result in results] == [
        None,
        "tool.invalid_arguments",
        "tool.invalid_arguments",
        "tool.not_found",
    ]
    speaker.judge(messages)
    said = json.dumps(messages)
    for words in ("hello", "not JSON", "do not fit", "make_coffee"):
        assert words in said


async def test_the_same_answer_is_dispatched_once(cell: Cell) -> None:
    """A service that dies after dispatching decodes it again: the same ids, the same results."""
    speaker = SPEAKERS[0]
    answer = speaker.answer([Asked({"text": "once"}, name="demo__echo")], "calls")
    run = await opened(cell)
    async with serve(cell):
        kept: list[ToolResult] = []
        for _ in range(2):
            chat = Conversation(speaker.provider, run_id=run.id)
            chat.tools(await run.tools())
            kept += await run.call_many(chat.decode(answer).requests, timeout_s=10)
    kinds = [str(event.type) for event in await run.journal()]

    assert kept[0] == kept[1]
    assert kinds.count("tool_call_started") == 1
