"""Calls of an extension that keeps the rules: answers, limits, cancels, coming and going."""

import asyncio
import threading
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.extension_bench import ExtensionBench, extension_bench
from tests.extensions.dice import create_dice
from tests.waiting import await_until
from toolrail.errors import ConfigError, ExtensionNameTaken
from toolrail.extension import Extension
from toolrail.settings import Settings
from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_schemas import JsonBlock, Permission, SideEffect, TextBlock
from toolrail_workers.extension.directory import NOT_CONNECTED


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[ExtensionBench]:
    """Give a started executor."""
    async with extension_bench(settings) as bench:
        yield bench


def make(bench: ExtensionBench, name: str = "demo", *, concurrency: int = 2) -> Extension:
    """Return an extension without tools."""
    return Extension(name, version="1", settings=bench.settings, concurrency=concurrency)


def texts(output: ToolOutput) -> list[str]:
    """Return the texts of an output."""
    return [block.text for block in output.content if isinstance(block, TextBlock)]


async def test_a_call_comes_back_with_what_the_function_returned(bench: ExtensionBench) -> None:
    """A model as structured output, by the output schema that its annotation gave."""
    async with bench.serving(create_dice(bench.settings)):
        first = await bench.run("ext.dice.roll", {"count": 3, "seed": 7})
        again = await bench.run("ext.dice.roll", {"count": 3, "seed": 7})

    assert isinstance(first.structured, dict)
    assert sorted(first.structured) == ["dice", "total"]
    assert first.structured == again.structured
    assert not first.is_error


async def test_its_tools_are_listed_with_no_rights_of_their_own(bench: ExtensionBench) -> None:
    """Whatever an extension says of itself: untrusted, external, with approval."""
    async with bench.serving(create_dice(bench.settings)):
        spec = bench.spec("ext.dice.roll")

    assert spec.permission is Permission.APPROVAL_REQUIRED
    assert spec.annotations.side_effect is SideEffect.EXTERNAL
    assert (spec.annotations.trusted, spec.annotations.read_only) == (False, False)
    assert spec.title == "Roll dice"
    assert spec.source_ref is not None
    assert (spec.source_ref.extension, spec.source_ref.version) == ("dice", "1.0")
    assert bench.spec("ext.dice.throw_far").budget.timeout_ms == 60_000
    assert spec.budget.timeout_ms is None


async def test_text_json_and_errors_arrive_as_they_were_said(bench: ExtensionBench) -> None:
    """A long text in several blocks, which join to what it was."""
    demo = make(bench)
    long = "\n".join(f"line {number}" for number in range(20_000))

    @demo.tool
    def tell(what: str) -> object:
        """Answer by the word."""
        if what == "fail":
            raise ToolError("demo.bad", "No such thing.", next_action="Ask for text.")
        if what == "crash":
            raise RuntimeError("a secret of the author")
        return {"text": "short", "long": long, "json": {"a": [1, None]}, "none": None}[what]

    async with bench.serving(demo):
        outputs = {
            what: await bench.run("ext.demo.tell", {"what": what})
            for what in ("text", "long", "json", "none", "fail", "crash")
        }

    assert texts(outputs["text"]) == ["short"]
    assert "\n".join(texts(outputs["long"])) == long
    assert outputs["json"].content == (JsonBlock(value={"a": [1, None]}),)
    assert outputs["none"].content == ()
    assert texts(outputs["fail"]) == ["No such thing. Ask for text."]
    assert [outputs[what].is_error for what in ("none", "fail", "crash")] == [False, True, True]
    assert "secret" not in texts(outputs["crash"])[0]


async def test_a_function_sees_its_call(bench: ExtensionBench) -> None:
    """The key for its own idempotency, and how long it has; nothing of the run."""
    demo = make(bench)

    @demo.tool
    async def look(context: ToolContext) -> str:
        """Say what there is."""
        return f"{context.call_key} {context.attempt} {context.run_id!r} {context.remaining_s < 20}"

    async with bench.serving(demo):
        call = bench.call("ext.demo.look")
        output = await bench.execute(call)

    assert texts(output) == [f"{call.call_key} 1 '' True"]


