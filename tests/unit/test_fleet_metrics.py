"""What the exporter shows of one reading: every counter, complete from the start, bounded."""

from dataclasses import replace

from tests.scrapes import Scrape
from toolrail.metrics.catalogue import REDIS_UP, produced_by
from toolrail.metrics.labels import OUTCOME, SOURCES, TOOLS_MAX
from toolrail.metrics.page import DOWN, NEVER_READ, Page
from toolrail.metrics.reading import QueueReading, Reading, RedisReading

SERIES_MAX = 20_000
QUEUE = QueueReading()
EMPTY = Reading(
    read_at_s=1_000.0,
    totals={},
    tools={},
    rules={},
    queues={"builtin": QUEUE, "mcp": QUEUE, "extension": QUEUE},
    approval_oldest_ms={},
    dead_letters={},
    runs_open=0,
    journal_length=0,
    redis=RedisReading(),
)


def shown(reading: Reading) -> Scrape:
    """Return the page that shows a reading."""
    page = Page()
    page.show(reading)
    return Scrape(page.text().decode())


def test_before_the_first_reading_no_counter_is_shown() -> None:
    """One that began at 0 and then jumped to the ledger's would look like that many calls."""
    page = Page()
    seen = Scrape(page.text().decode())

    assert seen.lines == [f"{REDIS_UP.name} 0.0"]
    assert page.problem() == NEVER_READ


def test_every_metric_of_the_ledger_is_shown_with_its_type() -> None:
    """The catalogue and the page are the same list."""
    assert shown(EMPTY).types == {metric.name: metric.kind for metric in produced_by("ledger")}


def test_every_combination_of_closed_labels_is_there_from_the_start() -> None:
    """The first failure of a kind is an increase from 0, not a series out of nowhere."""
    seen = shown(EMPTY)
    finished = [labels for labels, _ in seen.series("toolrail_calls_finished_total")]
    pairs = {(labels["source"], labels["outcome"]) for labels in finished}

    assert pairs == {(source, outcome) for source in SOURCES for outcome in OUTCOME.values}
    for metric in produced_by("ledger"):
        if all(label.values for label in metric.labels):
            assert seen.has(metric.name + ("_bucket" if metric.buckets else "")), metric.name


def test_a_histogram_counts_upwards_from_the_ledgers_buckets() -> None:
    """The ledger counts each duration once; Prometheus wants all up to an edge."""
    totals = {"wait:5:mcp": 2, "wait:250:mcp": 3, "wait:inf:mcp": 1, "wait:ms:mcp": 2_000_500}
    seen = shown(replace(EMPTY, totals=totals))
    name = "toolrail_queue_wait_seconds"

    assert seen[f'{name}_bucket{{le="0.005",source="mcp"}}'] == 2
    assert seen[f'{name}_bucket{{le="0.1",source="mcp"}}'] == 2
    assert seen[f'{name}_bucket{{le="0.25",source="mcp"}}'] == 5
    assert seen[f'{name}_bucket{{le="1800.0",source="mcp"}}'] == 5
    assert seen[f'{name}_bucket{{le="+Inf",source="mcp"}}'] == 6
    assert seen[f'{name}_count{{source="mcp"}}'] == 6
    assert seen[f'{name}_sum{{source="mcp"}}'] == 2000.5


def test_an_edge_of_another_version_is_counted_in_the_next_one() -> None:
    """While workers of two versions live side by side no duration is lost."""
    seen = shown(replace(EMPTY, totals={"wait:70:mcp": 4, "wait:9999999:mcp": 1}))
    name = "toolrail_queue_wait_seconds"

    assert seen[f'{name}_bucket{{le="0.05",source="mcp"}}'] == 0
    assert seen[f'{name}_bucket{{le="0.1",source="mcp"}}'] == 4
    assert seen[f'{name}_count{{source="mcp"}}'] == 5


def test_calls_and_durations_of_a_tool_stand_under_its_name() -> None:
    """Outcomes are counted apart, durations of all outcomes together; colons stay in names."""
    tools = {
        "names": 1,
        "name:mcp:mcp.a:b": 1_700_000_000_000,
        "ran:5:ok:mcp:mcp.a:b": 3,
        "ran:5:tool_error:mcp:mcp.a:b": 1,
        "ran:never:denied:mcp:mcp.a:b": 7,
        "ran:ms::mcp:mcp.a:b": 12,
    }
    seen = shown(replace(EMPTY, tools=tools))
    by_outcome = {
        labels["outcome"]: value
        for labels, value in seen.series("toolrail_tool_calls_total", tool="mcp.a:b")
        if value
    }

    assert by_outcome == {"ok": 3, "tool_error": 1, "denied": 7}
    assert seen['toolrail_tool_duration_seconds_count{source="mcp",tool="mcp.a:b"}'] == 4
    assert seen['toolrail_tool_duration_seconds_sum{source="mcp",tool="mcp.a:b"}'] == 0.012


