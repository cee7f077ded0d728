"""`toolrail doctor` beside real servers: it finds what is wrong, and changes nothing.

Is: what is looked at, and the exit code. Is not: what it means (`unit/test_doctor.py`).
Above: nothing. Below: `toolrail.doctor`, `tests/cli.py`.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import pytest
import redis
import redis.asyncio

from tests.cells import Cell, open_cell, opened, write_policy
from tests.cli import Cli, Said
from tests.fleets import appear
from tests.servers import StartRedis
from toolrail import CallRequest, Settings
from toolrail.doctor import Finding, Level, examine
from toolrail.doctor.machine import check_settings
from toolrail.fleet import Fleet
from toolrail.redis_io import command
from toolrail.registry import Registry


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client under the policy of these tests."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


def of(findings: list[Finding], subject: str) -> list[Finding]:
    """Return the findings of one subject."""
    return [finding for finding in findings if finding.subject == subject]


def fails(findings: list[Finding]) -> list[str]:
    """Return the subjects of what does not work."""
    return [finding.subject for finding in findings if finding.level is Level.FAIL]


async def test_a_healthy_cell_is_exit_code_0(
    cell: Cell, cli: Cli, redis_client: redis.Redis
) -> None:
    """Every noun is looked at; as lines and as JSON; nothing in Redis changes."""
    fleet = Fleet(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)
    await appear(fleet, "w1", "builtin", "mcp", "extension", version="")
    await command(cell.bench.redis, "SET", cell.bench.keys.reaper_leader, "w1", "EX", 60)
    before = dump(redis_client)
    said = await cli.within("doctor")
    rows = (await cli.within("doctor", "--json")).rows()

    assert said.code == 0
    assert {str(row["subject"]) for row in rows} >= {
        *("python", "packages", "settings", "secret", "cluster", "policy", "tools", "disk"),
        *("redis", "eviction", "memory", "persistence", "latency", "clock"),
        *("ledger", "reaper", "approvals", "letters", "queues", "workers"),
    }
    assert {row["level"] for row in rows} <= {"ok", "warn"}
    assert dump(redis_client) == before
    assert "ok    ledger       every accepted call is finished or open" in said.lines


def dump(client: redis.Redis) -> dict[bytes, object]:
    """Return every key with its content, as Redis would write it."""
    return {key: client.dump(key) for key in cast("list[bytes]", client.keys("*"))}


@pytest.mark.one_redis
async def test_a_server_that_may_throw_calls_away_is_a_failure(settings: Settings) -> None:
    """maxmemory-policy must be noeviction."""
    async with redis.asyncio.Redis.from_url(settings.redis_url) as client:
        await client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            findings = await examine(settings)
        finally:
            await client.config_set("maxmemory-policy", "noeviction")

    assert fails(findings) == ["eviction"]
    assert of(findings, "eviction")[0].fix == "CONFIG SET maxmemory-policy noeviction"


async def test_memory_persistence_and_replicas_are_seen(start_redis: StartRedis) -> None:
    """On a server that was told so, not in a made-up INFO."""
    server, primary = start_redis(), start_redis()
    settings, other = Settings(redis_url=server.url), urlsplit(primary.url)
    with redis.Redis.from_url(server.url) as client:
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", int(used / 0.9))
        full = await examine(settings)
        client.config_set("maxmemory", 0)
        client.config_set("masterauth", other.password or "")
        client.replicaof(other.hostname or "", str(other.port))
        replica = await examine(settings)

    assert fails(full) == ["memory"]
    assert "new calls are refused above 75%" in of(full, "memory")[0].seen
    assert [finding.level for finding in of(full, "persistence")] == [Level.WARN]
    assert "it is a replica, which takes no writes" in [f.seen for f in of(replica, "redis")]


@pytest.mark.one_redis
async def test_a_user_who_may_not_look_is_told_what_he_needs(
    settings: Settings, redis_client: redis.Redis
) -> None:
    """Without INFO the rest is looked at all the same."""
    redis_client.acl_setuser(
        "narrow", enabled=True, passwords=["+narrow"], keys=["*"], commands=["+@all", "-info"]
    )
    url = settings.redis_url.replace("redis://", "redis://narrow:narrow@", 1)
    if "@" in settings.redis_url:
        url = "redis://narrow:narrow@" + settings.redis_url.rpartition("@")[2]
    findings = await examine(settings.model_copy(update={"redis_url": url}))
    redis_client.acl_deluser("narrow")

    assert fails(findings) == ["redis"]
    assert "INFO" in of(findings, "redis")[0].fix
    assert of(findings, "queues")
    assert not any("narrow:narrow" in finding.seen for finding in findings)


async def test_a_given_server_that_is_down_is_a_failure() -> None:
    """Its URL is shown without the password."""
    findings = await examine(Settings(redis_url="redis://:hush@127.0.0.1:1/0"))

    assert fails(findings) == ["redis"]
    assert "redis://:***@127.0.0.1:1/0" in of(findings, "redis")[0].seen
    assert "hush" not in str(findings)


async def test_work_that_nobody_takes_is_a_failure(cell: Cell, cli: Cli) -> None:
    """Calls wait, leases are long over, and there is no worker."""
    run = await opened(cell, approval_mode="interactive")
    await run.dispatch(CallRequest(id="c1", name="demo.echo", arguments={"text": "a"}))
    await run.dispatch(CallRequest(id="c2", name="demo.ask", arguments={"text": "a"}))
    bench = cell.bench
    await command(bench.redis, "ZADD", bench.keys.leases, 1, "run_x|y")
    await command(bench.redis, "ZADD", bench.keys.dead_letters, 1, "run_x|y")
    said = await cli.within("doctor", "--json")
    await command(bench.redis, "DEL", bench.keys.leases, bench.keys.dead_letters)
    await run.cancel()

    assert said.code == 1
    assert levels(said, "queues") == ["fail", "warn", "warn"]
    assert levels(said, "reaper") == ["fail"]
    assert levels(said, "letters") == levels(said, "workers") == ["warn"]
    assert "1 calls wait for a person" in str(said.rows())


def levels(said: Said, subject: str) -> list[object]:
    """Return the levels of a subject's findings."""
    return [row["level"] for row in said.rows() if row["subject"] == subject]


