"""A Toolrail cell of its own for a measurement: one client, one run, one asyncio worker process.

Is: the cell with its full governance, and calls of the bench's tools. Is not: a measurement.
Above: every bench that has Toolrail in it. Below: `toolrail.testing`, `tools.py`.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from anyio.from_thread import start_blocking_portal
from pydantic import JsonValue

from tests.bench.phases import PATIENCE_S, WARM_UP, Payload, payload
from tests.bench.tools import PER_TURN
from toolrail import CallRequest, Run, Settings, Toolrail
from toolrail.embedded import EmbeddedRedis
from toolrail.request import Ticket
from toolrail.testing import Cluster
from toolrail_schemas import JsonBlock, ToolResult

ECHO = "bench.echo"
TOOLS = "tests.bench.tools"
AT_ONCE = 500
"""Calls that are sent together where the sending is not measured."""


def write_policy(folder: Path) -> Path:
    """Write a policy that allows the bench's tools."""
    for name, text in {
        "platform": "",
        "source": "",
        "profiles/bench": 'allow = ["bench.*"]\non_denied = "return_result"\n',
    }.items():
        file = folder / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def request(number: int, tool: str = ECHO) -> CallRequest:
    """Return one call; a turn has as many as the tools' budget of a turn allows."""
    arguments = {"payload": cast("JsonValue", payload(number))}
    return CallRequest(id=f"c{number}", name=tool, arguments=arguments, turn=number // PER_TURN)


def check(results: Sequence[ToolResult]) -> None:
    """A refused call is quick, so it must not be counted as a fast one."""
    failed = [result.error_code for result in results if result.is_error]
    if failed:
        raise SystemExit(f"{len(failed)} calls failed, the first with {failed[0]}")


@dataclass
class Rail:
    """A cell that is up, and an open run in it; each call of the run has another number."""

    cluster: Cluster
    client: Toolrail
    run: Run
    tool: str = ECHO
    number: int = 0

    async def dispatch(self, count: int) -> list[Ticket]:
        """Return the tickets of so many calls, in the order of their numbers."""
        first, self.number = self.number, self.number + count
        tickets: list[Ticket] = []
        for start in range(first, first + count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, first + count))
            tickets += await asyncio.gather(
                *(self.run.dispatch(request(number, self.tool)) for number in numbers)
            )
        return tickets

    async def wait(self, tickets: Sequence[Ticket]) -> None:
        """Return when all have their results in this process."""
        check(await asyncio.gather(*(self.run.wait(t, timeout_s=PATIENCE_S) for t in tickets)))

    async def burst(self, count: int) -> None:
        """Have so many calls sent and answered."""
        await self.wait(await self.dispatch(count))

    async def drain(self, count: int) -> float:
        """Return the seconds from the moment that stopped workers go on to the last result."""
        self.pause()
        tickets = await self.dispatch(count)
        begun = time.perf_counter()
        self.resume()
        await self.wait(tickets)
        return time.perf_counter() - begun

    def turn(self) -> list[CallRequest]:
        """Return the calls of one full turn."""
        first = -(-self.number // PER_TURN) * PER_TURN
        self.number = first + PER_TURN
        return [request(number, self.tool) for number in range(first, self.number)]

    # What `phases.py` asks of a client; it numbers each of its parts from 0, and a run's calls
    # have different ids, so the id is made here.

    async def send(self, payload: Payload) -> Ticket:
        """Accept a call."""
        number, self.number = self.number, self.number + 1
        return await self.run.dispatch(
            CallRequest(
                id=f"c{number}",
                name=self.tool,
                arguments={"payload": cast("JsonValue", payload)},
                turn=number // PER_TURN,
            )
        )

    async def result(self, handle: object) -> object:
        """Return what the tool gave back."""
        result = await self.run.wait(cast("Ticket", handle), timeout_s=PATIENCE_S)
        check([result])
        [block] = result.content
        assert isinstance(block, JsonBlock)
        return block.value

    # What it asks of the one worker.

    def pause(self) -> None:
        """Stop every worker where it is."""
        for name in self.cluster.workers():
            self.cluster.pause_worker(name)

    def resume(self) -> None:
        """Let them go on."""
        for name in self.cluster.workers():
            self.cluster.resume_worker(name)


@asynccontextmanager
async def fresh_rail(*, workers: int = 1, tool: str = ECHO) -> AsyncGenerator[Rail]:
    """Give a warm cell on a Redis of its own, which keeps nothing on disk; see `open_rail`."""
    with tempfile.TemporaryDirectory() as folder:
        server = EmbeddedRedis(Path(folder) / "redis", append_only=False)
        with server:
            async with open_rail(
                server.url, Path(folder) / "cell", workers=workers, tool=tool
            ) as rail:
                await rail.burst(WARM_UP)
                yield rail


@asynccontextmanager
async def open_rail(
    url: str, folder: Path, *, workers: int = 1, tool: str = ECHO
) -> AsyncGenerator[Rail]:
    """Give a cell on this Redis.

    Args:
        url: Of a Redis with nothing in it.
        folder: For what the cell keeps on disk.
        workers: Processes, each with the default of 200 slots.
        tool: Which one is called, while nothing else is said.
    """
    settings = Settings(
        redis_url=url, tool_modules=(TOOLS,), policy_dir=write_policy(folder / "policy")
    )
    cluster = Cluster(folder, settings=settings, scale={"builtin": workers})
    # On a loop of its own: uvloop, on which the client runs, cannot start processes as it does.
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(cluster):
        async with cluster.client() as client:
            yield Rail(cluster, client, await client.open_run(profile="bench"), tool)
