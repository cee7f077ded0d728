"""Tell the fleet which tools this worker can run, and take it back when it goes.

Is: every owner of every executor, repeated and at once on change. Is not: the registry's content
rules (`toolrail.registry`). Above: `runtime.py`. Below: `executor.py`, `Registry`.
"""

import logging
from collections.abc import Mapping

from toolrail.errors import ToolrailError
from toolrail.registry import Registry, ToolSet
from toolrail_workers.executor import Executor, OwnerSpecs

log = logging.getLogger(__name__)


class Announcer:
    """What one worker says about itself."""

    def __init__(
        self, registry: Registry, executors: Mapping[str, Executor], *, worker: str
    ) -> None:
        """Prepare.

        Args:
            registry: Where to say it.
            executors: By the name of their queue.
            worker: Id of this worker.
        """
        self._registry = registry
        self._executors = executors
        self._worker = worker
        self._announced: set[tuple[str, str]] = set()

    async def announce(self) -> None:
        """The registry shows the present owners of this worker, for half a minute more.

        Raises:
            RedisUnavailable: It will be said again at the next round.
        """
        owners = [
            (queue, owner) for queue, each in self._executors.items() for owner in each.owners()
        ]
        # First, so that a call of a tool that others just heard of can be claimed here.
        specs = (spec for _, owner in owners for spec in owner.specs)
        await self._registry.keep_tools(ToolSet.of(specs))
        present: set[tuple[str, str]] = set()
        for queue, owner in owners:
            present.add((queue, owner.owner))
            self._announced.add((queue, owner.owner))
            await self._say(queue, owner)
        for queue, name in self._announced - present:
            await self._registry.withdraw(queue, name, worker=self._worker)
            self._announced.discard((queue, name))

    async def _say(self, queue: str, owner: OwnerSpecs) -> None:
        await self._registry.announce(
            queue,
            owner.owner,
            owner.specs,
            worker=self._worker,
            available=owner.available,
            reason=owner.reason or "",
        )

    async def withdraw(self) -> None:
        """Nobody counts on this worker any more; at worst half a minute later."""
        while self._announced:
            queue, name = self._announced.pop()
            try:
                await self._registry.withdraw(queue, name, worker=self._worker)
            except ToolrailError as error:
                # Nobody needs to act: what is not announced again runs out by itself.
                log.info("worker.not_withdrawn", extra={"owner": name, "reason": error.message})
