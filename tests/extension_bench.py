"""An extension worker's executor, extensions, and extensions that break the rules.

Is: what tests of the bridge put together; every part is the real one. Is not: a double. Above:
integration tests of extensions. Below: `toolrail.extension`, `toolrail_workers.extension`.
"""

import asyncio
import itertools
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest
from pydantic import JsonValue
from redis.asyncio import Redis

from tests.sources import ROOT
from tests.waiting import await_until
from toolrail.extension import Extension
from toolrail.extension.bridge import Bridge, CallId, SessionTerms, Taken
from toolrail.metrics.registry import ProcessRegistry
from toolrail.redis_io import command, connect, xread
from toolrail.settings import Settings, own_environment
from toolrail.supervisor.ready import is_ready_line
from toolrail.tasks import end_task
from toolrail.tools import ToolContext, ToolError, ToolOutput
from toolrail_schemas import (
    Caller,
    ExecuteCall,
    ExtensionHello,
    ExtensionTool,
    RegisterTools,
    Source,
    TextBlock,
    ToolSpec,
)
from toolrail_workers.executor import ClaimedCall, OwnerSpecs
from toolrail_workers.extension.executor import ExtensionExecutor

RUN_ID = "run_01J00000000000000000000000"
CALL_KEYS = (f"{number:016x}" for number in itertools.count(1))


@dataclass
class ExtensionBench:
    """One worker's executor, and what is needed to bring extensions to it."""

    settings: Settings
    redis: Redis
    bridge: Bridge
    executor: ExtensionExecutor
    registry: ProcessRegistry = field(default_factory=ProcessRegistry)
    changes: int = 0

    def owner(self, name: str = "dice") -> OwnerSpecs | None:
        """Return an extension as the worker would announce it."""
        return next((owner for owner in self.executor.owners() if owner.owner == name), None)

    def is_available(self, name: str = "dice") -> bool:
        """Whether the worker holds the extension to be connected."""
        owner = self.owner(name)
        return owner is not None and owner.available

    async def wait_available(self, name: str = "dice", *, available: bool = True) -> None:
        """Return when the worker has heard of it."""
        await await_until(
            lambda: self.is_available(name) == available, f"{name} available={available}"
        )

    def spec(self, tool: str) -> ToolSpec:
        """Return the spec of a listed tool."""
        specs = [spec for owner in self.executor.owners() for spec in owner.specs]
        return next(spec for spec in specs if spec.name == tool)

    def call(
        self, tool: str, arguments: Mapping[str, JsonValue] | None = None, **changes: object
    ) -> ClaimedCall:
        """Return a claimed call of a listed tool."""
        fields: dict[str, object] = {
            "run_id": RUN_ID,
            "call_key": next(CALL_KEYS),
            "call_id": "c1",
            "tool": tool,
            "source": Source.EXTENSION,
            "spec_hash": self.spec(tool).spec_hash,
            "arguments": dict(arguments or {}),
            "attempt": 1,
            "fence": 1,
            "caller": Caller.ASSISTANT,
            "tenant": "t",
            "profile": "p",
            "turn": 0,
            "timeout_s": 20.0,
            "max_output_bytes": 1_048_576,
            "max_output_tokens": 4000,
            "policy_hash": "0" * 64,
            "client": "client1",
            **changes,
        }
        return ClaimedCall(**fields)  # type: ignore[arg-type]  # tests name real attributes

    async def execute(self, call: ClaimedCall) -> ToolOutput:
        """Run a call as `execute.py` does."""
        context = ToolContext(run_id=call.run_id, call_key=call.call_key)
        return await self.executor.execute(call, context)

    async def run(self, tool: str, arguments: Mapping[str, JsonValue] | None = None) -> ToolOutput:
        """Run a call of a tool."""
        return await self.execute(self.call(tool, arguments))

    def start(self, call: ClaimedCall) -> "asyncio.Task[ToolOutput]":
        """Run a call beside the test."""
        return asyncio.get_running_loop().create_task(self.execute(call))

    async def begun(self, name: str = "dice") -> int:
        """Return how many functions are at work."""
        key = f"{await self._session_key(name)}:begun"
        return cast("int", await command(self.redis, "SCARD", key))

    async def asked(self, name: str = "dice") -> int:
        """Return how many calls the extension has to answer."""
        key = f"{await self._session_key(name)}:asked"
        return cast("int", await command(self.redis, "ZCARD", key))

    async def _session_key(self, name: str) -> str:
        view = await self.bridge.view()
        session = next((p.session for p in view.presences if p.extension == name), "")
        return f"{self.bridge.keys.extension(name)}:{session}"

    async def wait_begun(self, calls: int = 1, name: str = "dice") -> None:
        """Return when so many functions are at work."""

        async def enough() -> bool:
            return await self.begun(name) == calls

        await await_until(enough, f"{calls} calls begun")

    async def wait_asked(self, calls: int, name: str = "dice") -> None:
        """Return when the extension has so many calls to answer."""

        async def enough() -> bool:
            return await self.asked(name) == calls

        await await_until(enough, f"{calls} calls asked")

    @asynccontextmanager
    async def serving(self, extension: Extension) -> AsyncGenerator["asyncio.Task[None]"]:
        """Serve an extension in this process, and know of it."""
        task = asyncio.get_running_loop().create_task(extension.serve())
        try:
            await await_until(
                lambda: task.done() or self.is_available(extension.name), "the extension"
            )
            if task.done():
                await task
            yield task
        finally:
            extension.stop()
            await asyncio.wait({task}, timeout=10)
            await end_task(task)


