"""Tell what was measured: on the terminal, in `build/bench.json`, in the README.

Is: tables and the JSON's shape. Is not: measuring, nor the limits (`ratios.py`). Above:
`__main__.py`, `tests/unit/test_bench.py`. Below: `ratios.py`.
"""

import json
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from tests.bench.environments import BUILD
from tests.bench.phases import Figures
from tests.bench.race import Round
from tests.bench.ratios import LIMITS, RATIOS, SHARE, ratios
from tests.sources import ROOT

FILE = BUILD.parent / "bench.json"
README = ROOT / "README.md"
BEGIN, END = "<!-- bench: `python -m tests.bench --write-readme` writes this -->", "<!-- /bench -->"
UNMEASURED = "Not measured on a quiet machine yet."
UNKNOWN = "—"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one run of the bench found."""

    command: str
    machine: Mapping[str, str]
    versions: Mapping[str, Sequence[str]]
    rounds: Sequence[Round]
    alone: Mapping[str, Figures]
    """The measurements of Toolrail alone, by name."""

    @property
    def ratios(self) -> dict[str, float]:
        """By their keys."""
        return ratios(self.rounds, self.alone)

    def race(self) -> dict[str, dict[str, list[float]]]:
        """Return the figures of each contender, with a value for each round."""
        names = self.rounds[0] if self.rounds else dict[str, Figures]()
        return {
            name: {figure: [each[name][figure] for each in self.rounds] for figure in figures}
            for name, figures in names.items()
        }

    def values(self) -> dict[str, float]:
        """Return everything that may have a limit."""
        flat = {key: value for found in self.alone.values() for key, value in found.items()}
        return flat | self.ratios

    def missed(self) -> list[str]:
        """Return the limits that were measured and not met."""
        values = self.values()
        return [
            limit.key
            for limit in LIMITS
            if limit.key in values and not limit.is_met(values[limit.key])
        ]

    def write(self) -> None:
        """The JSON file says it all."""
        values = self.values()
        limits = [
            {"key": each.key, "limit": each.sign, "met": each.is_met(values[each.key])}
            for each in LIMITS
            if each.key in values
        ]
        whole = {
            "command": self.command,
            "machine": self.machine,
            "versions": self.versions,
            "ratios": self.ratios,
            "limits": limits,
            "figures": {"race": self.race(), **self.alone},
        }
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")

    def lines(self) -> Iterator[str]:
        """Yield it as text for a terminal."""
        yield f"{self.command}: {', '.join(f'{k} {v}' for k, v in self.machine.items())}"
        for name, installed in self.versions.items():
            yield f"  {name}: {' '.join(installed)}"
        for name, rounds in self.race().items():
            yield f"\n{name}, median of {len(self.rounds)} rounds (from, to)"
            for figure, each in rounds.items():
                spread = f"({min(each):,.2f}, {max(each):,.2f})"
                yield f"  {figure:28} {statistics.median(each):12,.2f} {spread}"
        for name, figures in self.alone.items():
            yield f"\n{name}"
            yield from (f"  {figure:28} {value:12,.2f}" for figure, value in figures.items())
        yield "\nlimits"
        values = self.values()
        for limit in LIMITS:
            if limit.key in values:
                met = "met" if limit.is_met(values[limit.key]) else "NOT MET"
                yield f"  {limit.words:48} {values[limit.key]:8.2f}  {limit.sign:6} {met}"
        if SHARE in values:
            yield f"  share of the physical limit {values[SHARE]:28.2f}"


def readme_table(found: Mapping[str, float], about: str) -> str:
    """Return what stands between the marks in the README.

    Args:
        found: Ratios by key; those that are missing are shown as unknown.
        about: On what machine they were measured.
    """
    keys = {limit.key: (limit.words, limit.sign) for limit in RATIOS} | {
        SHARE: ("drain to bare Redis", "")
    }
    rows = [
        ["", *(f"{words} <!-- ratio: {key} -->" for key, (words, _) in keys.items())],
        ["---"] * (len(keys) + 1),
        ["limit", *(sign for _, sign in keys.values())],
        ["measured", *(f"{found[key]:.2f}" if key in found else UNKNOWN for key in keys)],
    ]
    rows[-1][-1] += f" {END}"
    return "\n".join([BEGIN, about, "", *(f"| {' | '.join(row)} |" for row in rows)])


def write_readme() -> None:
    """The README has the ratios of `build/bench.json`.

    Raises:
        SystemExit: There is no such file, or a part was left out of it.
    """
    if not FILE.is_file():
        raise SystemExit(f"{FILE} is missing. Run `make bench` first, on a quiet machine.")
    whole = cast("dict[str, dict[str, object]]", json.loads(FILE.read_text(encoding="utf-8")))
    found = cast("dict[str, float]", whole["ratios"])
    missing = {limit.key for limit in RATIOS} - found.keys()
    if missing:
        raise SystemExit(f"{FILE} has no {', '.join(sorted(missing))}. Run `make bench`.")
    machine = whole["machine"]
    about = (
        f"`{whole['command']}`, {machine['date']}, {machine['cores']} cores of {machine['cpu']}, "
        f"Python {machine['python']}, load {machine['load']} before:"
    )
    text = README.read_text(encoding="utf-8")
    README.write_text(replace_table(text, readme_table(found, about)), encoding="utf-8")


def replace_table(text: str, table: str) -> str:
    """Return the text with another table between the marks."""
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END) + r" \|", re.DOTALL)
    assert pattern.search(text), "the README has the marks"
    return pattern.sub(lambda _: table, text)
