"""What a worker counts of extensions' sessions, with a real Redis between."""

from collections.abc import AsyncGenerator

import pytest

from tests.exposed import check_series, exposed
from tests.extension_bench import ExtensionBench, RawExtension, extension_bench
from tests.waiting import await_until
from toolrail.extension import Extension
from toolrail.extension.bridge import Presence
from toolrail.metrics.registry import ProcessRegistry
from toolrail.settings import Settings
from toolrail_workers.extension.metrics import NAMES_MAX, SessionMetrics

CONNECTIONS = "toolrail_extension_connections"
DISCONNECTS = "toolrail_extension_disconnects_total"

pytestmark = pytest.mark.one_redis


@pytest.fixture
async def bench(settings: Settings) -> AsyncGenerator[ExtensionBench]:
    """Give an executor that looks often."""
    async with extension_bench(settings) as bench:
        yield bench


def count(bench: ExtensionBench, name: str, **labels: str) -> float:
    """Return a metric's value, 0 when there is none yet."""
    found = [s for s in exposed(bench.registry) if s.name == name]
    return sum(s.value for s in found if labels.items() <= s.labels.items())


async def ended(bench: ExtensionBench, reason: str) -> None:
    """Return when one session has ended for a reason, and none for another."""
    await await_until(lambda: count(bench, DISCONNECTS, reason=reason) == 1, f"an end: {reason}")
    assert count(bench, DISCONNECTS) == 1
    check_series(exposed(bench.registry))


async def test_an_extension_is_connected_until_it_says_goodbye(bench: ExtensionBench) -> None:
    """One session while it serves, none afterwards, and it left by itself."""
    demo = Extension("demo", version="1", settings=bench.settings)

    @demo.tool
    async def work() -> str:
        """Work."""
        return "done"

    async with bench.serving(demo):
        during = count(bench, CONNECTIONS, extension="demo")
    await ended(bench, "left")

    assert during == 1
    assert count(bench, CONNECTIONS, extension="demo") == 0


async def test_an_extension_that_falls_silent_is_lost(bench: ExtensionBench) -> None:
    """It gave no sign: its process died, or the network between."""
    raw = RawExtension(bench)
    await raw.open(dead_after_s=0.2)
    await bench.wait_available("raw")

    await ended(bench, "lost")


async def test_a_session_that_the_backend_ends_is_a_broken_rule(bench: ExtensionBench) -> None:
    """Every worker counts it so, also those that did not end it themselves."""
    raw = RawExtension(bench)
    await raw.open()
    await bench.wait_available("raw")
    await bench.bridge.close("raw", raw.hello.nonce, reason="It cheated.")

    await ended(bench, "protocol")


def presence(extension: str, session: str) -> Presence:
    """Return one listed extension."""
    return Presence(extension=extension, digest="d", session=session, leaving=False)


def ends_of(registry: ProcessRegistry) -> dict[str, float]:
    """Return how many sessions ended, by reason."""
    samples = [s for s in exposed(registry) if s.name == DISCONNECTS and s.value]
    return {s.labels["reason"]: s.value for s in samples}


def test_a_session_that_was_replaced_between_two_looks_has_ended() -> None:
    """Seen by its new name; after a goodbye it had left, however quickly the next one came."""
    registry = ProcessRegistry()
    metrics = SessionMetrics(registry)
    metrics.saw([presence("demo", "first")])
    metrics.saw([presence("demo", "second")])
    once = ends_of(registry)
    for change in ("leaving", "closed", "open"):
        metrics.heard("demo", change)
    metrics.saw([presence("demo", "third")])

    assert once == {"replaced": 1}
    assert ends_of(registry) == {"replaced": 1, "left": 1}


def test_hints_of_sessions_before_our_time_say_nothing_of_this_one() -> None:
    """A worker that starts reads the hints of a whole day."""
    registry = ProcessRegistry()
    metrics = SessionMetrics(registry)
    for change in ("open", "leaving", "closed", "open", "refused", "open"):
        metrics.heard("demo", change)
    metrics.saw([presence("demo", "now")])
    metrics.saw([])

    assert ends_of(registry) == {"lost": 1}


def test_thousands_of_names_are_few_series() -> None:
    """Whoever may register may choose names; the first have theirs, the others are one."""
    registry = ProcessRegistry()
    metrics = SessionMetrics(registry)
    metrics.saw([presence(f"made-up-{number}", "s") for number in range(10_000)])
    metrics.saw([])
    samples = exposed(registry)

    assert len(samples) == (NAMES_MAX + 1) * (1 + 4)
    assert sum(s.value for s in samples if s.name == DISCONNECTS) == 10_000
    check_series(samples)
