"""Extensions that break the rules or go away: what the caller is told, and what is kept out."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from tests.extension_bench import ExtensionBench, RawExtension, extension_bench
from tests.extensions.dice import create_dice
from tests.waiting import await_until
from toolrail.errors import ExtensionClosed
from toolrail.extension.bridge import Asked, CallId
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail.tool import ToolError, ToolOutput
from toolrail_schemas import ExecuteCall, ExtensionTool, HintedAnnotations, TextBlock

SEEING = ExtensionTool(
    name="see", description="See it.", annotations=HintedAnnotations(read_only=True)
)
SHAPED = ExtensionTool(name="shape", description="Shape it.", output_schema={"type": "object"})
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
    await raw.open(DOING, SEEING, SHAPED)
    await bench.wait_available("raw")
    return raw


def answer(message: ExecuteCall, **fields: object) -> str:
    """Return an answer, lawful unless the fields say otherwise."""
    plain: dict[str, object] = {
        "type": "call.reply",
        "call_key": message.call_key,
        "attempt": message.attempt,
        "content": [{"kind": "text", "text": "done"}],
    }
    return json.dumps({**plain, **fields})


def text_of(output: ToolOutput) -> str:
    """Return the first text of an output."""
    block = output.content[0]
    assert isinstance(block, TextBlock)
    return block.text


async def failure(task: "asyncio.Task[ToolOutput]") -> ToolError:
    """Return the error a call ended with."""
    with pytest.raises(ToolError) as error:
        await task
    return error.value


BAD_ANSWERS: dict[str, tuple[dict[str, object] | str, str, str]] = {
    "bare string": ('"done"', "tool.invalid_output", "a bare string instead"),
    "string content": ({"content": "done"}, "tool.invalid_output", "a bare string instead"),
    "string block": ({"content": ["done"]}, "tool.invalid_output", "a bare string among"),
    "not json": ("{", "tool.invalid_output", "not JSON"),
    "list": ("[]", "tool.invalid_output", "a bare list"),
    "deep": ("[" * 5000, "tool.invalid_output", "not JSON"),
    "nested": ({"structured": json.loads("[" * 400 + "]" * 400)}, "tool.invalid_output", ""),
    "unknown field": ({"journal": []}, "tool.invalid_output", "journal: extra_forbidden"),
    "inline image": (
        {"content": [{"kind": "image", "data": "aGk=", "mime": "image/png"}]},
        "tool.invalid_output",
        "an inline image",
    ),
    "foreign ref": (
        {"content": [{"kind": "resource_ref", "uri": "workspace:output/a.md"}]},
        "tool.invalid_output",
        "no refs",
    ),
    "other call": ({"call_key": "f" * 16}, "tool.invalid_output", "for another call"),
    "other attempt": ({"attempt": 2}, "tool.invalid_output", "for another call"),
    "large text": (
        {"content": [{"kind": "text", "text": "ä" * 40_000}]},
        "tool.output_too_large",
        "a block of more",
    ),
    "large json": (
        {"content": [{"kind": "json", "value": ["a" * 70_000]}]},
        "tool.output_too_large",
        "a block of more",
    ),
    "many blocks": (
        {"content": [{"kind": "text", "text": "a"}] * 33},
        "tool.output_too_large",
        "33 blocks",
    ),
    "large structured": ({"structured": "a" * 300_000}, "tool.output_too_large", "structured"),
    "huge": (json.dumps("a" * 3_000_000), "tool.output_too_large", "may be stored"),
}


@pytest.mark.parametrize("name", sorted(BAD_ANSWERS))
async def test_an_answer_out_of_form_or_bounds_fails_its_call(raw: RawExtension, name: str) -> None:
    """By a code that says which, in words for a model; the session goes on."""
    said, code, words = BAD_ANSWERS[name]
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, fields = await raw.next_call()
    assert await raw.begin(message, fields) > 0
    await raw.reply(message, said if isinstance(said, str) else answer(message, **said))
    error = await failure(task)

    assert error.code == code
    assert words in error.message
    assert raw.bench.is_available("raw")


async def test_a_promised_form_must_be_kept_except_by_errors(raw: RawExtension) -> None:
    """`structured` is demanded where an output schema stands, and a null is an answer."""
    outputs: list[ToolOutput | ToolError] = []
    for extra in ({}, {"structured": None}, {"structured": {"a": 1}}, {"is_error": True}):
        task = raw.bench.start(raw.bench.call("ext.raw.shape"))
        message, _ = await raw.next_call()
        await raw.reply(message, answer(message, **extra))
        try:
            outputs.append(await task)
        except ToolError as error:
            outputs.append(error)

    without, null, given, failed = outputs
    assert isinstance(without, ToolError)
    assert (without.code, "`structured`" in without.message) == ("tool.invalid_output", True)
    assert isinstance(null, ToolOutput)
    assert isinstance(given, ToolOutput)
    assert given.structured == {"a": 1}
    assert isinstance(failed, ToolOutput)
    assert (failed.is_error, failed.error_code) == (True, "tool.execution_failed")


async def test_an_answer_sent_twice_counts_once(raw: RawExtension) -> None:
    """An extension whose reply was lost says the same again."""
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, _ = await raw.next_call()
    for _ in range(3):
        await raw.reply(message, answer(message))
    output = await task
    await await_until(lambda: raw.bench.executor.counts.duplicate == 2, "both others")

    assert text_of(output) == "done"
    assert raw.bench.is_available("raw")


async def test_two_different_answers_fail_the_call_and_close_the_session(
    raw: RawExtension,
) -> None:
    """Which of them is true, nobody can say; the extension is told why."""
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, _ = await raw.next_call()
    # One step, so that both are there before the call can go on.
    pipe = raw.bench.redis.pipeline(transaction=True)
    for text in (answer(message), answer(message, is_error=True)):
        pipe.xadd(
            raw.bench.bridge.keys.extension_replies("w1"),
            {
                "extension": "raw",
                "session": raw.hello.nonce,
                "call": str(CallId.of(message)),
                "message": text,
            },
        )
    pipe.expire(raw.bench.bridge.keys.extension_replies("w1"), 60)
    await pipe.execute()
    error = await failure(task)
    await raw.bench.wait_available("raw", available=False)
    closed = [fields for fields in await raw.read() if "closed" in fields]

    assert error.code == "tool.invalid_output"
    assert "twice" in error.message
    assert "answered twice" in closed[0]["closed"]
    assert not await raw.bench.bridge.beat(raw.hello)


async def test_a_conflict_after_the_fact_closes_the_session_with_its_other_calls(
    raw: RawExtension,
) -> None:
    """The first answer stands; a call still at work has an unknown outcome."""
    first = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, _ = await raw.next_call()
    await raw.reply(message, answer(message))
    output = await first
    second = raw.bench.start(raw.bench.call("ext.raw.do"))
    other, fields = await raw.next_call()
    await raw.begin(other, fields)
    await raw.reply(message, answer(message, is_error=True))
    error = await failure(second)

    assert text_of(output) == "done"
    assert error.code == "tool.outcome_unknown"
    assert raw.bench.executor.counts.conflicting == 1


async def test_the_client_of_a_closed_session_is_told_why(bench: ExtensionBench) -> None:
    """It ends with the reason instead of coming back with the same fault."""
    async with bench.serving(create_dice(bench.settings)) as served:
        view = await bench.bridge.view()
        await bench.bridge.close("dice", view.presences[0].session, reason="It cheated.")
        with pytest.raises(ExtensionClosed, match="It cheated"):
            await served


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
        await raw.open(DOING, SEEING, SHAPED)
        await raw.bench.wait_available("raw")

        assert text_of(output) == "done"


async def test_a_late_answer_is_counted_and_changes_nothing(raw: RawExtension) -> None:
    """The call has ended by its time; what comes later is discarded."""
    task = raw.bench.start(raw.bench.call("ext.raw.do", timeout_s=0.3))
    message, fields = await raw.next_call()
    await raw.begin(message, fields)
    error = await failure(task)
    await raw.reply(message, answer(message))
    await await_until(lambda: raw.bench.executor.counts.late == 1, "the late answer")
    [cancel] = await raw.read()

    assert error.code == "tool.timeout"
    assert json.loads(cancel["message"])["type"] == "call.cancel"


async def test_nobody_answers_for_another(raw: RawExtension) -> None:
    """An answer counts only from the session that was asked; strays are dropped."""
    evil = RawExtension(raw.bench, name="evil", nonce="e" * 24)
    await evil.open()
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, _ = await raw.next_call()
    await evil.reply(message, answer(message, content=[{"kind": "text", "text": "forged"}]))
    stream = raw.bench.bridge.keys.extension_replies("w1")
    await command(raw.bench.redis, "XADD", stream, "*", "call", "nonsense")
    await command(raw.bench.redis, "XADD", stream, "*", "call", "a.b", "extension", "raw")
    await await_until(lambda: raw.bench.executor.counts.late == 1, "the forged one")
    await raw.reply(message, answer(message))

    assert text_of(await task) == "done"


async def test_bytes_that_are_no_text_do_not_stop_the_worker(raw: RawExtension) -> None:
    """They are stepped over; at worst the answers that stood beside them are lost."""
    stream = raw.bench.bridge.keys.extension_replies("w1")
    await command(raw.bench.redis, "XADD", stream, "*", "call", b"\xff\xfe")

    async def is_gone() -> bool:
        return await command(raw.bench.redis, "EXISTS", stream) == 0

    await await_until(is_gone, "the stream to be dropped")
    task = raw.bench.start(raw.bench.call("ext.raw.do"))
    message, _ = await raw.next_call()
    await raw.reply(message, answer(message))

    assert text_of(await task) == "done"


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
    opened = [await raw.open(DOING, SEEING, SHAPED) for _ in range(2)]
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


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("protocol", "2", "another protocol version"),
        ("tools", '{"type": "tools.register", "tools": [{"name": "a"}]}', "breaks the rules"),
        ("tools", "no json", "breaks the rules"),
        ("version", "", "breaks the rules"),
    ],
)
async def test_a_registration_that_cannot_be_read_is_listed_with_its_reason(
    raw: RawExtension, field: str, value: str, words: str
) -> None:
    """None of its tools is taken, and nothing else suffers."""
    key = raw.bench.bridge.keys.extension("raw")
    await command(raw.bench.redis, "HSET", key, field, value, "digest", "changed")
    await raw.bench.wait_available("raw", available=False)
    owner = raw.bench.owner("raw")

    assert owner is not None
    assert owner.specs == ()
    assert words in str(owner.reason)


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
    try:
        return not (await bench.run("ext.dice.roll")).is_error
    except ToolError:
        return False
