"""How errors of Redis are named, and how durations fall into buckets."""

import pytest
from prometheus_client import CollectorRegistry
from redis import exceptions as rx

from tests.exposed import check_series, exposed, value
from toolrail.errors import (
    AdmissionClosed,
    CallConflict,
    CallError,
    InvalidArguments,
    JournalAppendFailed,
    RedisUnavailable,
    RunClosed,
    RunNotFound,
    SystemFailure,
    ToolrailError,
)
from toolrail.metrics.buckets import REDIS_S
from toolrail.metrics.labels import REJECTION
from toolrail.metrics.process import ClientMetrics, ProcessMetrics, rejection_of
from toolrail.redaction import clean_said
from toolrail.redis_meter import RedisMeter, kind_of
from toolrail.request import CallTooLarge

DURATIONS = "toolrail_redis_command_duration_seconds"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (rx.TimeoutError("Timeout reading from 10.0.0.1:6379"), "timeout"),
        (TimeoutError(), "timeout"),
        (rx.ConnectionError("Connection closed by server."), "conn"),
        (rx.BusyLoadingError("Redis is loading"), "conn"),
        (ConnectionRefusedError(), "conn"),
        (OSError("no route"), "conn"),
        (rx.OutOfMemoryError("command not allowed"), "oom"),
        (rx.ReadOnlyError("You can't write"), "readonly"),
        (rx.NoScriptError("No matching script"), "noscript"),
        (rx.ResponseError("MISCONF Redis is configured to save"), "misconf"),
        (rx.ResponseError("WRONGTYPE secret-in-a-message"), "other"),
        (ValueError("anything"), "other"),
    ],
)
def test_an_error_is_counted_under_a_kind_and_never_by_its_words(
    error: Exception, kind: str
) -> None:
    """The words may hold an address, a key or a value."""
    metrics = ProcessMetrics()
    metrics.redis.failed(error)
    samples = exposed(metrics.registry)

    assert kind_of(error) == kind
    assert value(samples, "toolrail_redis_errors_total", kind=kind) == 1
    assert value(samples, "toolrail_redis_errors_total") == 1
    check_series(samples)


def test_a_duration_counts_in_the_bucket_that_still_holds_it() -> None:
    """An edge belongs to its bucket, as `le` says; what is longer than all counts in +Inf."""
    metrics = ProcessMetrics()
    for seconds in (0.0, *REDIS_S, 100.0):
        metrics.redis.took("claim", 2, seconds)
    samples = exposed(metrics.registry)
    edges = [*map(str, REDIS_S), "+Inf"]
    counted = [value(samples, f"{DURATIONS}_bucket", op="claim", le=edge) for edge in edges]

    assert counted == [4.0 + 2 * number for number in range(len(REDIS_S))] + [28.0]
    assert value(samples, f"{DURATIONS}_count", op="claim") == 28
    assert value(samples, f"{DURATIONS}_sum", op="claim") == pytest.approx(2 * sum(REDIS_S) + 200)
    check_series(samples)


def test_an_operation_that_nobody_listed_counts_as_other() -> None:
    """A new script must not make a new label by itself."""
    metrics = ProcessMetrics()
    metrics.redis.took("a new script", 1, 0.001)
    samples = exposed(metrics.registry)

    assert value(samples, f"{DURATIONS}_count", op="_other") == 1
    check_series(samples)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AdmissionClosed(), "overload"),
        (CallConflict(), "duplicate_conflict"),
        (RunClosed(), "run_closed"),
        (RunNotFound(), "run_closed"),
        (CallTooLarge(), "too_large"),
        (CallError(), "invalid"),
        (InvalidArguments(), "invalid"),
        (SystemFailure("model.tool_call_id_missing", "No id."), "invalid"),
        (RedisUnavailable(), "unavailable"),
        (JournalAppendFailed(), "unavailable"),
    ],
)
def test_a_refused_call_is_counted_by_a_closed_set_of_reasons(
    error: ToolrailError, reason: str
) -> None:
    """Whatever refuses it; a source that nobody knows counts as of nobody."""
    metrics = ClientMetrics()
    metrics.note_rejected(error, "mcp")
    metrics.note_rejected(error, "a source that a caller made up")
    samples = exposed(metrics.registry)
    name = "toolrail_calls_rejected_total"

    assert rejection_of(error) == reason
    assert reason in REJECTION.values
    assert value(samples, name, reason=reason, source="mcp") == 1
    assert value(samples, name, reason=reason, source="none") == 1
    check_series(samples)


def test_two_clients_of_one_process_share_nothing() -> None:
    """There is no global registry; a service that has one adds the client's to it."""
    first, second = ClientMetrics(build="v1"), ClientMetrics(build="v1")
    first.note_rejected(AdmissionClosed(), "mcp")
    service = CollectorRegistry(auto_describe=True)
    service.register(first.registry)

    assert value(exposed(second.registry), "toolrail_calls_rejected_total") == 0
    assert value(exposed(service), "toolrail_calls_rejected_total") == 1
    with pytest.raises(ValueError, match="Duplicated"):
        service.register(second.registry)


def test_a_process_says_which_build_it_is() -> None:
    """What is not known is `none`, so that the label is always there."""
    (info,) = [s for s in exposed(ProcessMetrics().registry) if s.name == "toolrail_build_info"]

    assert info.value == 1
    assert (info.labels["commit"], info.labels["celery"]) == ("none", "none")


def test_a_redaction_is_counted_by_what_the_secret_stood_in() -> None:
    """How often something was hidden is seen, and nothing of what it was."""
    name, said = "toolrail_redactions_total", "token ghp_" + "a1B2c3D4e5" * 4
    before = exposed(ProcessMetrics().registry)
    cleaned = clean_said(said)
    clean_said("nothing to hide")
    after = exposed(ProcessMetrics().registry)

    assert "ghp_" not in cleaned
    assert value(after, name, kind="said") - value(before, name, kind="said") == 1
    assert value(after, name) - value(before, name) == 1
    check_series(after)


def test_a_meter_knows_when_redis_last_answered() -> None:
    """Readiness is told from it, without asking Redis."""
    meter = RedisMeter()
    before = meter.answered_at
    meter.heard()

    assert meter.answered_at >= before
