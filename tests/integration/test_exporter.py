"""The exporter on real servers: what it reads, and what it says while Redis is away.

Is: reader, page and loop, in this process, and the command as a process. Is not: what a page looks
like (`tests/unit/test_fleet_metrics.py`). Above: nothing. Below: `toolrail.metrics`.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.calls import LedgerBench, ledger_bench
from tests.redis_users import user_redis
from tests.scrapes import Scrape, scrape
from tests.servers import StartRedis, absent, redis_program
from tests.waiting import await_until, wait_until
from toolrail.fleet import Fleet, WorkerRecord
from toolrail.ledger import Claim
from toolrail.metrics.exporter import Exporter
from toolrail.metrics.page import Page
from toolrail.metrics.reader import FleetReader
from toolrail.metrics.serve import Server
from toolrail.redis_io import command
from toolrail.settings import Settings
from toolrail.supervisor.state import find_cluster
from toolrail.testing import Cluster

HOUR_MS = 3_600_000


@pytest.fixture
async def bench(settings: Settings) -> AsyncIterator[LedgerBench]:
    """Give a bench."""
    async with ledger_bench(settings) as bench:
        yield bench


async def shown(bench: LedgerBench, reader: FleetReader | None = None) -> Scrape:
    """Return what an exporter would show now."""
    page = Page()
    page.show(await (reader or reader_of(bench)).read())
    return Scrape(page.text().decode())


def reader_of(bench: LedgerBench) -> FleetReader:
    """Return a reader that has seen nothing."""
    return FleetReader(bench.redis, prefix=bench.settings.key_prefix, clock=lambda: 1_000.0)


@asynccontextmanager
async def exporting(settings: Settings) -> AsyncGenerator[str]:
    """Run an exporter on a free port; give its address."""
    stop, ready = asyncio.Event(), asyncio.Event()
    servers: list[Server] = []

    def note(server: Server) -> None:
        servers.append(server)
        ready.set()

    exporter = Exporter(settings.model_copy(update={"metrics_port": 0}))
    task = asyncio.create_task(exporter.run(stop, on_ready=note))
    await ready.wait()
    try:
        yield f"http://{servers[0].address}"
    finally:
        stop.set()
        await task


async def scraped(url: str) -> Scrape:
    """Return the answer to a scrape, while the loop goes on."""
    return await asyncio.to_thread(scrape, f"{url}/metrics")


async def test_what_happened_is_what_is_shown(bench: LedgerBench) -> None:
    """One call finished, one running, one queued, one parked: each where it belongs."""
    for call_id in ("done", "running", "queued"):
        await bench.ledger.dispatch(bench.new_call(call_id))
    await bench.ledger.dispatch(await bench.parked_call("parked"))
    for call_id in ("done", "running"):
        claim = await bench.ledger.claim(
            bench.run_id, bench.key(call_id), attempt=1, nonce="n", worker="w", lease_ms=60_000
        )
        assert isinstance(claim, Claim)
    await bench.ledger.finish(
        bench.run_id, bench.key("done"), await bench.ending("done"), fence=1, actor="w"
    )
    seen = await shown(bench)

    assert seen['toolrail_calls_accepted_total{source="builtin"}'] == 4
    assert seen['toolrail_calls_finished_total{outcome="ok",source="builtin"}'] == 1
    for state in ("queued", "running", "awaiting_approval"):
        assert seen[f'toolrail_calls_open{{source="builtin",state="{state}"}}'] == 1
    assert seen["toolrail_calls_unaccounted"] == 0
    assert seen.sum("toolrail_tool_calls_total", tool="demo.echo") == 1
    assert seen.sum("toolrail_tool_duration_seconds_count", tool="demo.echo") == 1
    assert seen.sum("toolrail_queue_wait_seconds_count") == 2
    assert seen['toolrail_queue_depth{source="builtin"}'] == 1
    assert seen['toolrail_queue_doorbells{source="builtin"}'] == 3
    assert seen['toolrail_approvals_pending{source="builtin"}'] == 1
    assert seen["toolrail_runs_open"] == 1
    assert seen['toolrail_stream_length{stream="journal"}'] >= 4
    assert seen["toolrail_redis_up"] == 1
    assert seen["toolrail_redis_memory_used_bytes"] > 0


async def test_the_oldest_call_is_told_even_when_it_was_rung_for_again(
    bench: LedgerBench,
) -> None:
    """Its new doorbell puts it at the end; its age stays."""
    for call_id in ("old", "new"):
        await bench.ledger.dispatch(bench.new_call(call_id))
    key = bench.keys.call(bench.run_id, bench.key("old"))
    await command(bench.redis, "HINCRBY", key, "queued_ms", -HOUR_MS)
    member = f"{bench.run_id}|{bench.key('old')}"
    ring = await bench.reader.ring_number("builtin", member)
    assert ring is not None
    await bench.ledger.ring(bench.run_id, bench.key("old"), attempt=1, ring=ring, envelope="x")
    seen = await shown(bench)

    assert 3_600 <= seen['toolrail_queue_oldest_age_seconds{source="builtin"}'] < 7_200
    assert seen['toolrail_queue_oldest_age_seconds{source="mcp"}'] == 0


async def test_each_source_tells_since_when_its_oldest_question_waits(bench: LedgerBench) -> None:
    """Exactly, although many that were asked later, of it and of others, expire earlier."""
    for n in range(120):
        await bench.ledger.dispatch(await bench.parked_call(f"b{n}", expires_in_ms=60_000))
    for queue, expires_in_ms in {"mcp": 30_000, "builtin": HOUR_MS}.items():
        late = await bench.parked_call(queue, expires_in_ms=expires_in_ms)
        await bench.ledger.dispatch(replace(late, fields={**late.fields, "queue": queue}))
        member = f"{bench.run_id}|{bench.key(queue)}"
        await command(bench.redis, "ZINCRBY", bench.keys.asked(queue), -HOUR_MS, member)
        await command(bench.redis, "HINCRBY", bench.keys.call_of(member), "accepted_ms", -HOUR_MS)
    seen = await shown(bench)

    assert seen['toolrail_approvals_pending{source="builtin"}'] == 121
    for queue in ("mcp", "builtin"):
        age = seen[f'toolrail_approval_oldest_age_seconds{{source="{queue}"}}']
        assert 3_600 <= age < 7_200
    assert seen['toolrail_approval_oldest_age_seconds{source="extension"}'] == 0


async def test_dead_letters_are_counted_until_they_are_handled(bench: LedgerBench) -> None:
    """By source; one whose record is gone is nobody's."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    zset, member = bench.keys.dead_letters, f"{bench.run_id}|{bench.key('c1')}"
    reader = reader_of(bench)
    await command(bench.redis, "ZADD", zset, 5, member, 6, "run_gone|abc")
    both = await shown(bench, reader)
    await command(bench.redis, "ZREM", zset, member)
    one = await shown(bench, reader)

    assert both['toolrail_dead_letters{source="builtin"}'] == 1
    assert both['toolrail_dead_letters{source="none"}'] == 1
    assert one.sum("toolrail_dead_letters") == 1


