"""Rules and alerts name what exists, and each alert can be answered.

Is: names, labels, objectives, runbook, routes, and that each alert has tests of its own. Is not:
whether they fire (`tests/component/test_promtool.py`, `tests/live`).
Above: nothing. Below: `tests/dashboards.py`, `tests/promql.py`, `compose/prometheus`.
"""

import itertools
import re
from typing import cast

import pytest

from tests.dashboards import (
    ALERTMANAGER,
    PROMETHEUS,
    RUNBOOK,
    Rule,
    alerts,
    load_yaml,
    panels,
    recorded,
    rules,
)
from tests.promql import metric_of, read_query, wrong_names
from toolrail.cli.main import run
from toolrail.ledger.records import Outcome
from toolrail.metrics.catalogue import APPROVAL_OLDEST_AGE, APPROVAL_WAIT, QUEUE_WAIT
from toolrail_schemas import JsonObject

NO_ATTEMPT = {"denied", "approval_expired", "over_budget", "cancelled"}
"""Outcomes that say nothing about how well Toolrail works."""
BAD = {"system_error", "lost"}
TYPED = re.compile(r"`toolrail ([^`]+)`")
PARTS = ("Symptom", "For users", "First look", "Fix", "Confirm")

each_rule = pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
each_alert = pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)


