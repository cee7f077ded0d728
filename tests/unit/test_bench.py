"""What the bench makes of its figures, and where it shows them.

Is: ratios, limits and the README's table, on invented figures. Is not: a measurement, or a claim
about one. Above: nothing. Below: `tests/bench`.
"""

import re

import pytest

from tests.bench.environments import PEERS
from tests.bench.phases import Figures, Plan
from tests.bench.race import BARE, ISOLATED, TOOLRAIL, Round, contenders
from tests.bench.ratios import LIMITS, RATIOS, SHARE, ratios
from tests.bench.report import README, Report, readme_table, replace_table

KEYS = {
    "drain_vs_fastest_peer",
    "c32_vs_fastest_peer",
    "p50_c1_vs_fastest_peer",
    "p50_c1_vs_fastest_asyncio_peer",
    "isolated_vs_celery_prefork",
    "call_many_vs_single",
    "cost_200k_vs_1k",
    "two_workers_vs_one",
    "share_of_limit",
}
"""The wire of `build/bench.json`; whoever compares runs goes by it."""


def figures(drain: float, clients: float, p50: float) -> Figures:
    """Return what a contender might find."""
    return {"drain_per_s": drain, "c32_per_s": clients, "c1_p50_ms": p50}


def round_of(toolrail: float) -> Round:
    """Return a round in which huey is fastest, and saq of the asyncio peers."""
    found = {peer: figures(100, 200, 8) for peer in PEERS}
    found["huey"] = figures(1_000, 2_000, 1)
    found["saq"] = figures(900, 900, 4)
    found[TOOLRAIL] = figures(1_000 * toolrail, 2_000 * toolrail, 2)
    found[ISOLATED] = {"drain_per_s": 100 * toolrail}
    found[BARE] = {"drain_per_s": 10_000}
    return found


ALONE = {
    "batch": {"call_many_vs_single": 6.0, "dispatch_round_trips": 1.0},
    "growth": {"cost_200k_vs_1k": 1.2},
    "pair": {"two_workers_vs_one": 1.7},
}


def report() -> Report:
    """Return a report of three rounds."""
    return Report(
        command="make bench",
        machine={"cpu": "x"},
        versions={},
        rounds=[round_of(3), round_of(1), round_of(4)],
        alone=ALONE,
    )


def test_every_ratio_is_to_the_fastest_of_its_round() -> None:
    """A machine that slows down slows all of a round alike; of the rounds the median counts."""
    found = ratios([round_of(3), round_of(1), round_of(4)], ALONE)

    assert found["drain_vs_fastest_peer"] == pytest.approx(3)
    assert found["c32_vs_fastest_peer"] == pytest.approx(3)
    assert found["p50_c1_vs_fastest_peer"] == pytest.approx(2)
    assert found["p50_c1_vs_fastest_asyncio_peer"] == pytest.approx(0.5)
    assert found["isolated_vs_celery_prefork"] == pytest.approx(3)
    assert found["share_of_limit"] == pytest.approx(0.3)


def test_the_keys_of_the_ratios_are_those_that_others_read() -> None:
    """A whole bench has exactly these."""
    assert set(report().ratios) == KEYS == {limit.key for limit in RATIOS} | {SHARE}


def test_a_ratio_needs_all_of_its_peers() -> None:
    """Without one, it might be the fastest that is missing."""
    rounds = [round_of(3)]
    del rounds[0]["dramatiq"]

    assert "drain_vs_fastest_peer" not in ratios(rounds, {})
    assert "isolated_vs_celery_prefork" in ratios(rounds, {})


def test_a_missed_limit_is_told() -> None:
    """`--check` fails by it; what is exactly at its limit is met."""
    assert report().missed() == ["p50_c1_vs_fastest_peer", "cost_200k_vs_1k"]
    assert all(limit.is_met(limit.bound) for limit in LIMITS)


def test_the_terminal_says_of_every_limit_whether_it_is_met() -> None:
    """With the figures of each contender above."""
    text = "\n".join(report().lines())

    assert text.count("NOT MET") == len(report().missed())
    assert all(name in text for name in (*PEERS, TOOLRAIL, BARE))


def test_the_readme_shows_every_ratio_with_its_limit() -> None:
    """The figures are whatever was measured last, the rows and limits are the code's."""
    text = README.read_text(encoding="utf-8")
    table = readme_table({}, "")

    assert set(re.findall(r"<!-- ratio: (\w+) -->", text)) == KEYS
    for line in table.splitlines():
        if line.startswith(("| |", "|  |", "| limit")):
            assert line in text


def test_writing_the_table_leaves_the_rest_of_the_readme() -> None:
    """Twice is like once."""
    text = README.read_text(encoding="utf-8")
    table = readme_table(report().ratios, "`make bench`, on a machine:")
    once = replace_table(text, table)

    assert table in once
    assert replace_table(once, table) == once
    assert replace_table(once, readme_table({}, "x")) == replace_table(text, readme_table({}, "x"))


def test_who_has_nothing_to_do_is_left_out() -> None:
    """`--only drain --toolrail-only` starts no child processes and no peer."""
    names = [each.name for each in contenders(Plan(drain=10), peers=(), isolated=0)]

    assert names == [TOOLRAIL, BARE]
    assert not contenders(Plan(), peers=(), isolated=0)
