"""The users of `compose/redis/users.acl.in`: each can do its work, and nothing else.

Is: real workers, clients and extensions under their users, and what is refused to whom. Is not: a
container (`make compose-smoke`). Above: nothing. Below: `tests/redis_users.py`.
"""

import asyncio
import json
import sys
import urllib.request
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoPermissionError
from redis.retry import Retry

from tests.extensions.dice import create_dice
from tests.mcp_servers import sdk_entry
from tests.redis_users import ROLES, UserRedis, make_secrets, user_redis
from tests.servers import redis_program
from tests.waiting import await_until
from toolrail import CallRequest, Run, Toolrail, exit_codes
from toolrail.ledger import LedgerReader, unaccounted
from toolrail.metrics.exporter import Exporter
from toolrail.metrics.serve import Server
from toolrail.redis_io import connect
from toolrail.settings import Settings, own_environment
from toolrail.supervisor.console import KeepingSink
from toolrail.supervisor.spec import ChildSpec, ReadyLine
from toolrail.supervisor.supervisor import Supervisor
from toolrail_schemas import ApprovalMode

BOUND_S = 30.0

FORBIDDEN_TO_ALL = (
    "FLUSHALL",
    "FLUSHDB",
    "KEYS *",
    "SCAN 0",
    "RANDOMKEY",
    "DBSIZE",
    "CONFIG GET *",
    "CONFIG SET maxmemory 1",
    "ACL LIST",
    "ACL SETUSER me",
    "CLIENT LIST",
    "CLIENT KILL TYPE normal",
    "CLIENT PAUSE 1",
    "MONITOR",
    "PFSELFTEST",
    "SAVE",
    "BGREWRITEAOF",
    "SHUTDOWN NOSAVE",
    "REPLICAOF NO ONE",
    "MODULE LIST",
    "SLOWLOG GET",
    "LATENCY RESET",
    "SWAPDB 0 1",
    "MOVE toolrail:runs 1",
    "MIGRATE h 1 toolrail:runs 0 1",
    "SORT toolrail:runs",
    "SCRIPT FLUSH",
    "FUNCTION FLUSH",
    "FUNCTION LIST",
    "PUBLISH channel x",
    "SUBSCRIBE channel",
    "GET elsewhere",
    "SET elsewhere 1",
    "COPY toolrail:runs elsewhere",
    "RENAME toolrail:runs elsewhere",
)
OPERATOR = (
    ("doctor",),
    ("workers",),
    ("queues",),
    ("runs", "--json"),
    ("dlq", "list"),
    ("approvals", "list"),
    ("drain", "--all"),
)
SCRIPTED = "EVAL return(redis.call('{}')) 0"
FORBIDDEN_TO = {
    "client": (SCRIPTED.format("FLUSHALL"), SCRIPTED.format("GET','elsewhere"), "PSYNC ? -1"),
    "worker": (SCRIPTED.format("FLUSHALL"), SCRIPTED.format("GET','elsewhere"), "SYNC"),
    "extension": (
        "HGETALL toolrail:run:run_1",
        "BLMPOP 0.01 1 toolrail:extension RIGHT",
        "LPUSH toolrail:builtin x",
        "HSET toolrail:registry:mcp:x y z",
        SCRIPTED.format("DEL','toolrail:runs"),
        "GET toolrail:policy:x",
    ),
    "exporter": (
        "SET toolrail:x 1",
        "DEL toolrail:totals",
        "LPOP toolrail:builtin",
        "EXPIRE toolrail:totals 1",
        SCRIPTED.format("DEL','toolrail:totals"),
        "MULTI",
    ),
    "backup": ("GET toolrail:totals", "INFO", "SET toolrail:x 1", "SELECT 0", "EVAL return(1) 0"),
}


@pytest.fixture
def server(redis_kind: str, tmp_path: Path) -> Iterator[UserRedis]:
    """A server as `compose/` configures it."""
    with user_redis(redis_program(redis_kind), tmp_path / "cell") as server:
        yield server


@asynccontextmanager
async def running_worker(
    server: UserRedis, tmp_path: Path, *, sink: KeepingSink
) -> AsyncGenerator[Supervisor]:
    """Run a worker of all three queues under its user; drain it afterwards."""
    servers_file = tmp_path / "mcp.json"
    servers_file.write_text(json.dumps({"mcpServers": {"sdk": sdk_entry(tmp_path / "cancelled")}}))
    settings = server.settings(
        "worker", mcp_servers_file=servers_file, tool_modules=("tests.cluster_tools",)
    )
    spec = ChildSpec(
        name="w",
        argv=(sys.executable, "-m", "toolrail", "worker", "builtin", "mcp", "extension"),
        env=own_environment() | settings.to_env(),
        readiness=ReadyLine(),
        ready_timeout_s=BOUND_S,
    )
    supervisor = Supervisor(sink)
    try:
        await supervisor.start([spec])
        yield supervisor
    finally:
        await supervisor.stop()


