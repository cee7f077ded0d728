"""Run functions of `isolation_tools.py` in real children.

Is: the pool fixtures and small helpers of the isolation tests. Is not: the functions themselves.
Above: `tests/component/test_isolation_*.py`. Below: `toolrail_workers.isolation`.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from pydantic import JsonValue

from toolrail.settings import own_environment
from toolrail_workers.isolation.child import ChildLimits
from toolrail_workers.isolation.process import IsolatedCall, ProcessChildren

Run = Callable[..., Awaitable[JsonValue]]
LIMIT_BYTES = 100_000
CALL_KEY = "0123456789abcdef"
TOOLS = Path(__file__).parent / "component"


def is_alive(pid: int) -> bool:
    """Return whether the process runs; one that only waits to be reaped does not."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def read_pid(file: Path) -> int:
    """Return the process id in the file, 0 while there is none."""
    text = file.read_text().strip() if file.exists() else ""
    return int(text) if text else 0


def call_of(function: str, *, timeout_s: float = 30.0, **arguments: JsonValue) -> IsolatedCall:
    """Return a call of a function in `isolation_tools.py`."""
    return IsolatedCall(
        target=f"isolation_tools:{function}",
        arguments=arguments,
        timeout_s=timeout_s,
        max_output_bytes=LIMIT_BYTES,
        call_key=CALL_KEY,
    )


async def started(
    *, children: int = 2, calls_per_child: int = 1000, limits: ChildLimits | None = None
) -> ProcessChildren:
    """Return a running pool; the caller stops it."""
    pool = ProcessChildren(
        children=children,
        calls_per_child=calls_per_child,
        environment=own_environment(),
        limits=limits,
    )
    await pool.start()
    return pool


@pytest.fixture(autouse=True)
def tools_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the functions on the import path, which children inherit."""
    monkeypatch.syspath_prepend(str(TOOLS))


@pytest.fixture
async def pool() -> AsyncIterator[ProcessChildren]:
    """Run two children."""
    pool = await started()
    yield pool
    await pool.stop()


@pytest.fixture
async def single() -> AsyncIterator[ProcessChildren]:
    """Run one child."""
    pool = await started(children=1)
    yield pool
    await pool.stop()


@pytest.fixture
def run(pool: ProcessChildren) -> Run:
    """Call a function by name in one of two children."""

    def run(function: str, **arguments: JsonValue) -> Awaitable[JsonValue]:
        return pool.call(call_of(function, timeout_s=30.0, **arguments))

    return run