async def test_two_calls_run_at_once_and_the_others_wait(bench: ExtensionBench) -> None:
    """Thirty-two may wait; the next is told at once that it was not made."""
    demo, gate, most = make(bench), asyncio.Event(), 0

    @demo.tool
    async def work() -> str:
        """Work until let go."""
        nonlocal most
        most = max(most, await bench.begun("demo"))
        await gate.wait()
        return "done"

    async with bench.serving(demo):
        tasks = [bench.start(bench.call("ext.demo.work")) for _ in range(34)]
        await bench.wait_begun(2, "demo")
        await bench.wait_asked(34, "demo")
        with pytest.raises(ToolError, match="busy with other calls; it was not made") as full:
            await bench.run("ext.demo.work")
        gate.set()
        outputs = await asyncio.gather(*tasks)

    assert full.value.code == "extension.overloaded"
    assert [texts(output) for output in outputs] == [["done"]] * 34
    assert most == 2


async def test_a_call_that_never_got_its_turn_was_not_made(bench: ExtensionBench) -> None:
    """Its time is over while others work: it is safe to call again, and it never starts later."""
    demo, gate, started = make(bench, concurrency=1), asyncio.Event(), list[str]()

    @demo.tool
    async def work(name: str) -> str:
        """Work until let go."""
        started.append(name)
        await gate.wait()
        return name

    async with bench.serving(demo):
        first = bench.start(bench.call("ext.demo.work", {"name": "first"}))
        await bench.wait_begun(1, "demo")
        with pytest.raises(ToolError) as late:
            await bench.execute(bench.call("ext.demo.work", {"name": "second"}, timeout_s=0.3))
        gate.set()
        await first
        third = await bench.run("ext.demo.work", {"name": "third"})

    assert late.value.code == "extension.overloaded"
    assert texts(third) == ["third"]
    assert started == ["first", "third"]


async def test_an_async_function_is_stopped_at_its_deadline(bench: ExtensionBench) -> None:
    """The worker gives up, tells it, and the slot is free again."""
    demo, ends = make(bench, concurrency=1), list[str]()

    @demo.tool
    async def work(forever: bool) -> str:
        """Work."""
        try:
            await asyncio.sleep(600 if forever else 0)
        except asyncio.CancelledError:
            ends.append("stopped")
            raise
        return "done"

    async with bench.serving(demo):
        with pytest.raises(ToolError, match="told to stop") as slow:
            await bench.execute(bench.call("ext.demo.work", {"forever": True}, timeout_s=0.3))
        output = await bench.run("ext.demo.work", {"forever": False})

    assert slow.value.code == "tool.timeout"
    assert ends == ["stopped"]
    assert texts(output) == ["done"]


async def test_a_cancelled_call_is_stopped_in_the_extension(bench: ExtensionBench) -> None:
    """The worker's cancellation reaches the function before the executor lets it through."""
    demo, stopped = make(bench), asyncio.Event()

    @demo.tool
    async def work() -> str:
        """Work until stopped."""
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return ""

    async with bench.serving(demo):
        task = bench.start(bench.call("ext.demo.work"))
        await bench.wait_begun(1, "demo")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await await_until(stopped.is_set, "the function to stop")

    assert await bench.begun("demo") == 0


async def test_a_blocking_function_is_told_and_its_late_answer_is_counted(
    bench: ExtensionBench,
) -> None:
    """A thread cannot be killed: it keeps its slot, and what it says in the end is discarded."""
    demo, entered, told = make(bench), threading.Event(), threading.Event()

    @demo.tool
    def work(context: ToolContext) -> str:
        """Work until told to stop."""
        entered.set()
        assert context.stopped is not None
        while not context.stopped():
            told.wait(0.005)
        return "too late"

    async with bench.serving(demo):
        task = bench.start(bench.call("ext.demo.work"))
        await await_until(entered.is_set, "the function")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await await_until(lambda: bench.executor.counts.late == 1, "the late answer")

    assert bench.executor.counts.conflicting == 0


async def test_the_same_name_is_served_once(bench: ExtensionBench) -> None:
    """The second is told who has the name; the first goes on."""
    async with bench.serving(create_dice(bench.settings)):
        with pytest.raises(ExtensionNameTaken, match=r"connected already, by process \d+ on "):
            await create_dice(bench.settings, version="2.0").serve()
        output = await bench.run("ext.dice.roll")

        ref = bench.spec("ext.dice.roll").source_ref

    assert not output.is_error
    assert ref is not None
    assert ref.version == "1.0"