@asynccontextmanager
async def dice_served(settings: Settings) -> AsyncGenerator[None]:
    """Run an extension under its user."""
    dice = create_dice(settings)
    task = asyncio.create_task(dice.serve())
    yield
    dice.stop()
    await asyncio.wait_for(task, BOUND_S)


async def tools_seen(run: Run, *names: str) -> None:
    """Return when the run sees these tools."""

    async def seen() -> bool:
        return set(names) <= {spec.name for spec in await run.tools()}

    await await_until(seen, f"the tools {names}", timeout_s=BOUND_S)


async def use_everything(rail: Toolrail, file: Path) -> None:
    """Do what agent services and people do: every kind of call, decision and reading."""
    run = await rail.open_run(profile="assistant", approval_mode=ApprovalMode.INTERACTIVE)
    await tools_seen(run, "cluster.wait_for_file", "mcp.sdk.echo", "ext.dice.roll")
    waited = await run.call("cluster.wait_for_file", {"path": str(file)}, id="read", turn=1)
    assert not waited.is_error, waited
    for name, arguments in (("mcp.sdk.echo", {"text": "hello"}), ("ext.dice.roll", {"count": 2})):
        ticket = await run.dispatch(CallRequest(id=name, name=name, arguments=arguments, turn=2))
        assert ticket.state == "awaiting_approval"
        await run.approve(ticket, by="ann")
        answer = await run.wait(ticket, timeout_s=BOUND_S)
        assert not answer.is_error, answer
    refused = await run.dispatch(
        CallRequest(id="no", name="ext.dice.roll", arguments={"count": 3}, turn=3)
    )
    await run.deny(refused, by="ann", comment="not today")
    endless = await run.dispatch(
        CallRequest(id="long", name="cluster.endless_once", arguments={}, turn=3)
    )
    await run.cancel_call(endless)
    assert (await run.wait(endless, timeout_s=BOUND_S)).error_code == "tool.cancelled"
    kinds = [event.type for event in await run.journal()]
    assert "tool_call_denied" in kinds
    await run.complete()
    assert await run.status() == "completed"


