"""What the doctor makes of what was seen: every finding is bad enough, and says what to do.

Is: the judgements, which are pure. Is not: the looking (`integration/test_doctor.py`).
Above: nothing. Below: `toolrail.doctor`.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.fleets import RECORD
from toolrail.doctor.books import judge_balance, judge_due
from toolrail.doctor.finding import Finding, Level
from toolrail.doctor.machine import MIB, judge_disk
from toolrail.doctor.queues import judge_queue
from toolrail.doctor.server import judge_clock, judge_info, judge_latency
from toolrail.doctor.servers import judge_owners, judge_servers_file
from toolrail.doctor.workers import judge_workers
from toolrail.fleet import WorkerRecord
from toolrail.queues import QueueState
from toolrail.registry import Entry, Offer
from toolrail.settings import Settings

HEALTHY: dict[str, object] = {
    "redis_version": "7.2.4",
    "role": "master",
    "maxmemory_policy": "noeviction",
    "maxmemory": 1000 * MIB,
    "used_memory": 100 * MIB,
    "aof_enabled": 1,
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "loading": 0,
    "connected_clients": 10,
    "maxclients": 10_000,
}
QUEUE = QueueState(
    source="mcp",
    queued=0,
    running=0,
    awaiting_approval=0,
    doorbells=0,
    oldest_ms=None,
    workers=1,
    draining=0,
    slots=10,
    busy=0,
)
NOW_MS = 1_000_000
LIVE = replace(RECORD, seen_ms=NOW_MS, last_progress_ms=NOW_MS, started_ms=0)
IDLE: frozenset[str] = frozenset()


def bad(findings: list[Finding]) -> list[tuple[Level, str]]:
    """Return what is not well, each with something to do."""
    found = [finding for finding in findings if finding.level is not Level.OK]
    assert all(finding.fix for finding in found)
    return [(finding.level, finding.subject) for finding in found]


def seen_by_info(**changes: object) -> list[Finding]:
    """Return what a server means that differs from a healthy one."""
    return judge_info({**HEALTHY, **changes}, admission_ratio=0.75, appendfsync="everysec")


def test_a_healthy_server_has_only_good_findings() -> None:
    """Each of them is said all the same."""
    findings = seen_by_info()

    assert bad(findings) == []
    assert {finding.subject for finding in findings} == {
        "redis",
        "eviction",
        "memory",
        "persistence",
    }


@pytest.mark.parametrize(
    ("changes", "level", "subject"),
    [
        ({"redis_version": "6.2.1"}, Level.FAIL, "redis"),
        ({"role": "slave"}, Level.FAIL, "redis"),
        ({"cluster_enabled": 1}, Level.FAIL, "redis"),
        ({"maxmemory_policy": "volatile-lru"}, Level.FAIL, "eviction"),
        ({"maxmemory": 0}, Level.WARN, "memory"),
        ({"used_memory": 650 * MIB}, Level.WARN, "memory"),
        ({"used_memory": 800 * MIB}, Level.FAIL, "memory"),
        ({"aof_enabled": 0}, Level.WARN, "persistence"),
        ({"aof_last_write_status": "err"}, Level.FAIL, "persistence"),
        ({"rdb_last_bgsave_status": "err"}, Level.FAIL, "persistence"),
        ({"aof_last_bgrewrite_status": "err"}, Level.WARN, "persistence"),
        ({"loading": 1}, Level.FAIL, "persistence"),
        ({"connected_clients": 9_000}, Level.WARN, "clients"),
    ],
)
def test_what_is_wrong_with_a_server_is_found(
    changes: dict[str, object], level: Level, subject: str
) -> None:
    """One thing at a time, and nothing beside it."""
    assert bad(seen_by_info(**changes)) == [(level, subject)]


def test_a_server_that_says_little_is_not_accused() -> None:
    """Managed servers hide parts of INFO."""
    findings = judge_info({"redis_version": "7.0.0"}, admission_ratio=0.75, appendfsync="")

    assert bad(findings) == [(Level.WARN, "memory"), (Level.WARN, "persistence")]


def test_an_append_only_file_without_sync_is_found() -> None:
    """It looks durable and is not."""
    findings = judge_info(HEALTHY, admission_ratio=0.75, appendfsync="no")

    assert bad(findings) == [(Level.WARN, "persistence")]


@pytest.mark.parametrize(("latency_s", "level"), [(0.001, "ok"), (0.02, "warn"), (2.0, "fail")])
def test_a_long_way_to_redis_is_found(latency_s: float, level: str) -> None:
    """Every call takes it four times."""
    assert judge_latency(latency_s).level == level


@pytest.mark.parametrize(("skew_s", "level"), [(0.5, "ok"), (-30.0, "warn"), (600.0, "warn")])
def test_a_clock_that_differs_is_found(skew_s: float, level: str) -> None:
    """It breaks nothing, since Redis decides, but misleads whoever compares logs."""
    finding = judge_clock(skew_s)

    assert finding.level == level
    assert ("ahead of" in finding.seen) == (skew_s > 0)


@pytest.mark.parametrize(("free", "level"), [(50, "fail"), (500, "warn"), (5_000, "ok")])
def test_a_disk_that_fills_up_is_found(free: int, level: str) -> None:
    """Before Redis refuses to write."""
    assert judge_disk(Path("x"), free * MIB).level == level


@pytest.mark.parametrize(
    ("changes", "level", "words"),
    [
        ({}, Level.OK, "0 calls wait, 1 workers claim"),
        ({"queued": 3, "oldest_ms": 500}, Level.OK, "3 calls wait"),
        ({"queued": 3, "oldest_ms": 90_000, "busy": 9}, Level.WARN, "9 of 10 slots are busy"),
        ({"queued": 3, "oldest_ms": 90_000, "workers": 0}, Level.FAIL, "waits for 1 m 30 s"),
        ({"queued": 3, "oldest_ms": 1, "draining": 1}, Level.FAIL, "0 workers claim"),
        ({"workers": 0}, Level.WARN, "0 workers claim"),
    ],
)
def test_work_that_nobody_takes_is_found(changes: dict[str, int], level: Level, words: str) -> None:
    """With who could, and for how long it waits."""
    finding = judge_queue(replace(QUEUE, **changes))  # type: ignore[arg-type]  # named above

    assert finding.level is level
    assert words in finding.seen
    assert (finding.fix == "") == (level is Level.OK)


def workers_seen(*workers: WorkerRecord, waiting: frozenset[str] = IDLE) -> list[Finding]:
    """Return what records mean to a program of version 1."""
    return judge_workers(workers, now_ms=NOW_MS, settings=Settings(), version="1", waiting=waiting)


def test_workers_that_are_well_are_summed_up() -> None:
    """In one line."""
    [finding] = workers_seen(LIVE, replace(LIVE, worker="w2"))

    assert finding.level is Level.OK
    assert finding.seen == "2 builtin; 6 of 20 slots busy; version 1"


@pytest.mark.parametrize(
    ("changes", "waiting", "level", "words"),
    [
        ({"draining": True}, IDLE, Level.WARN, "drains, 3 calls"),
        ({"seen_ms": NOW_MS - 20_000}, IDLE, Level.WARN, "silent for 20 s"),
        ({"loop_lag_ms": 5_000}, IDLE, Level.WARN, "blocked for 5000 ms"),
        ({"last_progress_ms": 1}, {"builtin"}, Level.FAIL, "has taken nothing for 16 m"),
        ({"version": "2"}, IDLE, Level.WARN, "workers run 2, this program is 1"),
    ],
)
def test_a_worker_that_is_not_well_is_found(
    changes: dict[str, object], waiting: frozenset[str], level: Level, words: str
) -> None:
    """By its own record."""
    [finding] = workers_seen(
        replace(LIVE, **changes),  # type: ignore[arg-type]  # named above
        waiting=frozenset(waiting),
    )

    assert finding.level is level
    assert words in finding.seen
    assert finding.fix


def test_a_worker_that_has_nothing_to_take_is_not_stuck() -> None:
    """Nor is one whose slots are all busy."""
    quiet = replace(LIVE, last_progress_ms=1)
    full = replace(quiet, busy=10)

    assert bad(workers_seen(quiet, waiting=frozenset({"mcp"}))) == []
    assert bad(workers_seen(full, waiting=frozenset({"builtin"}))) == []


def test_mixed_versions_and_builds_are_found() -> None:
    """A roll-out that was never finished."""
    findings = workers_seen(LIVE, replace(LIVE, worker="w2", version="2", build="b2"))

    assert bad(findings) == [(Level.WARN, "workers")] * 2
    assert findings[0].seen == "versions are mixed: 1 of 1, 1 of 2"
    assert findings[1].seen == "builds are mixed: 1 of b1, 1 of b2"


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ({"accepted:mcp": 3, "finished:mcp:ok": 2, "open:mcp:queued": 1}, "every accepted call"),
        ({"accepted:mcp": 3, "finished:mcp:ok": 1}, "2 calls are lost"),
        ({"accepted:mcp": 3, "finished:mcp:ok": 4}, "1 calls are counted twice"),
    ],
)
def test_books_that_do_not_balance_are_found(totals: dict[str, int], words: str) -> None:
    """Accepted is finished plus open, always."""
    finding = judge_balance(totals)

    assert words in finding.seen
    assert (finding.level is Level.OK) == words.startswith("every")


@pytest.mark.parametrize(
    ("late", "has_leader", "has_workers", "levels"),
    [
        ([], True, True, [Level.OK]),
        ([], False, True, [Level.WARN]),
        ([], False, False, []),
        (["3 leases"], True, True, [Level.FAIL]),
        (["3 leases"], False, False, [Level.FAIL]),
    ],
)
def test_what_nobody_settles_is_found(
    late: list[str], has_leader: bool, has_workers: bool, levels: list[Level]
) -> None:
    """Overdue work is worse than a reaper that nobody has missed yet."""
    found = list(judge_due(late, has_leader=has_leader, has_workers=has_workers))

    assert [finding.level for finding in found] == levels


def offer(worker: str, *, live: bool = True, up: bool = True, reason: str = "") -> Offer:
    """Return what a worker said of an owner without tools."""
    entry = Entry(specs="", available=up, reason=reason, since_us=1)
    return Offer(worker=worker, entry=entry, is_live=live, was_live=True, specs={})


@pytest.mark.parametrize(
    ("offers", "level", "words"),
    [
        ([offer("a"), offer("b")], Level.OK, "up in 2 of 2 workers"),
        ([offer("a"), offer("b", up=False, reason="It is down.")], Level.WARN, "up in 1 of 2"),
        ([offer("a", up=False, reason="It is down.")], Level.FAIL, "0 tools. It is down."),
        ([offer("a", up=False)], Level.FAIL, "No reason was given."),
        ([offer("a", live=False, up=False)], Level.WARN, "no live worker has it"),
    ],
)
def test_an_mcp_server_that_is_down_is_found_with_its_reason(
    offers: list[Offer], level: Level, words: str
) -> None:
    """As the workers that live give it."""
    [finding] = judge_owners("mcp", {"files": offers})

    assert finding.level is level
    assert finding.seen.startswith("MCP server files: ")
    assert words in finding.seen


def test_the_reason_of_a_server_tells_no_credential() -> None:
    """A server may print what it was given."""
    reason = "It said: Authorization: Bearer abcdefghijklmnop1234"
    [finding] = judge_owners("mcp", {"files": [offer("a", up=False, reason=reason)]})

    assert "abcdefghijklmnop1234" not in finding.seen


@pytest.mark.parametrize(
    ("text", "level", "words"),
    [
        ('{"mcpServers": {"files": {}, "off": {"disabled": true}}}', Level.OK, "names 1 servers"),
        ('{"servers": {"files": {}, "web": {"url": "http://x"}}}', Level.WARN, "has: web"),
        ("{", Level.FAIL, "cannot be read"),
        ("[]", Level.FAIL, "mcpServers"),
        ('{"mcpServers": {"files": 1}}', Level.FAIL, "mcpServers"),
        ("\xff\xfe", Level.FAIL, "cannot be read"),
        (None, Level.FAIL, "No such file"),
    ],
)
def test_a_servers_file_is_compared_with_what_workers_have(
    tmp_path: Path, text: str | None, level: Level, words: str
) -> None:
    """Its names only; what a server is given stays in the file."""
    file = tmp_path / "servers.json"
    if text is not None:
        file.write_text(text, encoding="latin-1")
    [finding] = judge_servers_file(file, {"files": [offer("a")], "web": [offer("a", live=False)]})

    assert finding.level is level
    assert words in finding.seen
