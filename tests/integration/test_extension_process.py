"""The dice extension as a process of its own: killed, paused, started twice, told to stop."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.extension_bench import DiceProcess, ExtensionBench, extension_bench
from tests.waiting import await_until
from toolrail.settings import Settings
from toolrail.tools import ToolError, ToolOutput

QUICK = ("--heartbeat-s=0.1", "--dead-after-s=1")
StartDice = Callable[..., DiceProcess]


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[ExtensionBench]:
    """Give a started executor."""
    async with extension_bench(settings) as bench:
        yield bench


@pytest.fixture
def start(settings: Settings) -> Iterator[StartDice]:
    """Start processes that are gone after the test."""
    started: list[DiceProcess] = []

    def start(*options: str) -> DiceProcess:
        started.append(DiceProcess(settings, *options))
        return started[-1]

    yield start
    for dice in started:
        dice.end()


async def ready(bench: ExtensionBench, dice: DiceProcess) -> None:
    """Return when the worker can call the extension."""
    await dice.wait_ready()
    await bench.wait_available()


async def code_of(task: "asyncio.Task[ToolOutput]") -> str:
    """Return the code a call failed with."""
    with pytest.raises(ToolError) as error:
        await task
    return error.value.code


async def test_a_killed_extension_fails_its_calls_and_comes_back(
    bench: ExtensionBench, start: StartDice
) -> None:
    """By what is known of each; the tools stay listed, and the next process has its own session."""
    first = start(*QUICK)
    await ready(bench, first)
    acting = bench.start(bench.call("ext.dice.throw_far"))
    seeing = bench.start(bench.call("ext.dice.ponder"))
    await bench.wait_begun(2)
    queued = bench.start(bench.call("ext.dice.roll"))
    await bench.wait_asked(3)
    first.signal(signal.SIGKILL)
    codes = [await code_of(task) for task in (acting, seeing, queued)]
    await bench.wait_available(available=False)
    owner = bench.owner()
    second = start(*QUICK, "--version=2.0")
    await ready(bench, second)
    output = await bench.run("ext.dice.roll", {"seed": 1})

    assert codes == ["tool.outcome_unknown", "extension.unavailable", "extension.unavailable"]
    assert owner is not None
    assert len(owner.specs) == 3
    assert not output.is_error
    ref = bench.spec("ext.dice.roll").source_ref
    assert ref is not None
    assert ref.version == "2.0"


async def test_a_successor_waits_for_a_dead_predecessor(
    bench: ExtensionBench, start: StartDice
) -> None:
    """A supervisor restarts it at once, while the old session has not yet run out."""
    first = start("--heartbeat-s=0.2", "--dead-after-s=2")
    await ready(bench, first)
    first.signal(signal.SIGKILL)
    second = start(*QUICK, "--patience-s=20")
    await second.wait_ready()

    assert not (await bench.run("ext.dice.roll")).is_error


@pytest.mark.one_redis
async def test_a_second_process_of_one_name_ends_with_a_clear_error(
    bench: ExtensionBench, start: StartDice
) -> None:
    """At once, or, when it was told to wait, as soon as the first is seen alive."""
    first = start(*QUICK)
    await ready(bench, first)
    impatient, patient = start(*QUICK), start(*QUICK, "--patience-s=60")
    endings = [await dice.wait() for dice in (impatient, patient)]
    output = await bench.run("ext.dice.roll")

    for code, printed in endings:
        assert code == 1
        assert f"connected already, by process {first.process.pid} on" in printed
    assert not output.is_error


async def test_sigterm_says_goodbye_at_once(bench: ExtensionBench, start: StartDice) -> None:
    """Its session could live on for 45 s; nobody has to wait for that."""
    first = start()
    await ready(bench, first)
    first.signal(signal.SIGTERM)
    code, printed = await first.wait()
    await bench.wait_available(available=False)
    second = start()
    await ready(bench, second)

    assert code == 0
    assert "extension.connected" in printed
    assert "WARNING" not in printed


async def test_sigterm_lets_a_running_call_answer(bench: ExtensionBench, start: StartDice) -> None:
    """And takes no new one meanwhile."""
    dice = start()
    await ready(bench, dice)
    running = bench.start(bench.call("ext.dice.ponder", {"seconds": 0.5}))
    await bench.wait_begun(1)
    dice.signal(signal.SIGTERM)
    await bench.wait_available(available=False)
    refused = bench.start(bench.call("ext.dice.roll"))

    assert await code_of(refused) == "extension.unavailable"
    assert not (await running).is_error
    assert (await dice.wait())[0] == 0


async def test_a_paused_extension_is_dead_and_comes_back_with_a_new_session(
    bench: ExtensionBench, start: StartDice
) -> None:
    """A laptop that slept: what it still held is not answered for any more."""
    dice = start(*QUICK)
    await ready(bench, dice)
    before = (await bench.bridge.view()).presences[0].session
    task = bench.start(bench.call("ext.dice.throw_far"))
    await bench.wait_begun(1)
    dice.signal(signal.SIGSTOP)
    code = await code_of(task)
    dice.signal(signal.SIGCONT)

    async def has_new_session() -> bool:
        return (await bench.bridge.view()).presences[0].session not in ("", before)

    await await_until(has_new_session, "a new session")
    await bench.wait_available()
    output = await bench.run("ext.dice.roll")

    assert code == "tool.outcome_unknown"
    assert not output.is_error
