"""How long a provider's format takes: 128 tools first and again, and a turn of eight calls.

Is: CPU time of this process, printed; limits are 10 ms, 0.2 ms and 3 ms. Is not: a test, or a race.
Run: `.venv/bin/python -m tests.bench.bench_providers`. Above: nothing. Below: `toolrail.providers`.
"""

import time
from collections.abc import Callable
from functools import partial

from tests.providers.answers import SPEAKERS, Asked, Speaker
from tests.providers.scenario import answer, spec, talk
from toolrail.providers import ToolOptions
from toolrail_schemas import JsonObject, ToolSpec

TOOLS = 128
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "A path in the workspace."},
        "mode": {"type": "string", "enum": ["a", "b"]},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        "options": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"type": "string"}}},
        },
    },
    "required": ["path"],
    "additionalProperties": False,
}


def main() -> None:
    """Print a line for each provider, in milliseconds."""
    print(f"{'':20}{'first':>8}{'again':>8}{'turn':>8}   ms of CPU, best of five")
    for speaker in SPEAKERS:
        rounds = [_tools(number) for number in range(5)]
        first = min(_spent(partial(_encode, speaker, tools)) for tools in rounds)
        again = min(_spent(partial(_encode, speaker, tools)) for tools in rounds)
        turn = min(_spent(partial(_turn, speaker)) for _ in rounds)
        print(f"{speaker.name:20}{first:8.2f}{again:8.3f}{turn:8.3f}")


def _spent(work: Callable[[], None]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1000


def _tools(round: int) -> list[ToolSpec]:
    """Return tools that were never encoded before in this round."""
    tools = [
        spec(f"group{round}.tool_{number}", SCHEMA, description=f"Does thing {number} of {round}.")
        for number in range(TOOLS)
    ]
    for tool in tools:
        # Specs come hashed from the registry.
        assert tool.spec_hash
    return tools


def _encode(speaker: Speaker, tools: list[ToolSpec]) -> None:
    speaker.provider.encode_tools(tools, ToolOptions())


def _turn(speaker: Speaker) -> None:
    chat = talk(speaker.provider)
    calls = [Asked({"path": f"a{at}", "patch": "x" * 200}, id=f"call_{at}") for at in range(8)]
    turn = chat.decode(speaker.answer(calls, "calls"))
    chat.encode(turn, [answer(request, "done") for request in turn.requests])


if __name__ == "__main__":
    main()
