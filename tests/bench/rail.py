"""A Toolrail cell of its own for a measurement: one client, one run, one asyncio worker process.

Is: the cell with its full governance, and calls of the bench's tools. Is not: a measurement.
Above: every bench that has Toolrail in it. Below: `toolrail.testing`, `tools.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from tests.bench.phases import PATIENCE_S, Payload, payload
from tests.bench.tools import PER_TURN
from toolrail import CallRequest, Run, Settings, Toolrail
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
    async with (
        Cluster(folder, settings=settings, scale={"builtin": workers}) as cluster,
        cluster.client() as client,
    ):
        yield Rail(cluster, client, await client.open_run(profile="bench"), tool)
