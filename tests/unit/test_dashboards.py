"""The dashboards are what their generator writes, and no panel leaves its reader alone.

Is: the rules of Grafana's dashboard linter, restated, and our own: every name exists, every panel
says what to do. Is not: whether a panel has data (`tests/live`).
Above: nothing. Below: `tests/dashboards.py`, `tests/promql.py`, `compose/grafana`.
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

from tests.dashboards import (
    DASHBOARDS,
    GRAFANA,
    Panel,
    load_board,
    load_yaml,
    panels,
    recorded,
    rules,
)
from tests.promql import FOREIGN, legend_labels, read_query, wrong_names
from toolrail.metrics.catalogue import METRICS

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
UNITS = {"none", "short", "cps", "s", "bytes", "percentunit", "bool_yes_no"}
COUNTED = re.compile(r"_(total|bucket|count|sum)$")

each_panel = pytest.mark.parametrize("panel", panels(), ids=str)


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    """If this fails, run `make dashboards` and commit what it writes."""
    program = [sys.executable, str(GRAFANA / "generate.py"), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    committed = {file.name: file.read_bytes() for file in (GRAFANA / "dashboards").iterdir()}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == committed
    assert committed.keys() == {f"{name}.json" for name in DASHBOARDS}


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_cannot_be_edited_and_keeps_its_address(name: str) -> None:
    """Links in runbooks and heads survive an update; an edit in the browser would not."""
    board = load_board(name)

    assert board["uid"] == name
    assert board["editable"] is False
    assert board["tags"] == ["toolrail"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_reader_chooses_prometheus_job_and_instance(name: str) -> None:
    """One set of dashboards for every installation; nobody must have named its jobs as we do."""
    templating = cast("dict[str, list[dict[str, object]]]", load_board(name)["templating"])
    choices = {str(choice["name"]): choice for choice in templating["list"]}

    wanted = {"datasource", "job", "instance"}
    if name.endswith("source"):
        wanted.add("source")
    assert choices.keys() == wanted
    assert choices["datasource"]["query"] == "prometheus"
    assert all(choices[several]["multi"] for several in ("job", "instance"))
    assert all(choices[several]["includeAll"] for several in ("job", "instance"))
    assert all(choice["label"] for choice in choices.values())


@pytest.mark.parametrize("name", DASHBOARDS)
def test_no_two_panels_share_a_number_a_title_or_a_place(name: str) -> None:
    """Every panel stands where it can be seen, and can be named."""
    everything = cast("list[dict[str, object]]", load_board(name)["panels"])
    taken: Counter[tuple[int, int]] = Counter()
    for panel in everything:
        at = cast("dict[str, int]", panel["gridPos"])
        assert at["x"] + at["w"] <= 24
        taken.update(
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        )

    assert set(taken.values()) == {1}
    assert len({panel["id"] for panel in everything}) == len(everything)
    assert len({panel["title"] for panel in everything}) == len(everything)


@each_panel
def test_a_panel_says_what_it_shows_and_what_to_do(panel: Panel) -> None:
    """A number without a unit, or a red panel without advice, is no help at night."""
    description = str(panel.raw.get("description", ""))

    assert panel.title
    assert re.search(r"[.?]", description)
    assert 40 < len(description) < 280
    assert panel.unit in UNITS
    assert panel.raw["datasource"] == DATASOURCE


@each_panel
def test_a_query_is_promql_over_names_that_exist(panel: Panel) -> None:
    """Of the catalogue, of a recording rule, or of Prometheus itself; labels and values too."""
    read = [read_query(expression) for _, expression in panel.queries]
    wrong = [line for query in read for line in wrong_names(query, recorded())]

    assert read
    assert not wrong, "\n".join(wrong)


@each_panel
def test_a_query_looks_where_the_reader_chose_to(panel: Panel) -> None:
    """Datasource, job, instance and source are the reader's choice, wherever a series has them."""
    for target in panel.targets:
        assert target["datasource"] == DATASOURCE
    for _, expression in panel.queries:
        for use in read_query(expression).uses:
            if use.name == "ALERTS":
                continue
            on_source = panel.board == "toolrail-source"
            if use.metric is not None or use.name in FOREIGN:
                assert use.labels.get("job") == ("=~", "$job"), expression
            if use.metric is not None and use.metric.producer == "process":
                assert use.labels.get("instance") == ("=~", "$instance"), expression
            if on_source and (use.metric is None or "source" in use.metric.label_names):
                assert use.labels.get("source") == ("=", "$source"), expression


@each_panel
def test_a_counter_is_shown_as_a_rate(panel: Panel) -> None:
    """Over Grafana's rate interval, which fits the zoom; increases over a time that is told.

    Or as a difference with its own past, where series begin at 1: `increase` misses the first.
    """
    for _, expression in panel.queries:
        query = read_query(expression)
        assert "irate" not in query.functions
        assert not re.search(r"\brate\([^\[]*\[(?!\$__rate_interval\])", expression), expression
        for use in query.uses:
            is_difference = f"{use.name}{{" in expression and "offset $__range" in expression
            if use.metric is not None and COUNTED.search(use.name) and not is_difference:
                assert use.function in ("rate", "increase"), expression


@each_panel
def test_a_legend_names_every_label_that_tells_series_apart(panel: Panel) -> None:
    """Two lines never have one name, and a legend shows no label that its series lack."""
    legends = [legend for legend, _ in panel.queries]

    assert len(set(legends)) == len(legends)
    for legend, expression in panel.queries:
        query = read_query(expression)
        named, kept = legend_labels(legend), set(query.grouped - {"le"})
        is_recorded = any(use.metric is None and use.name not in FOREIGN for use in query.uses)
        if is_recorded and "source" in named:
            kept.add("source")
        assert named == kept, f"{legend}: {expression}"


def test_every_metric_is_looked_at() -> None:
    """By a panel, a rule or an alert; what nobody looks at need not be measured."""
    texts = [expression for panel in panels() for _, expression in panel.queries]
    texts += [rule.expression for rule in rules()]
    used = {use.metric for text in texts for use in read_query(text).uses}

    assert [metric.name for metric in METRICS if metric not in used] == []


def test_grafana_is_provisioned_with_what_is_here() -> None:
    """A datasource and a provider of files; nothing that the browser may change."""
    datasources = load_yaml(GRAFANA / "provisioning" / "datasources" / "prometheus.yaml")
    providers = load_yaml(GRAFANA / "provisioning" / "dashboards" / "toolrail.yaml")
    sources = cast("list[dict[str, object]]", datasources["datasources"])
    (provider,) = cast("list[dict[str, object]]", providers["providers"])

    assert [source["uid"] for source in sources if source.get("isDefault")] == ["prometheus"]
    assert not any(source["editable"] for source in sources)
    assert provider["allowUiUpdates"] is False
    assert provider["options"] == {"path": "/var/lib/grafana/dashboards"}
