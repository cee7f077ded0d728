"""The catalogue of metrics: names that say what they are, and labels that have a bound."""

import itertools
import re
from collections import Counter

import pytest

from tests.sources import PRODUCT, ROOT, project_files, read
from toolrail.ledger.records import Outcome
from toolrail.ledger.scripts import NAMES
from toolrail.metrics import labels
from toolrail.metrics.catalogue import BUILD_INFO, METRICS
from toolrail.metrics.labels import LABEL_NAMES
from toolrail.metrics.metric import Metric
from toolrail_schemas import Source, queue_of
from toolrail_schemas.lifecycle import TERMINAL_STATES, CallState
from toolrail_workers.commands import Queue

RESERVED_LAST_WORDS = {"count", "sum", "bucket", "info", "ms", "s", "histogram", "gauge", "counter"}
PARTS_OF_A_HISTOGRAM = ("_bucket", "_count", "_sum")
PRIVATE = {"tenant", "user", "run", "run_id", "call", "call_id", "session", "session_id", "url"}

PRELUDE = read(ROOT / "tooling/toolrail/ledger/lua/_prelude.lua")

each_metric = pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)


@each_metric
def test_a_metric_is_named_after_its_unit_and_type(metric: Metric) -> None:
    """`_total` ends counters and nothing else; times are seconds, sizes are bytes."""
    base = metric.name.removesuffix("_total")

    assert re.fullmatch(r"toolrail(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert base.rsplit("_", 1)[-1] not in RESERVED_LAST_WORDS or metric.name == BUILD_INFO.name
    if metric.kind == "histogram" or "age" in base or "timestamp" in base:
        assert base.endswith("_seconds")
    if "memory" in base:
        assert base.endswith("_bytes")


@each_metric
def test_a_metric_has_only_labels_that_have_a_bound(metric: Metric) -> None:
    """Any label that is not in the one list is refused, and every one says its values or bound."""
    assert set(metric.label_names) <= LABEL_NAMES
    assert not set(metric.label_names) & PRIVATE
    assert len(set(metric.label_names)) == len(metric.labels)
    for label in metric.labels:
        assert bool(label.values) != bool(label.bound), label
        assert len(set(label.values)) == len(label.values)


@each_metric
def test_a_metric_says_in_one_sentence_what_it_means(metric: Metric) -> None:
    """The help text is read in Prometheus and Grafana, without the code."""
    assert re.fullmatch(r"[A-Z][^\n]{10,118}\.", metric.help)


@each_metric
def test_only_histograms_have_buckets_and_those_rise(metric: Metric) -> None:
    """An edge out of order would make counts negative."""
    assert bool(metric.buckets) == (metric.kind == "histogram")
    assert all(low < high for low, high in itertools.pairwise((0.0, *metric.buckets)))


def test_no_metric_is_listed_twice() -> None:
    """Also not under the name that Prometheus derives from another one."""
    names = Counter(
        name for metric in METRICS for name in {metric.name, metric.family, *_derived(metric)}
    )

    assert [name for name, times in names.items() if times > 1] == []


def _derived(metric: Metric) -> list[str]:
    return [metric.name + part for part in PARTS_OF_A_HISTOGRAM if metric.buckets]


def test_no_label_name_is_allowed_for_nothing() -> None:
    """A name that no metric uses any more is taken off the list."""
    assert {name for metric in METRICS for name in metric.label_names} == LABEL_NAMES


def test_the_labels_have_the_words_of_the_ledger() -> None:
    """They are spelled again, so they are held to what the ledger says."""
    assert set(labels.OUTCOME.values) == set(Outcome)
    assert set(labels.STATE.values) == set(CallState) - TERMINAL_STATES - {CallState.REQUESTED}
    assert set(labels.OPERATION.values) == {*NAMES, labels.OTHER}


def test_a_source_is_spelled_alike_in_metrics_on_the_wire_and_in_policy() -> None:
    """One word to search for; only a skill's calls stand under the queue that they run on."""
    queues = {source: queue_of(source) for source in Source}
    odd = re.compile(r"\bbuilt[_-]in\b(?! (policy|platform layer|one|folder))")
    spelled_otherwise = [
        str(file)
        for file in project_files()
        if file.parts[0] in PRODUCT and file.suffix in {".py", ".md", ".toml", ".json", ".lua"}
        if odd.search(read(file))
    ]

    assert set(labels.QUEUES) == set(queues.values()) == {str(queue) for queue in Queue}
    assert queues.pop(Source.SKILL) == Source.BUILTIN.value
    assert queues == {source: source.value for source in queues}
    assert spelled_otherwise == []


def test_the_scripts_count_into_the_buckets_of_the_catalogue() -> None:
    """The edges stand in the prelude in milliseconds; an edge of one only would lose counts."""
    tables = re.findall(r"edge_of\(\{([\d, \n]+)\}", PRELUDE)
    in_scripts = {tuple(int(edge) / 1000 for edge in table.split(",")) for table in tables}

    assert in_scripts == {
        metric.buckets for metric in METRICS if metric.producer == "ledger" and metric.buckets
    }


def test_the_scripts_keep_as_many_places_as_the_labels_say() -> None:
    """One number, in two languages."""
    said = f"local TOOLS_MAX, RULES_MAX, NAME_BYTES = {labels.TOOLS_MAX}, {labels.RULES_MAX}, "

    assert said in PRELUDE


def test_metrics_are_made_in_the_catalogue_only() -> None:
    """Whoever makes a metric elsewhere would slip past all of these tests."""
    name = re.compile(r"[\"']toolrail_[a-z_]+_(total|seconds|bytes|info)[\"']")
    strays = [
        str(file.relative_to(ROOT))
        for folder in ("schemas", "tooling", "workers")
        for file in (ROOT / folder).rglob("*.py")
        if file.name != "catalogue.py" and name.search(file.read_text(encoding="utf-8"))
    ]

    assert strays == []
