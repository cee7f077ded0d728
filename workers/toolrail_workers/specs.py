"""Find the executor and the spec of a tool on this worker.

Is: an index over what the executors say they have, rebuilt when one of them says it changed.
Is not: the registry, which knows the tools of all workers.
Above: `execute.py`, `passing.py`, `announce.py`, `runtime.py`.
Below: `executor.py`.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from toolrail.registry import ToolSet
from toolrail_schemas import ToolSpec
from toolrail_workers.executor import Executor

START_PATIENCE_S = 15.0
"""For so long after its start a worker waits for a tool that it does not know yet: servers may
still be listing, and calls queued before a restart must not fail for it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A tool of this worker."""

    executor: Executor
    spec: ToolSpec


class SpecIndex:
    """All tools of one worker's executors, by name."""

    def __init__(self, executors: Sequence[Executor]) -> None:
        self._executors = executors
        self._found: dict[str, Found] | None = None
        self._tools: ToolSet | None = None
        self._patient_until = 0.0
        self._changed = asyncio.Event()

    def start(self) -> None:
        """Begin the time of patience."""
        self._patient_until = asyncio.get_running_loop().time() + START_PATIENCE_S

    def note_change(self) -> None:
        """Ask the executors again at the next look-up; never blocks."""
        self._found = self._tools = None
        self._changed.set()

    @property
    def tools(self) -> ToolSet:
        """All tools with their versions; what claims are checked against."""
        if self._tools is None:
            self._tools = ToolSet.of(found.spec for found in self._all().values())
        return self._tools

    def find(self, tool: str) -> Found | None:
        """Return the tool, or None."""
        return self._all().get(tool)

    def _all(self) -> dict[str, Found]:
        if self._found is None:
            self._found = {
                spec.name: Found(executor, spec)
                for executor in self._executors
                for owner in executor.owners()
                for spec in owner.specs
            }
        return self._found

    async def find_soon(self, tool: str, *, timeout_s: float) -> Found | None:
        """Return the tool; on a worker that has just started, wait for it.

        Args:
            tool: Canonical name.
            timeout_s: Of the call; half of it is left for the work.
        """
        found = self.find(tool)
        if found is not None:
            return found
        loop = asyncio.get_running_loop()
        until = min(self._patient_until, loop.time() + timeout_s / 2)
        while found is None and loop.time() < until:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
            except TimeoutError:
                break
            found = self.find(tool)
        return found
