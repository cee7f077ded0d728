"""Run every test of faults, then the nemesis over a whole cell: `make chaos`, `SEED=` replays.

Is: what is printed, kept and returned. Is not: the faults (`deeds.py`) or the rules
(`checker.py`). Above: the Makefile. Below: `nemesis.py`.
"""

import argparse
import asyncio
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.chaos.guards import GUARDS, unmissed
from tests.chaos.nemesis import Report, run_nemesis
from tests.sources import ROOT

KEPT = ROOT / "build" / "chaos"
NEMESIS_S = 180.0
TESTS = ("tests/chaos", "tests/unit/test_chaos_checker.py")


def main() -> int:
    """Return 1 if anything was lost, doubled or otherwise wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", type=int, help="of the nemesis; without it one is drawn")
    parser.add_argument("--seconds", type=float, default=NEMESIS_S, help="of the nemesis")
    parser.add_argument("--only-nemesis", action="store_true")
    given = parser.parse_args()
    # A seed is replayed alone: that is what it is given for.
    alone = given.only_nemesis or given.seed is not None
    failed = False if alone else _tests_fail() | _guards_are_idle()
    seed = secrets.randbelow(2**31) if given.seed is None else given.seed
    with tempfile.TemporaryDirectory(prefix="toolrail-chaos-") as folder:
        report = asyncio.run(run_nemesis(Path(folder), seed=seed, lasts_s=given.seconds))
    show(report)
    if report.violations:
        file = report.keep(KEPT)
        print(f"kept: {file.relative_to(ROOT)}; again: make chaos SEED={seed}")
    return int(failed or bool(report.violations))


def _tests_fail() -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--long", *TESTS]
    return subprocess.run(command, cwd=ROOT, check=False).returncode != 0


def _guards_are_idle() -> bool:
    with tempfile.TemporaryDirectory(prefix="toolrail-guards-") as folder:
        idle = unmissed(Path(folder))
    print(f"{len(GUARDS)} guards taken away, {len(GUARDS) - len(idle)} missed")
    for guard in idle:
        print(f"  not missed: {guard.name}, by {guard.test}")
    return bool(idle)


def show(report: Report) -> None:
    """Print what each fault cost."""
    calls, effects = len(report.records.accepted), len(report.records.effects)
    print(f"\nnemesis: seed {report.seed}, {report.lasted_s:g} s, {len(report.rounds)} faults")
    print(f"{calls} calls accepted, {len(report.records.answered)} answered, {effects} effects")
    for code, times in report.answers.most_common():
        print(f"  {times:6} {code or 'ok'}")
    head = ("fault", "rounds", "lost", "doubled", "recovery p50 s", "max s")
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name, rounds, lost, doubled, p50, most in report.rows():
        print(f"| {name} | {rounds} | {lost} | {doubled} | {p50:.1f} | {most:.1f} |")
    print(f"\n{len(report.violations)} violations")
    for violation in report.violations:
        print(f"  {violation}")


if __name__ == "__main__":
    sys.exit(main())
