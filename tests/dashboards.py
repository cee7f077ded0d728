"""Read the committed dashboards, rules and alerts.

Is: JSON and YAML narrowed to what tests ask about. Is not: a rule about them. Above: static and
live tests. Below: `compose/`.
"""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from tests.sources import ROOT
from toolrail_schemas import JsonObject

GRAFANA = ROOT / "compose" / "grafana"
PROMETHEUS = ROOT / "compose" / "prometheus"
ALERTMANAGER = ROOT / "compose" / "alertmanager" / "alertmanager.yml"
RUNBOOK = ROOT / "compose" / "RUNBOOK.md"
DASHBOARDS = ("toolrail-overview", "toolrail-source")


@dataclass(frozen=True)
class Panel:
    """One panel of a dashboard, row titles are none."""

    board: str
    raw: JsonObject

    @property
    def title(self) -> str:
        """What stands above it."""
        return str(self.raw.get("title", ""))

    @property
    def unit(self) -> str:
        """Grafana's name of the unit; empty when there is none."""
        config = cast("dict[str, dict[str, object]]", self.raw["fieldConfig"])
        return str(config["defaults"].get("unit", ""))

    @property
    def targets(self) -> list[dict[str, object]]:
        """The queries as they stand in the file."""
        return cast("list[dict[str, object]]", self.raw["targets"])

    @property
    def queries(self) -> list[tuple[str, str]]:
        """Legend and expression of each query."""
        return [(str(target["legendFormat"]), str(target["expr"])) for target in self.targets]

    def __str__(self) -> str:
        return f"{self.board}: {self.title}"


@dataclass(frozen=True)
class Rule:
    """One recording rule or alert."""

    name: str
    expression: str
    raw: JsonObject

    @property
    def is_alert(self) -> bool:
        """Whether it tells somebody, instead of recording a series."""
        return "alert" in self.raw

    @property
    def severity(self) -> str:
        """Of an alert, `page` or `warn`."""
        return cast("dict[str, str]", self.raw["labels"])["severity"]

    @property
    def annotations(self) -> dict[str, str]:
        """What is told with an alert."""
        return cast("dict[str, str]", self.raw["annotations"])


def load_yaml(file: Path) -> JsonObject:
    """Return a YAML file that is a mapping."""
    return cast("JsonObject", yaml.safe_load(file.read_text(encoding="utf-8")))


def load_board(name: str) -> JsonObject:
    """Return one committed dashboard."""
    text = (GRAFANA / "dashboards" / f"{name}.json").read_text(encoding="utf-8")
    return cast("JsonObject", json.loads(text))


@functools.cache
def panels() -> tuple[Panel, ...]:
    """Return all panels of all dashboards."""
    return tuple(
        Panel(name, panel)
        for name in DASHBOARDS
        for panel in cast("list[JsonObject]", load_board(name)["panels"])
        if panel["type"] != "row"
    )


@functools.cache
def rules() -> tuple[Rule, ...]:
    """Return all recording rules and alerts."""
    found: list[Rule] = []
    for file in sorted((PROMETHEUS / "rules").glob("*.yml")):
        for group in cast("list[dict[str, list[JsonObject]]]", load_yaml(file)["groups"]):
            for raw in group["rules"]:
                name = str(raw.get("record") or raw.get("alert"))
                found.append(Rule(name, str(raw["expr"]), raw))
    return tuple(found)


def alerts() -> list[Rule]:
    """Return the alerts."""
    return [rule for rule in rules() if rule.is_alert]


def recorded() -> set[str]:
    """Return the names of all recorded series."""
    return {rule.name for rule in rules() if not rule.is_alert}
