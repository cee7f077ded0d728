"""Measure patches on a real directory: `python -m tests.bench.bench_patches`.

Is: the limits of issue 5 for workspace.apply_patch, each with its checkpoint: 50 sections over a
workspace of 5 000 files in 150 ms, a file of 2 MiB in 100 ms, both p95. Is not: a test; the figures
mean something on a machine that does nothing else. With `--check` it fails where a limit is missed.
Above: a person. Below: `tests/component/workspaces.py`.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

from tests.component.workspaces import Workspace
from tests.patching import envelope, update

FILES = 5_000
SECTIONS = 50
ROUNDS = 20
MANY_MAX_MS = 150.0
LARGE_MAX_MS = 100.0


def timed(action: Callable[[int], object]) -> list[float]:
    """Return how many ms each round takes, without the first, which fills what is remembered."""
    took: list[float] = []
    for number in range(ROUNDS + 1):
        began_at = time.perf_counter()
        action(number)
        took.append((time.perf_counter() - began_at) * 1000)
    return took[1:]


def many(top: Path) -> list[float]:
    """Patch 50 of 5 000 files."""
    workspace = Workspace(top)
    workspace.list()
    for number in range(FILES):
        workspace.put(f"{number}\nround 0\n" + "line\n" * 50, f"output/d{number % 50}/f{number}")
    # What was just written is read once more; a user's files are older than a moment.
    workspace.run("create_checkpoint", {})

    def patch(number: int) -> None:
        sections: list[str] = []
        for at in range(SECTIONS):
            index = number * SECTIONS + at
            sections += (f"*** Update File: output/d{index % 50}/f{index}", "-round 0", "+round 1")
        workspace.patch(envelope(*sections))

    return timed(patch)


def large(top: Path) -> list[float]:
    """Patch two places of a file of 2 MiB."""
    workspace = Workspace(top)
    workspace.list()
    lines = [f"line {number} of a file that is forty bytes" for number in range(49_000)]
    lines[100] = lines[40_000] = "round 0"
    workspace.put("\n".join(lines) + "\n", "output/a.txt")

    def patch(number: int) -> None:
        old, new = f"round {number}", f"round {number + 1}"
        workspace.patch(
            update(
                *("@@", f" {lines[99]}", f"-{old}", f"+{new}"),
                *("@@", f" {lines[39_999]}", f"-{old}", f"+{new}"),
                path="output/a.txt",
            )
        )

    return timed(patch)


def main(words: list[str]) -> int:
    """Print one line per limit."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="toolrail-bench-") as folder:
        for name, measure, limit_ms in (
            (f"{SECTIONS} sections over {FILES} files", many, MANY_MAX_MS),
            ("two places of a file of 2 MiB", large, LARGE_MAX_MS),
        ):
            took = measure(Path(folder) / name.replace(" ", "-") / "ws")
            p95 = quantiles(took, n=20)[-1]
            missed += p95 > limit_ms
            sys.stdout.write(
                f"{name}: median {median(took):.0f} ms, p95 {p95:.0f} ms, limit {limit_ms:.0f} ms\n"
            )
    return int(bool(missed) and "--check" in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
