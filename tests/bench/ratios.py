"""Set what was measured against the peers, and against the limits that we set ourselves.

Is: the ratios and limits, by the keys of `build/bench.json`. Is not: measuring. Above:
`report.py`, `__main__.py`. Below: `race.py` for names.
"""

import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.environments import ASYNCIO_PEERS, PEERS
from tests.bench.phases import Figures
from tests.bench.race import BARE, ISOLATED, PREFORK, TOOLRAIL, Round


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on one figure."""

    key: str
    words: str
    bound: float
    at_least: bool

    def is_met(self, value: float) -> bool:
        """Whether the value keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound

    @property
    def sign(self) -> str:
        """How the bound is written."""
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}"


RATIOS = (
    Limit("drain_vs_fastest_peer", "preloaded drain", 2, True),
    Limit("c32_vs_fastest_peer", "32 clients", 1.5, True),
    Limit("p50_c1_vs_fastest_peer", "p50 of one client", 1.5, False),
    Limit("p50_c1_vs_fastest_asyncio_peer", "same, asyncio peers", 1, False),
    Limit("isolated_vs_celery_prefork", "killable children to prefork", 3, True),
    Limit("call_many_vs_single", "`call_many(100)` to single calls", 5, True),
    Limit("cost_200k_vs_1k", "cost at 200,000 calls to 1,000", 1.15, False),
    Limit("two_workers_vs_one", "two workers to one", 1.6, True),
)
SHARE = "share_of_limit"
"""The ratio without a bound: the drain to the same round trips as bare Redis commands."""
FIGURES = (
    Limit("killed_after_deadline_ms", "spinning tool dead after its deadline, ms", 100, False),
    Limit("dispatch_round_trips", "round trips of a dispatch", 1.05, False),
    Limit("policy_us", "policy decision, 200 tools, 100 rules, us", 50, False),
    Limit("sleep_200_s", "200 calls of 100 ms on 200 slots, s", 0.2, False),
    Limit("sleep_2000_s", "2,000 calls of 100 ms on 200 slots, s", 1.25, False),
)
LIMITS = (*RATIOS, *FIGURES)


def ratios(rounds: Sequence[Round], alone: Mapping[str, Figures]) -> dict[str, float]:
    """Return the ratios of what was measured, by their keys; those of a race by its rounds."""
    best: tuple[tuple[str, str, Callable[[list[float]], float], Collection[str]], ...] = (
        ("drain_vs_fastest_peer", "drain_per_s", max, PEERS),
        ("c32_vs_fastest_peer", "c32_per_s", max, PEERS),
        ("p50_c1_vs_fastest_peer", "c1_p50_ms", min, PEERS),
        ("p50_c1_vs_fastest_asyncio_peer", "c1_p50_ms", min, ASYNCIO_PEERS),
        (SHARE, "drain_per_s", max, (BARE,)),
    )
    found: dict[str, float] = {}
    for key, figure, fastest, others in best:
        _put(found, key, rounds, _Against(TOOLRAIL, figure, fastest, others))
    _put(
        found,
        "isolated_vs_celery_prefork",
        rounds,
        _Against(ISOLATED, "drain_per_s", max, (PREFORK,)),
    )
    flat = {key: value for figures in alone.values() for key, value in figures.items()}
    return found | {limit.key: flat[limit.key] for limit in RATIOS if limit.key in flat}


@dataclass(frozen=True, slots=True)
class _Against:
    who: str
    figure: str
    fastest: Callable[[list[float]], float]
    others: Collection[str]

    def of(self, found: Round) -> float | None:
        """Return the ratio within one round; None when somebody did not take part."""
        ours = found.get(self.who, {}).get(self.figure)
        theirs = [found.get(other, {}).get(self.figure) for other in self.others]
        known = [value for value in theirs if value is not None]
        if ours is None or len(known) < len(theirs):
            return None
        return ours / self.fastest(known)


def _put(found: dict[str, float], key: str, rounds: Sequence[Round], against: _Against) -> None:
    values = [value for each in rounds if (value := against.of(each)) is not None]
    if values:
        found[key] = statistics.median(values)