async def test_books_that_do_not_balance_are_a_failure(cell: Cell) -> None:
    """One call more accepted than the ledger knows of."""
    bench = cell.bench
    await command(bench.redis, "HINCRBY", bench.keys.totals, "accepted:builtin", 1)
    findings = await examine(cell.settings)
    await command(bench.redis, "HINCRBY", bench.keys.totals, "accepted:builtin", -1)

    assert fails(findings) == ["ledger"]
    assert "1 calls are lost" in of(findings, "ledger")[0].seen


async def test_an_empty_place_is_told_with_its_name(settings: Settings) -> None:
    """Another prefix or database is the usual reason."""
    findings = await examine(settings)

    assert fails(findings) == []
    assert f"under {settings.key_prefix} in redis://" in of(findings, "ledger")[0].seen


async def test_mcp_servers_are_up_or_say_why_not(
    settings: Settings, cell: Cell, tmp_path: Path
) -> None:
    """What workers announce, refused and failed servers too, and what the file names beside it."""
    file = tmp_path / "servers.json"
    file.write_text('{"mcpServers": {"up": {}, "down": {}, "web": {"url": "x"}, "lost": {}}}')
    registry = Registry(cell.bench.redis, prefix=settings.key_prefix, deadline_s=5)
    for name, available, reason in (
        ("up", True, ""),
        ("down", False, "It ended with exit code 3."),
        ("web", False, "It is reached by URL, which is not supported."),
    ):
        await registry.announce("mcp", name, (), worker="w", available=available, reason=reason)
    findings = await examine(settings.model_copy(update={"mcp_servers_file": file}))
    seen = [(finding.level.value, finding.seen) for finding in of(findings, "mcp")]

    assert seen[0] == (
        "fail",
        "MCP server down: up in 0 of 1 workers, 0 tools. It ended with exit code 3.",
    )
    assert seen[1][0] == "ok"
    assert "reached by URL" in seen[2][1]
    assert seen[3] == ("warn", f"{file} names servers that no live worker has: lost")


@pytest.mark.parametrize("content", [None, "{bad", "[]"])
async def test_a_servers_file_that_cannot_be_read_is_told_without_a_cell(
    tmp_path: Path, content: str | None
) -> None:
    """A worker would refuse to start with it, so doctor says it before."""
    file = tmp_path / "servers.json"
    if content is not None:
        file.write_text(content)
    findings = check_settings(Settings(state_dir=tmp_path, mcp_servers_file=file))
    [seen] = of(findings, "mcp")

    assert seen.level.value == "fail"
    assert f"{file} cannot be read" in seen.seen


@pytest.mark.parametrize(
    ("variable", "value", "subject"),
    [
        ("TOOLRAIL_SLOTS", "many", "settings"),
        ("TOOLRAIL_SECRET_FILE", "/nowhere/secret", "settings"),
        ("TOOLRAIL_POLICY_DIR", "/nowhere/policy", "policy"),
        ("TOOLRAIL_TOOL_MODULES", "no.such.module", "tools"),
        ("TOOLRAIL_MCP_SERVERS_FILE", "/nowhere/servers.json", "mcp"),
        ("TOOLRAIL_BROKER_URL", "redis://:hush@127.0.0.1:1/0", "broker"),
    ],
)
@pytest.mark.one_redis
def test_settings_that_name_what_is_not_there_are_failures(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, subject: str
) -> None:
    """By the variable that is wrong, or the noun that suffers, with what to do."""
    if variable == "TOOLRAIL_SECRET_FILE":
        monkeypatch.delenv("TOOLRAIL_SECRET")
    monkeypatch.setenv(variable, value)
    said = cli("doctor", "--json")
    failed = [row for row in said.rows() if row["level"] == "fail"]

    assert said.code == 1
    assert [row["subject"] for row in failed] == [subject]
    assert failed[0]["fix"]
    assert "hush" not in said.out


def test_no_secret_and_no_cluster_are_told_and_are_no_failures(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine of an operator may have neither."""
    monkeypatch.delenv("TOOLRAIL_SECRET")
    said = cli("doctor", "--json")

    assert said.code == 0
    assert levels(said, "secret") == levels(said, "cluster") == ["warn"]
