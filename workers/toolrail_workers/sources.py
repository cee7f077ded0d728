"""Make the executors of the sources a worker serves.

Is: the one table from queue to executor, imported only when it is served. Is not: an executor.
Above: `runtime.py`. Below: nothing; the executors' modules are named, not imported.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import cast

from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from toolrail.blobs import Blobs
from toolrail.errors import ConfigError
from toolrail.settings import Settings
from toolrail_workers.executor import Executor

EXECUTORS: dict[str, str] = {
    "builtin": "toolrail_workers.builtin.executor:create_executor",
    "mcp": "toolrail_workers.mcp.executor:create_executor",
    "extension": "toolrail_workers.extension.executor:create_executor",
}
"""Queue to `module:function`; the function takes an `ExecutorParts` and returns an `Executor`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorParts:
    """What an executor may be made of."""

    settings: Settings
    worker: str
    """Id of this worker."""
    redis: Redis
    """For short commands only; shared with the ledger."""
    blobs: Blobs
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    """Of this worker's metrics, for what only the executor can count."""


def create_executors(sources: Sequence[str], parts: ExecutorParts) -> dict[str, Executor]:
    """Return an executor per queue name.

    Raises:
        ConfigError: A source is unknown, or its settings are wrong.
    """
    return {source: load_factory(source)(parts) for source in sources}


def load_factory(source: str) -> Callable[[ExecutorParts], Executor]:
    """Return what makes the executor of a queue.

    Raises:
        ConfigError: There is no such queue.
    """
    target = EXECUTORS.get(source)
    if target is None:
        known = ", ".join(EXECUTORS)
        raise ConfigError(f"There is no queue {source!r}.", fix=f"Serve some of: {known}.")
    module, _, name = target.partition(":")
    return cast("Callable[[ExecutorParts], Executor]", getattr(import_module(module), name))