async def look_after_everything(settings: Settings) -> list[str]:
    """Type what operators type; return what failed, with its output."""

    async def look(words: tuple[str, ...]) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "toolrail", *words),
            env=own_environment() | settings.to_env(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return f"{words}: {output.decode()}" if process.returncode else ""

    return [text for text in await asyncio.gather(*map(look, OPERATOR)) if text]


async def shown(settings: Settings) -> str:
    """Return what the exporter shows once it has read Redis."""
    stop, pages = asyncio.Event(), list[str]()

    async def look(server: Server) -> bool:
        pages.append(await asyncio.to_thread(page_of, server.address))
        return "toolrail_redis_up 1.0" in pages[-1]

    servers: list[Server] = []
    exporter = Exporter(settings.model_copy(update={"metrics_port": 0}))
    task = asyncio.create_task(exporter.run(stop, on_ready=servers.append))
    await await_until(lambda: servers, "the exporter", timeout_s=BOUND_S)
    await await_until(lambda: look(servers[0]), "a read of Redis", timeout_s=BOUND_S)
    stop.set()
    await asyncio.wait_for(task, BOUND_S)
    return pages[-1]


def page_of(address: str) -> str:
    """Return the metrics of an exporter."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
        return bytes(answer.read()).decode()


async def test_every_role_does_its_work_and_is_refused_nothing(
    server: UserRedis, redis_kind: str, tmp_path: Path
) -> None:
    """Calls, approvals, drain, totals, and what operators type: no NOPERM in all of it.

    The doctor asks for settings too, of any Redis, and does without where it may not.
    """
    sink = KeepingSink()
    async with (
        running_worker(server, tmp_path, sink=sink) as supervisor,
        dice_served(server.settings("extension")),
        Toolrail(server.settings("client")) as rail,
    ):
        await use_everything(rail, tmp_path)
        # On one kind of server: each command is a process, and the users are the same.
        looks = redis_kind == "redis7"
        failed = await look_after_everything(server.settings("client")) if looks else []
        page = await shown(server.settings("exporter"))
    reader_settings = server.settings("exporter")
    redis = connect(reader_settings.redis_url, timeout_s=5, name="test")
    totals = await LedgerReader(redis, prefix="toolrail:", deadline_s=5).totals()
    await redis.aclose()

    assert supervisor.status("w").exit_code == exit_codes.OK, sink.lines("w")
    assert sum(value for name, value in totals.items() if name.startswith("accepted:")) == 5
    assert unaccounted(totals) == 0
    assert not failed, failed
    assert "\ntoolrail_calls_unaccounted 0.0\n" in page
    assert set(server.refused()) <= {"client: command config|get"}


def test_a_restart_loses_nothing_that_a_transaction_wrote(redis_kind: str, tmp_path: Path) -> None:
    """Scripts stand as transactions in the append-only file; Redis 7.0 replays those under the
    rights of the default user, and without them drops all that they wrote, with a log line."""
    program, folder = redis_program(redis_kind), tmp_path / "cell"
    with user_redis(program, folder) as server, server.connected("worker") as client:
        client.eval("redis.call('SET', 'toolrail:a', 1) redis.call('SET', 'toolrail:b', 2)", 0)
        with client.pipeline(transaction=True) as pipe:
            pipe.set("toolrail:c", 3)
            pipe.set("toolrail:d", 4)
            pipe.execute()
    with user_redis(program, folder) as server, server.connected("worker") as client:
        found = [client.get(f"toolrail:{name}") for name in "abcd"]

    assert found == ["1", "2", "3", "4"]
    assert "CRITICAL" not in (folder / "server.log").read_text(encoding="utf-8")


def test_no_role_can_do_what_would_hurt_the_cell(server: UserRedis) -> None:
    """Whole commands, keys of others, and the same through a script; each says NOPERM."""
    allowed: list[str] = []
    for role in ROLES:
        with server.connected(role) as client:
            for line in (*FORBIDDEN_TO_ALL, *FORBIDDEN_TO[role]):
                try:
                    client.execute_command(*line.split(" "))  # type: ignore[no-untyped-call]
                except NoPermissionError:
                    continue
                except redis.ResponseError as error:
                    # A script says it in a sentence of its own.
                    if "can't" not in str(error) and "ACL failure" not in str(error):
                        allowed.append(f"{role}: {line}: {error}")
                else:
                    allowed.append(f"{role}: {line}")

    assert not allowed, "\n".join(allowed)


def test_nobody_is_in_without_a_name_and_a_password(server: UserRedis) -> None:
    """The default user is off, and a role's name is not enough."""
    once = Retry(NoBackoff(), 0)
    for login in ("", "worker:x@", "nobody:x@", "default:x@"):
        url = f"unix://{login}{server.socket}"
        with (
            redis.Redis.from_url(url, retry=once) as client,
            pytest.raises(redis.AuthenticationError),
        ):
            client.ping()


@pytest.mark.one_redis
def test_the_server_keeps_what_it_accepted(server: UserRedis) -> None:
    """Append-only file every second, nothing evicted, no snapshots: as the running server says."""
    with server.connected("watcher") as client:
        found = client.config_get(
            "appendonly", "appendfsync", "maxmemory-policy", "save", "protected-mode"
        )

    assert found == {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "protected-mode": "yes",
    }


def test_secrets_are_made_once_readable_and_kept_apart(tmp_path: Path) -> None:
    """Every container may read its own, nobody else the folder; only the named one changes."""
    folder = tmp_path / "cell"
    make_secrets(folder)
    secrets = folder / "secrets"
    before = {file.name: file.read_text() for file in secrets.iterdir()}
    make_secrets(folder)
    again = {file.name: file.read_text() for file in secrets.iterdir()}
    rotated = make_secrets(folder, "redis_worker_password")
    after = {file.name: file.read_text() for file in secrets.iterdir()}
    unknown = make_secrets(folder, "redis_workers_password")
    passwords = [text.strip() for name, text in before.items() if name.endswith("_password")]

    assert before == again
    assert {name for name in before if before[name] != after[name]} == {
        "redis_worker_password",
        "users.acl",
    }
    assert (rotated.returncode, rotated.stdout + rotated.stderr) == (0, "")
    assert unknown.returncode == 1
    assert "there is no secret redis_workers_password" in unknown.stderr
    assert len(set(passwords)) == len(passwords) == 6
    assert all(len(password) == 64 for password in passwords)
    assert not [password for password in passwords if password in before["users.acl"]]
    assert (secrets.stat().st_mode & 0o777) == 0o700
    assert {file.stat().st_mode & 0o777 for file in secrets.iterdir()} <= {0o444, 0o755}
