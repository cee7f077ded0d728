"""Tools that cost nothing, so that what is measured is the way to them and back.

Is: an echo in each isolation. Is not: a test. Above: `bench_calls.py`. Below: `toolrail.tools`.
"""

from pydantic import JsonValue

from toolrail.tools import Isolation, tool


@tool("bench.echo", read_only=True)
async def echo(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give back what came, on the worker's loop.

    Args:
        payload: Anything.
    """
    return payload


@tool("bench.echo_process", read_only=True, isolation=Isolation.PROCESS)
def echo_process(payload: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give back what came, from a child process.

    Args:
        payload: Anything.
    """
    return payload
