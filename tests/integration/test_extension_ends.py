"""Sessions that end in every way: what their calls are told, and that nothing is made twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.extension_bench import (
    ExtensionBench,
    RawExtension,
    answer,
    extension_bench,
    failure,
    text_of,
)
from tests.extensions.dice import create_dice
from tests.servers import StartRedis
from tests.waiting import await_until
from toolrail.extension.bridge import Asked, CallId
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail.tools import ToolError, ToolOutput
from toolrail_schemas import ExecuteCall, ExtensionTool, HintedAnnotations

SEEING = ExtensionTool(
    name="see", description="See it.", annotations=HintedAnnotations(read_only=True)
)
DOING = ExtensionTool(name="do", description="Do it.")


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[ExtensionBench]:
    """Give a started executor."""
    async with extension_bench(settings) as bench:
        yield bench


@pytest.fixture
async def raw(bench: ExtensionBench) -> RawExtension:
    """Give a connected session that a test answers for."""
    raw = RawExtension(bench)
    await raw.open(DOING, SEEING)
    await bench.wait_available("raw")
    return raw


@pytest.mark.parametrize(
    ("tool", "begins", "code", "words"),
    [
        ("do", False, "extension.unavailable", "the call was not made"),
        ("see", False, "extension.unavailable", "the call was not made"),
        ("do", True, "tool.outcome_unknown", "may or may not"),
        ("see", True, "extension.unavailable", "went away during the call"),
    ],
)
async def test_a_session_that_dies_mid_call_says_what_is_known(
    raw: RawExtension, tool: str, begins: bool, code: str, words: str
) -> None:
    """Not made, when its function never started; unknown, when it had effects and did start."""
    task = raw.bench.start(raw.bench.call(f"ext.raw.{tool}"))
    message, fields = await raw.next_call()
    if begins:
        assert await raw.begin(message, fields) > 0
    await command(raw.bench.redis, "DEL", raw.bench.bridge.keys.extension_session("raw"))
    error = await failure(task)

    assert (error.code, words in error.message) == (code, True)
    assert await raw.begin(message, fields) == 0


async def test_an_answer_given_right_before_the_end_is_still_taken(raw: RawExtension) -> None:
    """It is in the stream before anyone can see that the session has ended."""
    for _ in range(20):
        task = raw.bench.start(raw.bench.call("ext.raw.do"))
        message, fields = await raw.next_call()
        await raw.begin(message, fields)
        await raw.reply(message, answer(message))
        await raw.bench.bridge.close("raw", raw.hello.nonce)
        output = await task
        await raw.open(DOING, SEEING)
        await raw.bench.wait_available("raw")

        assert text_of(output) == "done"


async def test_a_session_cannot_be_answered_for_after_its_end(raw: RawExtension) -> None:
    """Its nonce opens nothing any more, and no other step of it has an effect."""
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, fields = await raw.next_call()
    await raw.bench.bridge.close("raw", raw.hello.nonce)
    await failure(task)

    assert not await raw.reply(message, answer(message))
    assert await raw.begin(message, fields) == 0
    assert not await raw.bench.bridge.beat(raw.hello)


async def test_every_step_may_be_repeated_after_a_lost_reply(raw: RawExtension) -> None:
    """The second time changes nothing and answers the same."""
    bridge, message = raw.bench.bridge, _message()
    call = CallId.of(message)
    opened = [await raw.open(DOING, SEEING) for _ in range(2)]
    asked = [await bridge.ask("raw", raw.hello.nonce, message, worker="w9") for _ in range(2)]
    sent = await raw.read()
    left = [await raw.begin(message, sent[0]) for _ in range(2)]
    withdrawn = [await bridge.withdraw("raw", raw.hello.nonce, call) for _ in range(2)]

    assert opened == [None, None]
    assert asked == [Asked.ASKED] * 2
    assert len(sent) == 1
    assert all(seconds > 0 for seconds in left)
    assert withdrawn == [True, None]


async def test_a_call_is_asked_of_the_session_it_was_meant_for_only(raw: RawExtension) -> None:
    """A repeated ask must not run a call again in the session that came after."""
    bridge = raw.bench.bridge
    await bridge.close("raw", raw.hello.nonce)
    after = RawExtension(raw.bench, nonce="m" * 24)
    await after.open()

    assert await bridge.ask("raw", raw.hello.nonce, _message(), worker="w9") is Asked.UNAVAILABLE
    assert await after.read() == []


def _message() -> ExecuteCall:
    far = 4_000_000_000_000
    return ExecuteCall(call_key="a" * 16, tool="do", arguments={}, deadline=far, attempt=1)


async def test_calls_of_a_dead_worker_free_their_places(raw: RawExtension) -> None:
    """They count until their deadline and not longer."""
    bridge, past = raw.bench.bridge, 1_000
    for number in range(40):
        message = _message().model_copy(update={"call_key": f"{number:016x}", "deadline": past})
        assert await bridge.ask("raw", raw.hello.nonce, message, worker="dead") is Asked.ASKED
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    found = [fields for fields in await raw.read() if fields.get("worker") == "dead"]
    message, _ = await raw.next_call()
    await raw.reply(message, answer(message))

    assert text_of(await task) == "done"
    assert len(found) == 40


async def test_calls_survive_every_connection_being_cut(bench: ExtensionBench) -> None:
    """Worker and extension come back by themselves; no call is lost, none is made twice."""
    dice = create_dice(bench.settings, heartbeat_s=0.1, dead_after_s=5)
    made: list[int] = []

    @dice.tool
    async def note(number: int) -> str:
        """Note a number."""
        made.append(number)
        return str(number)

    async with bench.serving(dice):
        tasks: list[asyncio.Task[ToolOutput]] = []
        for number in range(30):
            tasks.append(bench.start(bench.call("ext.dice.note", {"number": number})))
            if number % 5 == 0:
                await command(bench.redis, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        outputs = await asyncio.gather(*tasks, return_exceptions=True)

    answered = [int(text_of(output)) for output in outputs if isinstance(output, ToolOutput)]
    failed = {error.code for error in outputs if isinstance(error, ToolError)}
    assert len(made) == len(set(made))
    assert set(answered) <= set(made)
    assert failed <= {"extension.unavailable", "tool.outcome_unknown"}
    assert len(answered) >= 25


@pytest.mark.parametrize(
    ("tool", "code"), [("do", "tool.outcome_unknown"), ("see", "extension.unavailable")]
)
async def test_a_call_that_redis_went_away_under_ends_by_what_is_known(
    settings: Settings, start_redis: StartRedis, tool: str, code: str
) -> None:
    """Whether it was taken, nobody can ask; the worker does not wait for ever."""
    server = start_redis()
    quick = settings.model_copy(update={"redis_url": server.url, "redis_timeout_s": 0.3})
    async with extension_bench(quick) as bench:
        raw = RawExtension(bench)
        await raw.open(DOING, SEEING)
        await bench.wait_available("raw")
        call = bench.call(f"ext.raw.{tool}")
        server.stop()
        error = await failure(bench.start(call))

    assert error.code == code


async def test_an_extension_comes_back_when_redis_forgot_it(bench: ExtensionBench) -> None:
    """An embedded Redis that was restarted is empty; the next heartbeat registers anew."""
    dice = create_dice(bench.settings, heartbeat_s=0.05, dead_after_s=5)
    async with bench.serving(dice):
        first = (await bench.bridge.view()).presences[0].session
        await command(bench.redis, "FLUSHDB")

        async def is_back() -> bool:
            view = await bench.bridge.view()
            return bool(view.presences) and view.presences[0].session not in ("", first)

        await await_until(is_back, "a new session")
        await await_until(lambda: _runs(bench), "a call to work")


async def _runs(bench: ExtensionBench) -> bool:
    if not bench.is_available():
        return False
    try:
        return not (await bench.run("ext.dice.roll")).is_error
    except ToolError:
        return False
