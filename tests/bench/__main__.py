"""Measure Toolrail and its peers on this machine: `make bench`, `make bench QUICK=1`.

Is: the command line, and the order of the measurements. Is not: a test; with `--check` it fails
where a limit is missed. Above: a person, `make bench`. Below: `race.py` and the measurements of
Toolrail alone; `bench_metrics`, `bench_approvals` and `bench_doorbells` are programs of their own.

    python -m tests.bench --only drain --toolrail-only      # one figure, in seconds

What is the same for all queues and what differs is said in `phases.py` and, for each, in
`contenders/`. Peers run plain; Toolrail runs with policy, validation, journal, lease, MAC and a
budget. Nothing runs at the same time as anything else. The figures mean something on a machine
that does nothing else, and only as ratios on any other.
"""

import argparse
import sys
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType

from tests.bench import batch, deadline, growth, machine, pair, policy, sleepers
from tests.bench.contender import run
from tests.bench.environments import PEERS
from tests.bench.figures import FULL, QUICK, Size
from tests.bench.phases import Figures, Plan
from tests.bench.race import Round, contenders, race
from tests.bench.report import FILE, Report, write_readme

RACE = ("drain", "clients", "lone", "isolated")
ALONE: Mapping[str, Callable[[Size], Coroutine[None, None, Figures]]] = MappingProxyType(
    {
        "policy": policy.measure,
        "batch": batch.measure,
        "deadline": deadline.measure,
        "sleepers": sleepers.measure,
        "pair": pair.measure,
        "growth": growth.measure,
    }
)


def arguments(words: list[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--quick", action="store_true", help="fewer calls, under six minutes")
    parser.add_argument(
        "--only", action="append", choices=(*RACE, *ALONE), help="this part; may be repeated"
    )
    parser.add_argument("--toolrail-only", action="store_true", help="without the peers")
    parser.add_argument("--rounds", type=int, help="how many; the median counts")
    parser.add_argument("--check", action="store_true", help="fail where a limit is missed")
    parser.add_argument("--write-readme", action="store_true", help=f"from {FILE.name}, and end")
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Measure, print, and write the JSON when nothing was left out."""
    asked = arguments(words)
    if asked.write_readme:
        write_readme()
        return 0
    size: Size = QUICK if asked.quick else FULL
    size = size.with_rounds(asked.rounds or size.rounds)
    parts: tuple[str, ...] = tuple(asked.only or (*RACE, *ALONE))
    peers = () if asked.toolrail_only else tuple(PEERS)
    about = machine.describe()
    report = Report(
        command="make bench QUICK=1" if asked.quick else "make bench",
        machine=about,
        versions=machine.used_versions(peers),
        rounds=run_race(size, parts, peers),
        alone={name: measure_alone(name, size) for name in ALONE if name in parts},
    )
    print("\n".join(report.lines()))
    if not asked.only and peers:
        report.write()
        print(f"\nwritten: {FILE}")
    return 1 if asked.check and report.missed() else 0


def measure_alone(name: str, size: Size) -> Figures:
    """Return a measurement of Toolrail alone."""
    print(f"measuring {name}", file=sys.stderr, flush=True)
    return run(ALONE[name](size))


def run_race(size: Size, parts: tuple[str, ...], peers: tuple[str, ...]) -> list[Round]:
    """Return the rounds of the race, with those parts that were asked for."""
    plan = Plan(
        drain=size.drain if "drain" in parts else 0,
        clients=size.clients if "clients" in parts else 0,
        lone=size.lone if "lone" in parts else 0,
    )
    found = contenders(plan, peers=peers, isolated=size.drain if "isolated" in parts else 0)
    return [race(found, number) for number in range(size.rounds)] if found else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