def test_what_another_version_counts_adds_no_series() -> None:
    """Labels stay closed whatever stands in the hash."""
    strange = {
        "finished:mcp:exploded": 1,
        "finished:moon:ok": 1,
        "open:mcp:dreaming": 0,
        "new_thing:a:b": 2,
        "wait:5": 1,
        "": 1,
    }
    tools = {"ran:5:exploded:mcp:t": 1, "ran:x": 1}

    known = len(shown(EMPTY).lines)
    assert len(shown(replace(EMPTY, totals=strange)).lines) == known
    assert not list(
        shown(replace(EMPTY, tools=tools)).series("toolrail_tool_calls_total", outcome="exploded")
    )


def test_dead_letters_are_counted_as_they_come_and_as_they_are_handled() -> None:
    """Three counters of the ledger; what is left is a gauge of its own."""
    totals = {"dead_letter:mcp": 5, "dead_letter_redriven:mcp": 2, "dead_letter_discarded:mcp": 1}
    seen = shown(replace(EMPTY, totals=totals, dead_letters={"mcp": 2}))
    handled = "toolrail_dead_letters_handled_total"

    assert seen['toolrail_dead_letter_total{source="mcp"}'] == 5
    assert seen[f'{handled}{{action="redriven",source="mcp"}}'] == 2
    assert seen[f'{handled}{{action="discarded",source="mcp"}}'] == 1
    assert seen['toolrail_dead_letters{source="mcp"}'] == 2


def test_calls_that_do_not_add_up_are_told() -> None:
    """Accepted minus finished minus open, over all sources."""
    totals = {"accepted:mcp": 10, "finished:mcp:ok": 7, "open:mcp:running": 2}

    assert shown(replace(EMPTY, totals=totals))["toolrail_calls_unaccounted"] == 1


def test_five_hundred_tools_that_saw_everything_stay_below_the_ceiling() -> None:
    """The most that the ledger gives places to, each with all outcomes and buckets."""
    tools = {
        f"ran:{edge}:{outcome}:{source}:{source}.tool{n}": 1
        for n in range(TOOLS_MAX // 4)
        for source in SOURCES
        for outcome in OUTCOME.values
        for edge in ("never", "5", "inf")
    }
    rules = {f"denied:{layer}:r{n}": 1 for layer in ("platform", "plan") for n in range(101)}

    assert len(shown(replace(EMPTY, tools=tools, rules=rules)).lines) < SERIES_MAX


def test_a_page_is_written_when_something_is_new_and_not_when_it_is_asked() -> None:
    """However large it is, a scrape only sends it."""
    page = Page()
    page.show(EMPTY)

    assert page.text() is page.text()


def test_a_page_keeps_its_values_and_their_time_while_redis_is_down() -> None:
    """Old numbers with their age are worth more than none."""
    page = Page()
    page.show(replace(EMPTY, totals={"accepted:mcp": 5}))
    page.show_down()
    seen = Scrape(page.text().decode())

    assert seen["toolrail_redis_up"] == 0
    assert seen['toolrail_calls_accepted_total{source="mcp"}'] == 5
    assert seen["toolrail_exporter_last_success_timestamp_seconds"] == 1_000
    assert page.problem() == DOWN
    page.show(replace(EMPTY, read_at_s=2_000.0))
    assert Scrape(page.text().decode())["toolrail_redis_up"] == 1
    assert page.problem() is None


def test_the_counters_by_tool_change_with_the_reading() -> None:
    """They are written apart, and only when they are other ones."""
    page = Page()
    values: list[float] = []
    for count in (1, 2):
        page.show(replace(EMPTY, tools={"ran:5:ok:mcp:t": count}))
        text = Scrape(page.text().decode())
        values.append(text.sum("toolrail_tool_calls_total", tool="t", outcome="ok"))

    assert values == [1, 2]


def test_redis_persists_only_with_an_append_only_file_that_is_written() -> None:
    """A snapshot alone may lose minutes of calls that were accepted."""
    good = RedisReading(aof_enabled=True, aof_ok=True, rdb_ok=True)

    assert good.persistence_ok
    assert not replace(good, aof_enabled=False).persistence_ok
    assert not replace(good, aof_ok=False).persistence_ok
    assert not replace(good, rdb_ok=False).persistence_ok
