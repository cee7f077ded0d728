"""Be the agent services of a cell: dispatch until told, wait until answered, note both.

Is: careful callers, and the judgement of what they called. Is not: the cell (`rig.py`) or what is
done to it (`deeds.py`). Above: tests of faults, the nemesis. Below: `rig.py`, `records.py`.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pydantic import JsonValue

from tests.chaos.rig import BOUND_S, PROFILE, REPEATABLE, USER, Rig
from tests.waiting import await_until
from toolrail import CallRequest, Run, Toolrail
from toolrail.errors import AdmissionClosed, RedisUnavailable
from toolrail.request import Ticket
from toolrail_schemas import ToolResult, call_key


class Caller:
    """A careful agent service: it dispatches until it is told, and waits until it is answered."""

    def __init__(self, rig: Rig, rail: Toolrail, run: Run) -> None:
        self.rail = rail
        self.run = run
        self._rig = rig
        self._series = uuid.uuid4().hex[:8]

    def ids(self, count: int) -> list[str]:
        """Return the ids of so many calls, the same each time and no other caller's."""
        return [f"{self._series}-{number}" for number in range(count)]

    def made(self, run_id: str, call_id: str) -> bool:
        """Return whether a call, or what passes for one, is of this caller."""
        return run_id == self.run.id or call_id.startswith(self._series)

    def request(self, call_id: str, tool: str, **pauses: float) -> CallRequest:
        """Return a call of an effect tool; each is a turn of its own, for the turn's budget."""
        arguments: dict[str, JsonValue] = {"file": str(self._rig.histories.effects_file), **pauses}
        if not tool.startswith("effects."):
            arguments["call_id"] = call_id
        turn = int(call_id.rpartition("-")[2])
        return CallRequest(id=call_id, name=tool, arguments=arguments, turn=turn)

    def ticket(self, call_id: str, tool: str) -> Ticket:
        """Return the ticket of a call that somebody else dispatched."""
        key = call_key(self.run.id, 0, call_id)
        return Ticket(self.run.id, key, call_id, tool, 0, "queued")

    async def dispatch(self, call_id: str, tool: str, **pauses: float) -> Ticket:
        """Return the ticket of an accepted call; the call's id makes trying again safe."""
        request = self.request(call_id, tool, **pauses)
        while True:
            try:
                ticket = await self.run.dispatch(request)
            except (RedisUnavailable, AdmissionClosed):
                continue
            repeatable = tool in REPEATABLE
            self._rig.histories.accepted(self.run.id, call_id, repeatable=repeatable)
            return ticket

    async def answer(self, call_id: str, ticket: Ticket, *, timeout_s: float) -> ToolResult:
        """Return the result of a call.

        Raises:
            WaitTimeout: There was none in time.
        """
        async with asyncio.timeout(timeout_s + BOUND_S):
            while True:
                try:
                    result = await self.run.wait(ticket, timeout_s=timeout_s)
                except RedisUnavailable:
                    continue
                self._rig.histories.answered(self.run.id, call_id, result.error_code)
                return result

    async def call(
        self, call_id: str, tool: str, *, timeout_s: float = BOUND_S, **pauses: float
    ) -> ToolResult:
        """Return the result of a new call."""
        ticket = await self.dispatch(call_id, tool, **pauses)
        return await self.answer(call_id, ticket, timeout_s=timeout_s)


class Client:
    """One client process, as far as the cell can tell."""

    def __init__(self, rig: Rig, rail: Toolrail) -> None:
        self._rig = rig
        self._rail = rail

    async def open_run(self) -> Caller:
        """Return a new run, however often Redis is away."""
        while True:
            try:
                run = await self._rail.open_run(profile=PROFILE, user=USER)
            except (RedisUnavailable, AdmissionClosed):
                continue
            return Caller(self._rig, self._rail, run)

    async def tools_known(self, count: int) -> None:
        """Return once so many effect tools are known."""
        caller = await self.open_run()

        async def are_known() -> bool:
            await self._rail.refresh_tools()
            names = [tool.name for tool in await caller.run.tools()]
            return sum("effects." in name for name in names) >= count

        await await_until(are_known, f"{count} tools are known", timeout_s=BOUND_S)
        await caller.run.complete()


@asynccontextmanager
async def open_client(rig: Rig, name: str, *, tools: int) -> AsyncGenerator[Client]:
    """Give a client with a way to Redis of its own, once so many tools are known to it."""
    settings = await rig.proxied(name, rig.settings)
    async with Toolrail(settings) as rail:
        client = Client(rig, rail)
        await client.tools_known(tools)
        yield client


@asynccontextmanager
async def open_caller(rig: Rig) -> AsyncGenerator[Caller]:
    """Give a client with an open run; afterwards all is at rest, and the checker finds nothing."""
    async with rig.cluster.client() as rail:
        caller = await Client(rig, rail).open_run()
        yield caller
        await rig.rest()
        _, found = rig.judge()
        # What an earlier test did to the cell was told there.
        violations = [str(one) for one in found if caller.made(one.run_id, one.call_id)]
        assert not violations, "\n".join(violations)
