"""Fixtures of the component tests.

Is: a worker on a real Redis. Is not: the pool. Above: component tests. Below: `tests/workers.py`.
"""

from collections.abc import AsyncGenerator

import pytest

from tests.component.builtin_bench import executor
from tests.workers import WorkerBench, worker_bench
from toolrail.settings import Settings

__all__ = ["bench", "executor"]


@pytest.fixture
async def bench(settings: Settings) -> AsyncGenerator[WorkerBench]:
    """Give a worker bench, and check the books afterwards."""
    async with worker_bench(settings) as bench:
        yield bench