def _nothing() -> None:
    """Nothing."""


async def test_a_goodbye_is_heard_at_once_and_the_tools_stay_listed(bench: ExtensionBench) -> None:
    """Without waiting for a heartbeat to be missed, and a call is told that it was not made."""
    dice = create_dice(bench.settings)
    async with bench.serving(dice) as served:
        dice.stop()
        await served
        await await_until(
            lambda: (owner := bench.owner()) and owner.reason == NOT_CONNECTED, "the goodbye"
        )
    owner = bench.owner()

    assert owner is not None
    assert [spec.name for spec in owner.specs] == [
        "ext.dice.roll",
        "ext.dice.throw_far",
        "ext.dice.ponder",
    ]
    with pytest.raises(ToolError, match="the call was not made") as gone:
        await bench.run("ext.dice.roll")
    assert gone.value.code == "extension.unavailable"


async def test_running_calls_are_answered_before_the_goodbye(bench: ExtensionBench) -> None:
    """New ones are refused meanwhile, queued ones were not made."""
    demo, gate = make(bench, concurrency=1), asyncio.Event()

    @demo.tool
    async def work() -> str:
        """Work until let go."""
        await gate.wait()
        return "done"

    async with bench.serving(demo):
        running = bench.start(bench.call("ext.demo.work"))
        await bench.wait_begun(1, "demo")
        queued = bench.start(bench.call("ext.demo.work"))
        await bench.wait_asked(2, "demo")
        demo.stop()
        await bench.wait_available("demo", available=False)
        owner = bench.owner("demo")
        with pytest.raises(ToolError) as refused:
            await bench.run("ext.demo.work")
        gate.set()
        output = await running
        with pytest.raises(ToolError, match="was not made"):
            await queued

    assert texts(output) == ["done"]
    assert refused.value.code == "extension.unavailable"
    assert owner is not None
    assert owner.reason == "The extension is shutting down."


async def test_a_new_registration_replaces_the_set(bench: ExtensionBench) -> None:
    """A tool that is gone is not found; one that changed is not run on an old decision."""
    async with bench.serving(create_dice(bench.settings)):
        old = bench.call("ext.dice.roll")
    fewer = Extension("dice", version="2", settings=bench.settings)

    @fewer.tool
    def roll() -> str:
        """Roll one die."""
        return "6"

    async with bench.serving(fewer):
        with pytest.raises(ToolError) as changed:
            await bench.execute(old)
        output = await bench.run("ext.dice.roll")
        owner = bench.owner()

    assert changed.value.code == "tool.spec_changed"
    assert texts(output) == ["6"]
    assert owner is not None
    assert [spec.name for spec in owner.specs] == ["ext.dice.roll"]


async def test_a_tool_nobody_registered_is_unavailable(bench: ExtensionBench) -> None:
    """Also when its extension is connected: a removed tool's calls end so."""
    async with bench.serving(create_dice(bench.settings)):
        call = replace(bench.call("ext.dice.roll"), tool="ext.dice.gone")
        with pytest.raises(ToolError) as gone:
            await bench.execute(call)

    assert gone.value.code == "extension.unavailable"


async def test_more_than_thirty_two_tools_register_none(bench: ExtensionBench) -> None:
    """All or none."""
    demo = make(bench)
    for number in range(33):
        demo.tool(f"t{number}")(_nothing)
    with pytest.raises(ConfigError, match="at most 32"):
        await demo.serve()

    assert (await bench.bridge.view()).presences == ()


async def test_every_worker_knows_every_extension(bench: ExtensionBench) -> None:
    """And each gets its own answers."""
    async with (
        extension_bench(bench.settings, worker="w2") as other,
        bench.serving(create_dice(bench.settings)),
    ):
        await other.wait_available()
        outputs = await asyncio.gather(
            *(each.run("ext.dice.roll", {"seed": 1}) for each in (bench, other) * 5)
        )

    assert len({str(output.structured) for output in outputs}) == 1
    assert (bench.executor.counts.late, other.executor.counts.late) == (0, 0)
