"""The calls of one session: slots, cancels, and one answer each, over a line that only notes."""

import asyncio
import itertools
import json
import logging
from collections.abc import Mapping

import pytest
from pydantic import JsonValue

from tests.waiting import await_until
from toolrail.extension import Extension
from toolrail.extension.answer import failure, reply_of
from toolrail.extension.bridge import CallId
from toolrail.extension.calls import ANSWERS_MAX, ANSWERS_MAX_CHARS, Answers, Calls, Order
from toolrail.settings import Settings
from toolrail.tools import Tool, ToolContext, ToolOutput
from toolrail_schemas import (
    CallReply,
    ExecuteCall,
    FileRefBlock,
    JsonBlock,
    TextBlock,
    artifact_ref,
)

NUMBERS = itertools.count(1)
CALL = CallId("0" * 16, 1)


class NotingLine:
    """Takes answers, and lets every call begin unless told otherwise."""

    def __init__(self) -> None:
        self.left_s = 10.0
        self.begun: list[str] = []
        self.replies: list[tuple[str, str, str]] = []

    async def begin(self, call: CallId, entry: str) -> float:
        """Note the call."""
        self.begun.append(str(call))
        return self.left_s

    async def reply(self, call: CallId, worker: str, message: str) -> None:
        """Note the answer."""
        self.replies.append((str(call), worker, message))


@pytest.fixture
def line() -> NotingLine:
    return NotingLine()


def demo() -> Extension:
    """Return an extension without tools."""
    return Extension("demo", version="1", settings=Settings())


def calls_of(line: NotingLine, *tools: Tool, concurrency: int = 2) -> Calls:
    """Return calls of these tools."""
    table = {tool.spec.name.removeprefix("ext.demo."): tool for tool in tools}
    return Calls(table, line, concurrency=concurrency)


def order(
    tool: str, arguments: Mapping[str, JsonValue] | None = None, *, worker: str = "w"
) -> Order:
    """Return a new call."""
    message = ExecuteCall(
        call_key=f"{next(NUMBERS):016x}",
        tool=tool,
        arguments=dict(arguments or {}),
        deadline=1,
        attempt=1,
    )
    return Order(message=message, worker=worker, entry="1-0")


def said(message: str) -> str:
    """Return the first text of an answer."""
    block = CallReply.model_validate_json(message).content[0]
    assert isinstance(block, TextBlock)
    return block.text


async def settled(calls: Calls) -> None:
    """Return when no call is left."""
    await calls.finish(5)


async def test_a_call_asked_twice_runs_once_and_is_answered_again(line: NotingLine) -> None:
    """While it runs the second asking is ignored; afterwards the same answer goes out again."""
    runs, gate, extension = 0, asyncio.Event(), demo()

    @extension.tool
    async def work() -> str:
        """Work."""
        nonlocal runs
        runs += 1
        await gate.wait()
        return f"run {runs}"

    calls, asked = calls_of(line, work), order("work")
    calls.execute(asked)
    await await_until(lambda: runs == 1, "the function")
    calls.execute(asked)
    gate.set()
    await await_until(lambda: len(line.replies) == 1, "the answer")
    calls.execute(asked)
    await await_until(lambda: len(line.replies) == 2, "the answer again")

    assert line.replies[0] == line.replies[1]
    assert (runs, len(line.begun)) == (1, 1)


async def test_a_withdrawn_call_never_starts(line: NotingLine) -> None:
    """Whoever asked has given up, and was told that it was not made."""
    extension, runs = demo(), list[int]()

    @extension.tool
    async def work() -> None:
        """Work."""
        runs.append(1)

    calls = calls_of(line, work)
    line.left_s = 0
    calls.execute(order("work"))
    await await_until(lambda: len(line.begun) == 1, "the question")
    await settled(calls)

    assert (runs, line.replies) == ([], [])


async def test_a_queued_call_that_is_cancelled_is_forgotten(line: NotingLine) -> None:
    """Its slot goes to the next one."""
    extension, gate, seen = demo(), asyncio.Event(), list[str]()

    @extension.tool
    async def work(name: str) -> None:
        """Work."""
        seen.append(name)
        await gate.wait()

    calls = calls_of(line, work, concurrency=1)
    orders = [order("work", {"name": name}) for name in "abc"]
    for asked in orders:
        calls.execute(asked)
    calls.cancel(CallId.of(orders[1].message))
    calls.cancel(CallId("f" * 16, 1))
    gate.set()
    await await_until(lambda: len(line.replies) == 2, "two answers")

    assert seen == ["a", "c"]


async def test_a_call_cancelled_in_its_first_moment_gives_its_slot_back(line: NotingLine) -> None:
    """Also before its task took a single step."""
    extension = demo()

    @extension.tool
    async def work() -> str:
        """Work."""
        return "done"

    calls, first = calls_of(line, work, concurrency=1), order("work")
    calls.execute(first)
    calls.cancel(CallId.of(first.message))
    calls.execute(order("work"))
    await await_until(lambda: len(line.replies) == 1, "the second answer")

    assert said(line.replies[0][2]) == "done"


