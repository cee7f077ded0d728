"""Read PromQL: which metrics and labels an expression names, and how.

Is: a walk over the syntax tree, and what Prometheus adds to the names of the catalogue. Is not:
an evaluation. Above: tests of rules and dashboards. Below: promql-parser, the catalogue.
"""

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import promql_parser as promql

from toolrail.metrics.catalogue import BY_NAME
from toolrail.metrics.metric import Metric

SUFFIXES = {"_bucket": {"le"}, "_sum": set[str](), "_count": set[str]()}
SCRAPED = {"job", "instance"}
FOREIGN = {"ALERTS": {"alertname", "alertstate", "severity", "source", "server"}, "up": set[str]()}
"""What Prometheus itself makes."""
VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$__interval": "1m"}


@dataclass(frozen=True)
class Use:
    """One selector of an expression."""

    name: str
    labels: dict[str, tuple[str, str]]
    """Label name to operator and value, such as `("=~", "ok|lost")`."""
    function: str
    """What is called directly on it, such as `rate`; empty when nothing is."""

    @property
    def metric(self) -> Metric | None:
        """The metric of the catalogue; None for one that is recorded or Prometheus' own."""
        return metric_of(self.name)

    def values(self, label: str) -> tuple[str, ...]:
        """Return the literal values that a label is compared with, variables left out."""
        _, value = self.labels.get(label, ("", "$"))
        return () if "$" in value else tuple(value.split("|"))


@dataclass(frozen=True)
class Query:
    """An expression, read."""

    text: str
    uses: tuple[Use, ...]
    grouped: frozenset[str]
    """Labels named by `by`, `without`, `on`, `ignoring`, `group_left` and the like."""
    functions: frozenset[str]


def metric_of(name: str) -> Metric | None:
    """Return the metric of the catalogue that has a sample of this name."""
    found = BY_NAME.get(name)
    for suffix in SUFFIXES:
        found = found or BY_NAME.get(name.removesuffix(suffix))
    return found


def labels_of(name: str) -> set[str]:
    """Return the labels that a series of this name may have, a scrape's included."""
    metric = metric_of(name)
    if metric is None:
        return FOREIGN.get(name, {"source"}) | (SCRAPED if name in FOREIGN else set())
    more = next((add for end, add in SUFFIXES.items() if name.endswith(end)), set[str]())
    return {*metric.label_names, *more, *SCRAPED}


@functools.cache
def read_query(text: str) -> Query:
    """Return what an expression names; Grafana's own variables may occur in it.

    Raises:
        ValueError: It is no PromQL.
    """
    plain = text
    for variable, value in VARIABLES.items():
        plain = plain.replace(variable, value)
    uses: list[Use] = []
    grouped: set[str] = set()
    functions: set[str] = set()
    for node, parent in _nodes(promql.parse(plain), ""):
        if isinstance(node, promql.VectorSelector):
            uses.append(_use(node, parent))
        elif isinstance(node, promql.Call):
            functions.add(node.func.name)
        elif isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            grouped |= set(node.modifier.labels)
        elif isinstance(node, promql.BinaryExpr) and node.modifier is not None:
            grouped |= set(node.modifier.group_labels or ())
            if node.modifier.matching is not None:
                grouped |= set(node.modifier.matching.labels)
    return Query(text, tuple(uses), frozenset(grouped), frozenset(functions))


def _nodes(node: promql.Expr, parent: str) -> Iterator[tuple[promql.Expr, str]]:
    """Yield every node with the function that is called on it."""
    yield node, parent
    match node:
        case promql.Call():
            for argument in node.args:
                yield from _nodes(argument, node.func.name)
        case promql.MatrixSelector():
            yield from _nodes(node.vector_selector, parent)
        case promql.BinaryExpr():
            yield from _nodes(node.lhs, "")
            yield from _nodes(node.rhs, "")
        case promql.AggregateExpr() | promql.ParenExpr() | promql.UnaryExpr():
            yield from _nodes(node.expr, "")
        case promql.SubqueryExpr():
            yield from _nodes(node.expr, parent)
        case _:
            pass


OPERATORS = (
    (promql.MatchOp.Equal, "="),
    (promql.MatchOp.NotEqual, "!="),
    (promql.MatchOp.Re, "=~"),
    (promql.MatchOp.NotRe, "!~"),
)


def _use(node: promql.VectorSelector, function: str) -> Use:
    labels: dict[str, tuple[str, str]] = {}
    for matcher in node.matchers.matchers:
        operator = next(text for kind, text in OPERATORS if matcher.op == kind)
        labels[matcher.name] = (operator, matcher.value)
    return Use(node.name or "", labels, function)


def wrong_names(query: Query, recorded: set[str]) -> list[str]:
    """Return what an expression names that does not exist, one sentence each."""
    wrong: list[str] = []
    for use in query.uses:
        if use.metric is None and use.name not in recorded | set(FOREIGN):
            wrong.append(f"{use.name} is no metric, in: {query.text}")
            continue
        strange = set(use.labels) - labels_of(use.name)
        wrong += [f"{use.name} has no label {label}" for label in sorted(strange)]
        for label in use.metric.labels if use.metric else ():
            unknown = set(use.values(label.name)) - set(label.values)
            if label.values:
                wrong += [f"{use.name}: {label.name} is never {value}" for value in unknown]
    known = set[str]().union(*(labels_of(use.name) for use in query.uses))
    wrong += [f"no series has {label}: {query.text}" for label in sorted(query.grouped - known)]
    return wrong


def legend_labels(legend: str) -> set[str]:
    """Return the labels that a legend shows."""
    return set(re.findall(r"\{\{(\w+)\}\}", legend))
