"""Tools that cost nothing, or exactly so much, so that what is measured is the way to them.

Is: an echo in each isolation, a sleep, work for the CPU, and one that never ends. Is not: a test.
Above: `rail.py`. Below: `toolrail.tools`.

Their budgets are those that a team would give a harmless tool of many calls: a cap per turn that
every call is counted against, and as many at once as the worker has slots.
"""

import asyncio

from pydantic import JsonValue

from toolrail.tools import Budget, Isolation, tool

PER_TURN = 100
SPIN_TIMEOUT_S = 0.5
SLEEP_S = 0.1
MANY = Budget(max_calls_per_turn=PER_TURN, max_concurrency=1_000)
SHORT = Budget(max_calls_per_turn=PER_TURN, timeout_ms=int(SPIN_TIMEOUT_S * 1000))


@tool("bench.echo", read_only=True, budget=MANY)
async def echo(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give back what came, on the worker's loop.

    Args:
        payload: Anything.
    """
    return payload


@tool("bench.echo_process", read_only=True, isolation=Isolation.PROCESS, budget=MANY)
def echo_process(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give back what came, from a child process.

    Args:
        payload: Anything.
    """
    return payload


@tool("bench.sleep", read_only=True, budget=MANY)
async def sleep(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give back what came, after 100 ms of waiting.

    Args:
        payload: Anything.
    """
    await asyncio.sleep(SLEEP_S)
    return payload


@tool("bench.work", read_only=True, budget=MANY)
async def work(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give back what came, after a few milliseconds of the worker's CPU.

    Args:
        payload: Anything.
    """
    assert sum(range(100_000)) > 0
    return payload


@tool("bench.spin", read_only=True, isolation=Isolation.PROCESS, budget=SHORT)
def spin(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Never give back what came.

    Args:
        payload: Anything.
    """
    while True:
        payload = dict(payload)
