"""The bench itself works; a program that is run once a month would else be broken when wanted.

Is: Toolrail's and bare Redis' programs of the race, and the count of round trips, with few calls.
Is not: a measurement, or a look at the peers, whose environments take a network. Above: nothing.
Below: `tests/bench`.
"""

import pytest

from tests.bench import batch
from tests.bench.figures import Size
from tests.bench.phases import Plan
from tests.bench.race import BARE, TOOLRAIL, contenders, run

SMALL = Size(drain=100, clients=10, lone=10, working=1, rounds=1)


@pytest.mark.parametrize("name", [TOOLRAIL, BARE])
def test_a_contender_tells_its_figures(name: str) -> None:
    """Every call came back whole, else the program had ended with an error."""
    plan = Plan(drain=100, clients=64, lone=10)
    [contender] = [each for each in contenders(plan, peers=(), isolated=0) if each.name == name]
    figures = run(contender)

    assert {"drain_per_s", "drain_cpu_us"} <= figures.keys()
    assert ("c1_p50_ms" in figures) == (contender.plan.lone > 0)
    assert all(value >= 0 for value in figures.values())


async def test_a_dispatch_is_one_round_trip() -> None:
    """As Redis sees it; a client also looks now and then at which tools there are."""
    figures = await batch.measure(SMALL)

    assert 1 <= figures["dispatch_round_trips"] < 1.2
