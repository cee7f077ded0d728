"""Wait for a condition, never for a time.

Is: the one way a test waits. Is not: an assertion about speed. Above: every test that runs real
servers or processes. Below: nothing.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import cast

import pytest

POLL_S = 0.005
"""Short, so that a test costs what its condition costs."""


def wait_until(
    predicate: Callable[[], object], description: str, *, timeout_s: float = 5.0
) -> None:
    """Return once the predicate is true; fail the test with the description otherwise.

    Args:
        predicate: Asked repeatedly; must be cheap and have no effect.
        description: What is waited for, as words that follow "waited 5 s for".
        timeout_s: Bound on a slow machine, not an expectation.
    """
    deadline = time.monotonic() + timeout_s
    never = threading.Event()
    while not predicate():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:g} s for: {description}")
        never.wait(POLL_S)


async def await_until(
    predicate: Callable[[], object],
    description: str,
    *,
    timeout_s: float = 5.0,
) -> None:
    """Do what `wait_until` does, on the event loop; the predicate may be a coroutine function."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = predicate()
        if inspect.isawaitable(answer):
            answer = cast("object", await answer)
        if answer:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s:g} s for: {description}")
        await asyncio.sleep(POLL_S)
