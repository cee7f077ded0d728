"""Show a reading of the cell to Prometheus.

Is: one frozen `Reading` as metric families, every closed combination of labels there from the
start. Is not: reading (`reader.py`) or serving (`exporter.py`). Above: `page.py`. Below: the
catalogue, `tally.py`, prometheus_client.

Nothing but `toolrail_redis_up` is shown before the first reading: a counter that began at 0 and
then jumped to what the ledger holds would look like that many calls at once.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from toolrail.ledger.reader import unaccounted
from toolrail.metrics import catalogue, labels
from toolrail.metrics.metric import Metric
from toolrail.metrics.reading import Reading, RedisReading
from toolrail.metrics.tally import (
    Durations,
    Labels,
    counted,
    finished_by_tool,
    ran_by_tool,
    timed,
)


def cell_families(reading: Reading | None, *, is_up: bool) -> Iterator[Family]:
    """Yield every family but those by tool.

    Args:
        reading: The last that succeeded; None before the first.
        is_up: Whether the last try was it.
    """
    yield _gauge(catalogue.REDIS_UP, {(): is_up})
    if reading is None:
        return
    yield _gauge(catalogue.EXPORTER_LAST_SUCCESS, {(): reading.read_at_s})
    yield from _calls(reading)
    yield from _queues(reading)
    yield from _approvals(reading)
    yield from _refusals(reading)
    yield from _runs(reading)
    yield from _server(reading.redis)


def _calls(reading: Reading) -> Iterator[Family]:
    totals = reading.totals
    yield _counter(catalogue.CALLS_ACCEPTED, counted(totals, "accepted", 1))
    yield _counter(catalogue.CALLS_FINISHED, counted(totals, "finished", 2))
    yield _gauge(catalogue.CALLS_OPEN, counted(totals, "open", 2))
    yield _gauge(catalogue.CALLS_UNACCOUNTED, {(): unaccounted(totals)})
    yield _histogram(catalogue.CALL_DURATION, timed(totals, "took", 2))
    yield _counter(catalogue.CALL_ATTEMPTS, counted(totals, "attempts", 2))
    yield _counter(catalogue.LEASE_EXPIRED, counted(totals, "lease_expired", 1))
    yield _counter(catalogue.DOORBELLS_RERUNG, counted(totals, "rerung", 1))
    yield _counter(catalogue.LATE_RESULTS, counted(totals, "late", 1))
    yield _counter(catalogue.DEAD_LETTER, counted(totals, "dead_letter", 1))
    handled: dict[Labels, float] = {
        (source, action): n
        for action in labels.DEAD_LETTER_ACTION.values
        for (source,), n in counted(totals, f"dead_letter_{action}", 1).items()
    }
    yield _counter(catalogue.DEAD_LETTERS_HANDLED, handled)
    yield _gauge(catalogue.DEAD_LETTERS, {(name,): n for name, n in reading.dead_letters.items()})


def tool_families(tools: Mapping[str, int]) -> Iterator[Family]:
    """Yield the families by tool, of which the ledger bounds the number.

    Args:
        tools: The counters by tool, as they were read.
    """
    finished, ran = finished_by_tool(tools), ran_by_tool(tools)
    nobodys: Labels = (labels.NOBODY, labels.OTHER)
    known: set[Labels] = {(source, tool) for source, tool, _ in finished}
    shown = sorted({nobodys, *known})
    calls: dict[Labels, float] = {
        (*tool, outcome): finished.get((*tool, outcome), 0)
        for tool in shown
        for outcome in labels.OUTCOME.values
    }
    durations = {tool: ran.get(tool, Durations()) for tool in shown if tool != nobodys}
    yield _counter(catalogue.TOOL_CALLS, calls)
    yield _histogram(catalogue.TOOL_DURATION, durations)


def _queues(reading: Reading) -> Iterator[Family]:
    queues = reading.queues
    yield _histogram(catalogue.QUEUE_WAIT, timed(reading.totals, "wait", 1))
    yield _gauge(catalogue.QUEUE_DEPTH, {(name,): q.depth for name, q in queues.items()})
    yield _gauge(catalogue.QUEUE_DOORBELLS, {(name,): q.doorbells for name, q in queues.items()})
    ages: dict[Labels, float] = {(name,): q.oldest_ms / 1000 for name, q in queues.items()}
    yield _gauge(catalogue.QUEUE_OLDEST_AGE, ages)
    yield _gauge(catalogue.WORKERS, {(name,): q.workers for name, q in queues.items()})


def _approvals(reading: Reading) -> Iterator[Family]:
    totals = reading.totals
    happened = counted(totals, "approval", 2)
    asked: dict[Labels, float] = {
        (source,): n for (source, what), n in happened.items() if what == "asked"
    }
    parked: dict[Labels, float] = {
        (source,): n
        for (source, state), n in counted(totals, "open", 2).items()
        if state == "awaiting_approval"
    }
    ages: dict[Labels, float] = {
        (source,): ms / 1000 for source, ms in reading.approval_oldest_ms.items()
    }
    yield _counter(catalogue.APPROVALS_ASKED, asked)
    yield _counter(catalogue.APPROVALS, happened)
    yield _gauge(catalogue.APPROVALS_PENDING, parked)
    yield _gauge(catalogue.APPROVAL_OLDEST_AGE, ages)
    yield _histogram(catalogue.APPROVAL_WAIT, timed(totals, "decided", 1))


def _refusals(reading: Reading) -> Iterator[Family]:
    yield _counter(catalogue.POLICY_DENIALS, counted(reading.rules, "denied", 2))
    yield _counter(catalogue.BUDGET_REJECTIONS, counted(reading.totals, "over_budget", 1))


def _runs(reading: Reading) -> Iterator[Family]:
    totals = reading.totals
    yield _counter(catalogue.RUNS_OPENED, {(): totals.get("runs_opened", 0)})
    yield _gauge(catalogue.RUNS_OPEN, {(): reading.runs_open})
    errors = totals.get("journal_append_errors", 0)
    yield _counter(catalogue.JOURNAL_APPEND_ERRORS, {(): errors})
    yield _gauge(catalogue.STREAM_LENGTH, {("journal",): reading.journal_length})


def _server(redis: RedisReading) -> Iterator[Family]:
    yield _gauge(catalogue.REDIS_PERSISTENCE_OK, {(): redis.persistence_ok})
    yield _gauge(catalogue.REDIS_AOF_ENABLED, {(): redis.aof_enabled})
    yield _gauge(catalogue.REDIS_AOF_OK, {(): redis.aof_ok})
    yield _gauge(catalogue.REDIS_RDB_OK, {(): redis.rdb_ok})
    yield _gauge(catalogue.REDIS_MEMORY_USED, {(): redis.memory_used_bytes})
    yield _gauge(catalogue.REDIS_MEMORY_MAX, {(): redis.memory_max_bytes})
    yield _counter(catalogue.REDIS_EVICTED_KEYS, {(): redis.evicted_keys})
    yield _gauge(catalogue.REDIS_CONNECTED_CLIENTS, {(): redis.connected_clients})


def _counter(metric: Metric, values: Mapping[Labels, float]) -> Family:
    family = CounterMetricFamily(metric.family, metric.help, labels=metric.label_names)
    for key in _keys(metric, values):
        family.add_metric(key, values.get(key, 0))
    return family


def _gauge(metric: Metric, values: Mapping[Labels, float]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.label_names)
    for key in _keys(metric, values):
        family.add_metric(key, values.get(key, 0))
    return family


def _histogram(metric: Metric, values: Mapping[Labels, Durations]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.label_names)
    for key in _keys(metric, values):
        durations = values.get(key) or Durations()
        family.add_metric(key, durations.cumulated(metric.buckets), durations.sum_ms / 1000)
    return family


def _keys(metric: Metric, values: Mapping[Labels, object]) -> Sequence[Labels]:
    """Return the label values to show: all there are when those are closed, else those counted.

    A value that is not in the catalogue, as another version of us may count, is not shown.
    """
    if all(label.values for label in metric.labels):
        return list(itertools.product(*(label.values for label in metric.labels)))
    return [
        key
        for key in sorted(values)
        if all(
            not label.values or value in label.values
            for label, value in zip(metric.labels, key, strict=True)
        )
    ]