@asynccontextmanager
async def extension_bench(
    settings: Settings, *, worker: str = "w1", poll_s: float = 0.05
) -> AsyncGenerator[ExtensionBench]:
    """Give a started executor."""
    redis = connect(settings.redis_url, timeout_s=5, name="bench")
    bridge = Bridge(redis, prefix=settings.key_prefix, deadline_s=5)
    registry = ProcessRegistry()
    executor = ExtensionExecutor(redis, settings, worker=worker, poll_s=poll_s, registry=registry)
    bench = ExtensionBench(
        settings=settings, redis=redis, bridge=bridge, executor=executor, registry=registry
    )

    def note() -> None:
        bench.changes += 1

    async with AsyncExitStack() as closing:
        closing.push_async_callback(redis.aclose)
        closing.push_async_callback(executor.stop)
        await executor.start(note)
        yield bench


class RawExtension:
    """A session by hand, which may answer whatever the test likes."""

    def __init__(self, bench: ExtensionBench, *, name: str = "raw", nonce: str = "n" * 24) -> None:
        self.bench = bench
        self.hello = ExtensionHello(extension_id=name, version="1", nonce=nonce)
        self._last = "0-0"

    async def open(
        self, *tools: ExtensionTool, concurrency: int = 2, dead_after_s: float = 60
    ) -> Taken | None:
        """Open the session; its stream begins anew, perhaps within the same millisecond."""
        self._last = "0-0"
        terms = SessionTerms(holder="a test", concurrency=concurrency, dead_after_s=dead_after_s)
        offered = tools or (ExtensionTool(name="do", description="Do it."),)
        return await self.bench.bridge.open(self.hello, RegisterTools(tools=offered), terms)

    async def read(self) -> list[dict[str, str]]:
        """Return the messages that came since the last time, with their entry ids as `entry`."""
        stream = self.bench.bridge.keys.extension_calls(self.hello.extension_id, self.hello.nonce)
        entries = await xread(self.bench.redis, {stream: self._last}, count=100, block_ms=None)
        if entries:
            self._last = entries[-1][1]
        return [{"entry": entry, **fields} for _, entry, fields in entries]

    async def next_call(self) -> tuple[ExecuteCall, dict[str, str]]:
        """Return the next call to execute."""
        found: list[dict[str, str]] = []

        async def came() -> bool:
            found.extend(await self.read())
            return bool(found)

        await await_until(came, "a message")
        return ExecuteCall.model_validate_json(found[0]["message"]), found[0]

    async def begin(self, message: ExecuteCall, fields: Mapping[str, str]) -> float:
        """Mark the call's function as started."""
        return await self.bench.bridge.begin(self.hello, CallId.of(message), fields["entry"])

    async def reply(self, message: ExecuteCall, text: str, *, worker: str = "w1") -> bool:
        """Send any text as the answer."""
        return await self.bench.bridge.reply(self.hello, CallId.of(message), worker, text)


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


class DiceProcess:
    """The dice extension in a process of its own."""

    def __init__(self, settings: Settings, *options: str) -> None:
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb"):
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.extensions.dice",
                    f"--ready-fd={writing}",
                    *options,
                ],
                cwd=ROOT,
                env=own_environment() | settings.to_env(),
                pass_fds=(writing,),
                stderr=subprocess.PIPE,
                text=True,
            )
        self._ready = os.fdopen(reading, "rb")

    async def wait_ready(self) -> None:
        """Return when its tools are registered."""
        line = await asyncio.to_thread(self._ready.readline)
        assert is_ready_line(line), self.end()

    def signal(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def wait(self) -> tuple[int, str]:
        """Return exit code and what it printed, once it has ended."""
        _, printed = await asyncio.to_thread(self.process.communicate)
        return self.process.returncode, printed

    def end(self) -> str:
        """The process is gone; returns what it printed."""
        self._ready.close()
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stderr is None or self.process.stderr.closed:
            return ""
        _, printed = self.process.communicate()
        return printed