async def test_a_goodbye_begins_nothing_new_and_cuts_what_does_not_end(line: NotingLine) -> None:
    """An async function is stopped, a blocking one is told, queued ones are dropped."""
    extension, ended, entered = demo(), list[str](), asyncio.Event()

    @extension.tool
    async def work() -> None:
        """Work for ever."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stopped")

    calls = calls_of(line, work, concurrency=1)
    calls.execute(order("work"))
    await entered.wait()
    calls.execute(order("work"))
    await calls.finish(0)
    calls.execute(order("work"))

    assert ended == ["stopped"]
    assert (line.replies, len(line.begun)) == ([], 1)


async def test_whatever_a_function_raises_ends_its_call_only(
    line: NotingLine, caplog: pytest.LogCaptureFixture
) -> None:
    """Its words may be secrets: nobody gets them; the extension's log has the type and place."""
    extension = demo()

    @extension.tool
    def leave() -> None:
        """Leave."""
        raise SystemExit(3)

    @extension.tool
    def halt() -> None:
        """Halt."""
        raise StopIteration

    @extension.tool
    async def wait() -> None:
        """Wait."""
        raise TimeoutError("the author's own")

    calls = calls_of(line, leave, halt, wait)
    for name in ("leave", "halt", "wait", "absent"):
        calls.execute(order(name))
    with caplog.at_level(logging.ERROR):
        await await_until(lambda: len(line.replies) == 4, "four answers")

    words = {said(message) for _, _, message in line.replies}
    assert words == {
        "The tool failed unexpectedly. Its extension's log says why.",
        "This extension has no tool 'absent'.",
    }
    assert "the author's own" not in caplog.text
    told = [vars(record) for record in caplog.records]
    assert {fields["raised"] for fields in told} == {"RuntimeError", "TimeoutError"}
    assert any(frame.endswith(" wait") for fields in told for frame in fields["frames"])


async def test_arguments_are_checked_before_the_function_runs(line: NotingLine) -> None:
    """Strictly, and told by name."""
    extension, runs = demo(), list[int]()

    @extension.tool
    def work(count: int) -> None:
        """Work."""
        runs.append(count)

    calls = calls_of(line, work)
    calls.execute(order("work", {"count": "three"}))
    await await_until(lambda: len(line.replies) == 1, "the answer")

    assert "count: " in said(line.replies[0][2])
    assert runs == []


async def test_a_function_that_ends_too_late_is_not_answered_for(line: NotingLine) -> None:
    """The worker has given up already."""
    extension, ended = demo(), asyncio.Event()

    @extension.tool
    async def work(context: ToolContext) -> None:
        """Work for ever."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    line.left_s = 0.01
    calls = calls_of(line, work)
    calls.execute(order("work"))
    await ended.wait()
    await settled(calls)

    assert line.replies == []


def test_the_memory_of_answers_is_bounded_in_number_and_size() -> None:
    """The oldest are forgotten first."""
    many, large = Answers(), Answers()
    ids = [CallId(f"{number:016x}", 1) for number in range(ANSWERS_MAX + 1)]
    for call in ids:
        many.keep(call, "a")
    for call in ids[:3]:
        large.keep(call, "a" * (ANSWERS_MAX_CHARS // 2))

    assert [many.get(ids[0]), many.get(ids[1]), many.get(ids[-1])] == [None, "a", "a"]
    assert large.get(ids[0]) is None
    assert large.get(ids[2]) is not None


def test_an_answer_that_no_message_can_carry_becomes_an_error_in_words() -> None:
    """The author and the model read what was wrong; nothing is sent that the worker refuses."""
    ref = FileRefBlock(
        ref=artifact_ref("run_01J00000000000000000000000", "a"), path="a", bytes=1, sha256="0" * 64
    )
    outputs = {
        "file_ref": ToolOutput(content=(ref,)),
        "limit is": ToolOutput.json(["a" * 70_000]),
        "valid Unicode": ToolOutput(content=(TextBlock.model_construct(text="\ud800"),)),
        "at most 32": ToolOutput(content=(TextBlock(text="a"),) * 33),
    }
    for words, output in outputs.items():
        reply = CallReply.model_validate_json(reply_of(CALL, output))

        assert reply.is_error
        assert words in said(reply.model_dump_json())


def test_a_structured_answer_is_said_once() -> None:
    """The JSON block that repeats it would only have less room."""
    rows: list[JsonValue] = ["a" * 1000 for _ in range(100)]
    value: JsonValue = {"rows": rows}
    output = ToolOutput(content=(JsonBlock.model_construct(value=value),), structured=value)
    reply = json.loads(reply_of(CALL, output))
    plain = json.loads(reply_of(CALL, ToolOutput.text("a")))

    assert (reply["content"], reply["structured"], reply["is_error"]) == ([], value, False)
    assert "structured" not in plain


@pytest.mark.parametrize("character", ["a", "ä", "𝄞"])
def test_a_long_text_is_cut_between_characters(character: str) -> None:
    """Whatever their width, nothing is lost."""
    text = "x" + character * 70_000
    reply = CallReply.model_validate_json(reply_of(CALL, ToolOutput.text(text)))

    assert "".join(b.text for b in reply.content if isinstance(b, TextBlock)) == text
    assert len(reply.content) > 1


def test_repair_data_that_no_message_can_carry_is_left_out() -> None:
    """The words are worth more than nothing."""
    whole = json.loads(failure(CALL, "Bad.", structured={"line": 3}))
    without = json.loads(failure(CALL, "Bad \ud800.", structured={"a": "a" * 300_000}))

    assert whole["structured"] == {"line": 3}
    assert "structured" not in without
    assert said(json.dumps(without)) == "Bad ?."
