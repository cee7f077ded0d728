"""Measure Toolrail and its peers on this machine: `make bench`, `make bench QUICK=1`.

Is: the command line. Is not: a test; with `--check` it fails where a limit is missed. Above: a
person, `make bench`. Below: `race.py` and the measurements of Toolrail alone.

    python -m tests.bench --only drain --toolrail-only      # one figure, in seconds
"""

import argparse
import statistics
import sys
from dataclasses import replace

from tests.bench.environments import PEERS
from tests.bench.phases import Plan
from tests.bench.race import ISOLATED, TOOLRAIL, contenders, race

FULL = Plan(drain=5_000, clients=3_000, lone=500)
QUICK = Plan(drain=2_000, clients=1_000, lone=300)
ROUNDS = 3
PARTS = ("drain", "clients", "lone", "isolated")


def arguments(words: list[str]) -> argparse.Namespace:
    """Return what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench")
    parser.add_argument("--quick", action="store_true", help="fewer calls, under six minutes")
    parser.add_argument("--only", action="append", choices=PARTS, default=[], help="this part")
    parser.add_argument("--toolrail-only", action="store_true", help="without the peers")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser.parse_args(words)


def main(words: list[str]) -> int:
    """Measure and print."""
    asked = arguments(words)
    parts = asked.only or PARTS
    plan = QUICK if asked.quick else FULL
    for part in ("drain", "clients", "lone"):
        if part not in parts and not (part == "drain" and "isolated" in parts):
            plan = replace(plan, **{part: 0})
    found = contenders(plan, peers=() if asked.toolrail_only else tuple(PEERS))
    left_out = {ISOLATED} if "isolated" not in parts else set[str]()
    left_out |= {TOOLRAIL} if set(parts) == {"isolated"} else set[str]()
    rounds = list(race([each for each in found if each.name not in left_out], asked.rounds))
    for name in rounds[0]:
        for figure in rounds[0][name]:
            values = [each[name][figure] for each in rounds]
            spread = f"{min(values):,.2f} to {max(values):,.2f}"
            print(f"{name:20} {figure:12} {statistics.median(values):10,.2f}   {spread}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