async def test_live_workers_are_counted_where_they_serve(bench: LedgerBench) -> None:
    """A worker of two sources counts in both; one whose record ran out in none."""
    fleet = Fleet(bench.redis, prefix=bench.settings.key_prefix, deadline_s=5)
    for name, sources in {"a": ("mcp",), "b": ("builtin", "mcp")}.items():
        await fleet.say(worker_record(name, sources, await fleet.now_ms()), ttl_ms=60_000)
    await fleet.say(worker_record("c", ("mcp",), await fleet.now_ms() - HOUR_MS), ttl_ms=60_000)
    seen = await shown(bench)

    assert seen['toolrail_workers{source="mcp"}'] == 2
    assert seen['toolrail_workers{source="builtin"}'] == 1
    assert seen['toolrail_workers{source="extension"}'] == 0


def worker_record(name: str, sources: tuple[str, ...], seen_ms: int) -> WorkerRecord:
    """Return what a worker says of itself."""
    return WorkerRecord(
        worker=name,
        sources=sources,
        queues=sources,
        slots=1,
        busy=0,
        draining=False,
        pid=1,
        host="h",
        version="0",
        build="",
        started_ms=seen_ms,
        seen_ms=seen_ms,
        metrics_address="",
        loop_lag_ms=0,
        last_progress_ms=0,
    )


@pytest.mark.one_redis
async def test_the_exporter_answers_before_during_and_after_an_outage(
    settings: Settings, start_redis: StartRedis
) -> None:
    """What it read last stays shown with its time; readiness says that it is old."""
    server = start_redis()
    settings = settings.model_copy(update={"redis_url": server.url})
    async with ledger_bench(settings) as bench, exporting(settings) as url:
        await bench.ledger.dispatch(bench.new_call("c1"))
        accepted = 'toolrail_calls_accepted_total{source="builtin"}'

        async def is_up(up: int, calls: int) -> bool:
            seen = await scraped(url)
            is_read = not calls or (seen.has("toolrail_runs_open") and seen[accepted] == calls)
            return seen["toolrail_redis_up"] == up and is_read

        await await_until(lambda: is_up(1, 1), "the first call")
        assert await status(url, "/readyz") == 200
        os.kill(server.pid, signal.SIGSTOP)
        await await_until(lambda: is_up(0, 1), "the outage to show", timeout_s=15)
        stale = await scraped(url)
        assert await status(url, "/readyz") == 503
        assert await status(url, "/healthz") == 200
        os.kill(server.pid, signal.SIGCONT)
        await await_until(lambda: is_up(1, 1), "the server to be back", timeout_s=15)
        server.stop()
        await await_until(lambda: is_up(0, 1), "the end to show", timeout_s=15)
        later = await scraped(url)

    name = "toolrail_exporter_last_success_timestamp_seconds"
    assert stale[name] < later[name]
    assert later.sum("toolrail_build_info") == 1


