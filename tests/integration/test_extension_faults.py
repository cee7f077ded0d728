"""Extensions that break the rules: what the caller is told, and what is kept out."""

import json
import os
import signal
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
from toolrail.errors import ExtensionClosed
from toolrail.extension.bridge import CallId
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail.tools import ToolError, ToolOutput
from toolrail_schemas import ExtensionTool, HintedAnnotations

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


async def test_an_answer_outlasts_a_redis_that_is_away(
    settings: Settings, start_redis: StartRedis, caplog: pytest.LogCaptureFixture
) -> None:
    """The function ends during an outage that is longer than any patience with one reply."""
    server = start_redis()
    own = settings.model_copy(update={"redis_url": server.url, "redis_timeout_s": 0.2})
    async with extension_bench(own) as bench, bench.serving(create_dice(own)):
        task = bench.start(bench.call("ext.dice.ponder", {"seconds": 0.2}, timeout_s=5.0))
        await bench.wait_begun()
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await await_until(
                lambda: {"extension.redis_away", "extension.call_lost"} & {*caplog.messages},
                "the answer finds no Redis",
            )
        finally:
            os.kill(server.pid, signal.SIGCONT)

        assert text_of(await task) == "six"


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