def sections() -> dict[str, str]:
    """Return the runbook's sections by their title."""
    _, *parts = re.split(r"^## ", RUNBOOK.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


def rule_tests() -> list[JsonObject]:
    """Return every test of `compose/prometheus/tests`."""
    files = sorted((PROMETHEUS / "tests").glob("*.yml"))
    return [test for file in files for test in cast("list[JsonObject]", load_yaml(file)["tests"])]


@each_rule
def test_a_rule_is_promql_over_names_that_exist(rule: Rule) -> None:
    """A renamed metric would silence its alert for ever, and nobody would notice."""
    wrong = wrong_names(read_query(rule.expression), recorded())

    assert not wrong, "\n".join(wrong)


def test_no_two_rules_have_one_name() -> None:
    """Prometheus would take both."""
    names = [rule.name for rule in rules()]

    assert len(set(names)) == len(names)


def test_a_recorded_series_is_shown_or_used() -> None:
    """By an alert, a panel, another rule; `toolrail:slots_desired` also by autoscalers."""
    texts = [expression for panel in panels() for _, expression in panel.queries]
    texts += [rule.expression for rule in rules()]
    used = {use.name for text in texts for use in read_query(text).uses}

    assert recorded() <= used


def test_a_bucket_that_is_asked_for_exists() -> None:
    """An objective's threshold is the edge of a bucket, spelled as exported; else it is a guess."""
    texts = [expression for panel in panels() for _, expression in panel.queries]
    texts += [rule.expression for rule in rules()]
    asked = [use for text in texts for use in read_query(text).uses if use.values("le")]

    assert asked
    for use in asked:
        edges = {repr(edge) for edge in use.metric.buckets} if use.metric else set[str]()
        assert set(use.values("le")) <= edges, use


def test_an_age_that_alerts_is_an_edge_of_what_is_measured_later() -> None:
    """So that the histogram afterwards tells how many calls were that late."""
    edges = {"toolrail_queue_oldest_age_seconds": QUEUE_WAIT.buckets}
    edges[APPROVAL_OLDEST_AGE.name] = APPROVAL_WAIT.buckets
    compared = re.compile(r"\((\w+_age_seconds)\) > (?:bool )?(\d+)")
    found = [pair for rule in rules() for pair in compared.findall(rule.expression)]

    assert {name for name, _ in found} == edges.keys()
    assert [pair for pair in found if float(pair[1]) not in edges[pair[0]]] == []


def test_every_outcome_is_tried_and_good_or_bad_or_no_attempt() -> None:
    """A new outcome must be placed: it would neither hurt nor help the objective otherwise."""
    by_name = {rule.name: read_query(rule.expression) for rule in rules()}
    tried = {
        value
        for name, query in by_name.items()
        if name.startswith("toolrail:calls_")
        for use in query.uses
        for value in use.values("outcome")
    }
    bad = set(by_name["toolrail:calls_bad:rate5m"].uses[0].values("outcome"))

    assert bad == BAD
    assert tried | NO_ATTEMPT == set(Outcome)
    assert not tried & NO_ATTEMPT


@each_alert
def test_an_alert_says_whom_what_how_bad_and_where_to_read(alert: Rule) -> None:
    """Summary for the phone's lock screen, description with the value, a section to follow."""
    told = alert.annotations

    assert alert.name.startswith("Toolrail")
    assert alert.severity in ("page", "warn")
    assert "for" in alert.raw
    assert len(told["summary"]) < 100
    assert "$value" in told["description"] or "absent(" in alert.expression
    assert told["runbook_url"] == f"compose/RUNBOOK.md#{alert.name.lower()}"


def test_every_alert_has_its_section_in_the_runbook_and_every_section_its_alert() -> None:
    """In the same order, which is that of the rules."""
    assert list(sections()) == [alert.name for alert in alerts()]


@each_alert
def test_a_section_leads_from_symptom_to_proof(alert: Rule) -> None:
    """Each part is there, in this order."""
    text = sections()[alert.name]

    assert tuple(re.findall(r"^\*\*([^*]+)\.\*\*", text, re.MULTILINE)) == PARTS


def commands() -> list[str]:
    """Return every command line that the runbook or a panel tells people to type."""
    texts = [RUNBOOK.read_text(encoding="utf-8")]
    texts += [str(panel.raw["description"]) for panel in panels()]
    found = {" ".join(line.split()) for text in texts for line in TYPED.findall(text)}
    return sorted(line for line in found if "…" not in line)


@pytest.mark.parametrize("line", commands())
def test_a_command_that_people_are_told_to_type_exists(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its subcommand and options."""
    words = list(itertools.takewhile(str.isalpha, line.split()))
    code = run([*words, "--help"])
    said = capsys.readouterr().out

    assert code == 0
    assert [option for option in re.findall(r"--[a-z-]+", line) if option not in said] == []


def test_the_runbook_names_panels_that_exist() -> None:
    """Whoever reads it at night has no time for a renamed panel."""
    text = " ".join(RUNBOOK.read_text(encoding="utf-8").split())
    quoted = set(re.findall(r'"([^"]+)"', text))
    titles = {panel.title for panel in panels()}

    assert quoted
    assert [name for name in quoted if not _is_title(name, titles)] == []


def _is_title(name: str, titles: set[str]) -> bool:
    return any(title.startswith(name) for title in titles)


@each_alert
def test_an_alert_is_tested_to_fire_to_hold_still_and_to_end(alert: Rule) -> None:
    """The test files have a case of each; that they pass is shown by promtool."""
    cases = [
        (str(test["name"]), case)
        for test in rule_tests()
        for case in cast("list[dict[str, object]]", test.get("alert_rule_test", []))
        if case["alertname"] == alert.name
    ]
    firing = [name for name, case in cases if case["exp_alerts"]]
    silent = [name for name, case in cases if not case["exp_alerts"]]

    assert firing
    assert set(firing) & set(silent), "it never resolves in a test"
    assert set(silent) - set(firing), "it has no test without its series, or below its threshold"


def test_what_is_routed_and_inhibited_exists() -> None:
    """A renamed alert would quietly lose its inhibition."""
    config = load_yaml(ALERTMANAGER)
    text = ALERTMANAGER.read_text(encoding="utf-8")
    names = {alert.name for alert in alerts()}
    spelled = re.findall(r'alertname!?=~?"([^"]+)"', text)

    assert spelled
    for pattern in spelled:
        assert any(re.fullmatch(pattern, name) for name in names), pattern
        for part in _alternatives(pattern):
            assert part in names or part == "Toolrail.+", part
    receivers = cast("list[dict[str, object]]", config["receivers"])
    assert {receiver["name"] for receiver in receivers} == {alert.severity for alert in alerts()}


def _alternatives(pattern: str) -> list[str]:
    match = re.fullmatch(r"(\w+)\(([^)]+)\)", pattern)
    return [match[1] + part for part in match[2].split("|")] if match else [pattern]


def test_the_rules_name_only_what_prometheus_scrapes() -> None:
    """The jobs are those of the compose file; nothing scrapes with a label of ours."""
    config = load_yaml(PROMETHEUS / "prometheus.yml")
    jobs = cast("list[dict[str, object]]", config["scrape_configs"])

    assert {job["job_name"] for job in jobs} == {
        "toolrail-exporter",
        "toolrail-workers",
        "toolrail-clients",
        "prometheus",
    }
    assert "source:" not in (PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8")
    assert metric_of("toolrail_calls_finished_total") is not None