async def status(url: str, path: str) -> int:
    """Return the status of an answer."""

    def ask() -> int:
        try:
            with urllib.request.urlopen(url + path, timeout=5) as answer:  # noqa: S310  # ours
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    return await asyncio.to_thread(ask)


@pytest.mark.one_redis
async def test_totals_that_cannot_be_read_do_not_end_it(bench: LedgerBench) -> None:
    """A hand or another version wrote there; what is known stays, and the log has the trace."""
    async with exporting(bench.settings) as url:

        async def up() -> float:
            return (await scraped(url))["toolrail_redis_up"]

        async def is_down() -> bool:
            return await up() == 0

        await await_until(up, "the first reading")
        await command(bench.redis, "HSET", bench.keys.totals, "accepted:mcp", "many")
        await await_until(is_down, "the trouble to show")
        await command(bench.redis, "HDEL", bench.keys.totals, "accepted:mcp")
        await await_until(up, "the next reading")


@pytest.mark.one_redis
async def test_the_right_to_read_is_enough(redis_kind: str, tmp_path: Path) -> None:
    """The exporter's user in `compose/` may write nothing, and is refused nothing."""
    with user_redis(redis_program(redis_kind), tmp_path / "redis") as server:
        async with ledger_bench(server.settings("client")) as bench:
            for call_id in ("c1", "c2"):
                await bench.ledger.dispatch(bench.new_call(call_id))
            await bench.ledger.dispatch(await bench.parked_call("c3"))
            async with exporting(server.settings("exporter")) as url:

                async def is_read() -> bool:
                    return (await scraped(url))["toolrail_redis_up"] == 1

                await await_until(is_read, "a reading")
                seen = await scraped(url)
        refused = server.refused()

    assert seen['toolrail_calls_accepted_total{source="builtin"}'] == 3
    assert seen["toolrail_redis_persistence_ok"] == 1
    assert refused == []


@pytest.mark.one_redis
async def test_prometheus_own_linter_is_content(bench: LedgerBench) -> None:
    """Names, types and help texts of the whole page."""
    await bench.ledger.dispatch(bench.new_call("c1"))
    page = Page()
    page.show(await reader_of(bench).read())

    assert await asyncio.to_thread(lint, page.text()) == (0, "")


def lint(text: bytes) -> tuple[int, str]:
    """Return the code of `promtool check metrics` and what it says."""
    promtool = shutil.which("promtool") or absent("apt-get install prometheus")
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.mark.one_redis
def test_the_command_serves_and_ends_at_once_on_sigterm(
    settings: Settings, start_redis: StartRedis
) -> None:
    """Exit code 0, also while Redis hangs in the middle of a read."""
    server = start_redis()
    env = settings.model_copy(update={"redis_url": server.url}).to_env()
    process = subprocess.Popen(
        [sys.executable, "-m", "toolrail", "exporter", "--port", "0"],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        wait_until(lambda: scrape(url)["toolrail_redis_up"] == 1, "a reading")
        os.kill(server.pid, signal.SIGSTOP)
        wait_until(lambda: scrape(url)["toolrail_redis_up"] == 0, "the outage", timeout_s=15)
        process.terminate()
        code = process.wait(10)
    finally:
        os.kill(server.pid, signal.SIGCONT)
        process.kill()
        process.communicate()

    assert code == 0


@pytest.mark.one_redis
def test_a_taken_port_ends_the_command_with_a_sentence(settings: Settings) -> None:
    """The exporter is of no use unseen, so it does not go on as a worker would."""
    done = subprocess.run(
        [sys.executable, "-m", "toolrail", "exporter", "--host", "192.0.2.1", "--port", "9464"],
        env=settings.to_env(),
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert done.returncode == 1
    assert "Cannot listen on 192.0.2.1:9464 for metrics" in done.stderr


@pytest.mark.one_redis
async def test_a_cluster_shows_its_totals_when_asked_to(settings: Settings, tmp_path: Path) -> None:
    """As one more child, whose address stands in the state file."""
    async with Cluster(tmp_path, settings=settings, scale={}, exports=True) as cluster:
        seen = await asyncio.to_thread(scrape, cluster.metrics_url)
        state = find_cluster(settings.state_dir)
        assert state is not None
        told = [f"http://{child.address}/metrics" for child in state.children]

        assert told == [cluster.metrics_url]
    assert seen.has("toolrail_redis_up")
