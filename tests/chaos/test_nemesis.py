"""A whole cell is hurt by a plan that a seed decides, and comes through."""

from pathlib import Path

import pytest

from tests.chaos.deeds import DEEDS
from tests.chaos.nemesis import plan, run_nemesis
from toolrail.embedded import find_wheel_program

SEED = 20261216
LASTS_S = 26.0
"""Every fault once; `make chaos` takes three minutes, and any seed."""
WORKERS = ("builtin.1", "builtin.2", "mcp.1", "extension.1")


@pytest.mark.timeout(170)
async def test_nothing_is_lost_or_doubled_whatever_breaks(tmp_path: Path) -> None:
    """Workers, extension, MCP servers, Redis, connections and doorbells, one after the other."""
    report = await run_nemesis(
        tmp_path,
        seed=SEED,
        lasts_s=LASTS_S,
        workers=WORKERS,
        # Other tests of faults take what is on PATH, which is Redis where there is one.
        program=find_wheel_program(),
    )

    assert not report.violations, "\n".join(map(str, report.violations))
    assert {each.name for each in report.rounds} == set(DEEDS)
    assert report.answers[""] > 100


def test_a_seed_decides_the_whole_plan() -> None:
    """What failed once can be played again."""
    assert plan(7, lasts_s=60) == plan(7, lasts_s=60)
    assert plan(7, lasts_s=60) != plan(8, lasts_s=60)
