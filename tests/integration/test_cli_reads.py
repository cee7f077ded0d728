"""`toolrail queues`, `runs` and `run show`: what an operator sees, and never sees.

Is: the commands against a real ledger, without workers. Is not: who works on a queue (the tests of
workers). Above: nothing. Below: `tests/cells.py`, `tests/cli.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.cli import Cli
from tests.fleets import appear
from tests.terminals import Terminal
from tests.waiting import await_until
from toolrail import CallRequest, Settings
from toolrail.fleet import Fleet
from toolrail.keys import Keys
from toolrail.redis_io import command
from toolrail.settings import own_environment

SECRET = "sk-live-4f9a8b7c6d5e4f3a2b1c"
HOSTILE = "evil\x1b[2J\u202etool"


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client under the policy of these tests."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


async def queue(cell: Cell, *, calls: int, tenant: str = "default") -> str:
    """Open a run with so many queued calls, and return its id."""
    run = await opened(cell, tenant=tenant)
    for number in range(calls):
        await run.dispatch(CallRequest(id=f"c{number}", name="demo.echo", arguments={"text": "a"}))
    return run.id


async def clock_moves(cell: Cell) -> None:
    """Return in another millisecond; what is opened in the same one has no order."""
    start = await cell.bench.reader.now_ms()

    async def has_moved() -> bool:
        return await cell.bench.reader.now_ms() > start

    await await_until(has_moved, "the clock to move")


async def test_queues_show_what_waits_and_since_when(cell: Cell, cli: Cli) -> None:
    """Doorbells and queued calls are two things, and both are shown."""
    run_id = await queue(cell, calls=3)
    bench = cell.bench
    await command(bench.redis, "RPOP", bench.keys.queue("builtin"))
    oldest = await command(bench.redis, "ZRANGE", bench.keys.queued("builtin"), 0, 0)
    call = bench.keys.call_of(cast("list[str]", oldest)[0])
    await command(bench.redis, "HSET", call, "queued_ms", await bench.reader.now_ms() - 90_000)
    said = await cli.within("queues", "--json")
    table = await cli.within("queues")
    await (await cell.rail.run(run_id)).cancel()

    builtin = said.rows()[0]
    assert (builtin["source"], builtin["queued"], builtin["doorbells"]) == ("builtin", 3, 2)
    assert isinstance(builtin["oldest_ms"], int)
    assert builtin["oldest_ms"] >= 90_000
    assert [row["source"] for row in said.rows()] == ["builtin", "mcp", "extension"]
    assert "1 m 30 s" in table.lines[1]
    assert table.code == said.code == 0


async def test_a_call_for_a_person_is_not_counted_as_waiting_for_a_worker(
    cell: Cell, cli: Cli
) -> None:
    """No worker could take it."""
    run = await opened(cell, approval_mode="interactive")
    await run.dispatch(CallRequest(id="c1", name="demo.ask", arguments={"text": "a"}))
    builtin = (await cli.within("queues", "--json")).rows()[0]
    await run.cancel()

    assert (builtin["queued"], builtin["awaiting_approval"], builtin["oldest_ms"]) == (0, 1, None)


async def test_runs_are_listed_with_the_newest_first(cell: Cell, cli: Cli) -> None:
    """Open ones, and those that ended; by status and by tenant."""
    done = await opened(cell, tenant="acme")
    await done.complete()
    await clock_moves(cell)
    left = await opened(cell, tenant="other")
    await left.cancel()
    await clock_moves(cell)
    busy = await queue(cell, calls=2, tenant="acme")

    async def ids(*options: str) -> list[object]:
        return [row["run_id"] for row in (await cli.within("runs", "--json", *options)).rows()]

    everything = await ids()
    by_tenant = await ids("--tenant", "acme")
    by_status = [await ids("--status", status) for status in ("open", "completed", "cancelled")]
    first = (await cli.within("runs", "--json", "--limit", "1")).row()
    await (await cell.rail.run(busy)).cancel()

    assert everything[:3] == [busy, left.id, done.id]
    assert by_tenant == [busy, done.id]
    assert by_status == [[busy], [done.id, cell.bench.run_id], [left.id]]
    assert (first["run_id"], first["open_calls"], first["status"]) == (busy, 2, "open")


async def test_a_run_that_waits_for_its_last_call_is_ending(cell: Cell, cli: Cli) -> None:
    """It takes no more calls, so it is neither open nor ended."""
    run_id = await queue(cell, calls=1)
    keys = cell.bench.keys
    await command(cell.bench.redis, "HSET", keys.run(run_id), "ending", "failed")
    ending = [
        (await cli.within("runs", "--json", "--status", status)).rows()
        for status in ("ending", "open")
    ]
    await command(cell.bench.redis, "HDEL", keys.run(run_id), "ending")
    await (await cell.rail.run(run_id)).cancel()

    assert [[row["status"] for row in rows] for rows in ending] == [["ending"], ["ending"]]


@pytest.mark.one_redis
async def test_ten_thousand_runs_are_read_page_by_page(
    cli: Cli, settings: Settings, redis_client: Redis
) -> None:
    """All are found, none twice, and a filter that nothing fits ends too."""
    keys = Keys(settings.key_prefix)
    pipe = redis_client.pipeline(transaction=False)
    for number in range(10_000):
        run_id = f"run_{number:026d}"
        pipe.hset(
            keys.run(run_id),
            mapping={"status": "open", "tenant": "t", "profile": "p", "opened_ms": number},
        )
        pipe.zadd(keys.runs, {run_id: number // 100})
    pipe.execute()
    everything = (await cli.within("runs", "--json", "--limit", "100000")).rows()
    nothing = await cli.within("runs", "--tenant", "nobody")
    redis_client.flushdb()

    assert [row["opened_ms"] for row in everything] == list(range(9_999, -1, -1))
    assert nothing.out == ""
    assert "No such run" in nothing.err
    assert "10000 are open" in nothing.err


async def test_a_run_is_a_page_without_content(cell: Cell, cli: Cli) -> None:
    """Whose it is, what it used, its calls; of arguments a redacted summary and of results none."""
    run = await opened(cell, tenant="acme", user="ann")
    async with serve(cell, body=lambda _: "a planted answer"):
        await run.call("demo.echo", {"text": "plain words"}, id="c1", timeout_s=10)
        await run.call("demo.echo", {"text": SECRET[:20]}, id="c2", timeout_s=10)
    await run.call("demo.denied", {"text": "a"}, id="c3", turn=1, timeout_s=10)
    page = await cli.within("run", "show", run.id)
    data = (await cli.within("run", "show", run.id, "--json")).row()
    newest = (await cli.within("run", "show", run.id, "--json", "--calls", "1")).row()
    await run.complete()
    ended = await cli.within("run", "show", run.id)

    assert page.code == 0
    assert 'text: "plain words"' in page.out
    assert "2 x demo.echo" in page.out
    assert "demo.denied  denied policy.denied" in page.out
    for said in (page.out, str(data), ended.out):
        assert "planted answer" not in said
        assert SECRET[:20] not in said
    calls = cast("list[dict[str, object]]", data["calls"])
    assert [call["call_id"] for call in calls] == ["c1", "c2", "c3"]
    assert [newest["is_whole"], data["is_whole"]] == [False, True]
    assert "demo.denied" in ended.out


async def test_no_argument_of_a_tool_nobody_knows_is_shown(cell: Cell, cli: Cli) -> None:
    """Its schema may have said which of them are secret, and it is gone."""
    run = await opened(cell)
    async with serve(cell):
        await run.call("demo.echo", {"text": "plain words"}, id="c1", timeout_s=10)
    await run.complete()
    await cell.change_tool("demo.echo")
    said = await cli.within("run", "show", run.id)

    assert "text: «redacted»" in said.out
    assert "plain words" not in said.out


async def test_workers_are_listed_with_what_they_do(cell: Cell, cli: Cli) -> None:
    """Filtered by source, host and build; a queue sums up those that serve it."""
    fleet = Fleet(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5)
    await appear(fleet, "w1", "builtin", "mcp")
    await appear(fleet, "w2", draining=True, build="b2")
    listed = (await cli.within("workers", "--json")).rows()
    by_build = (await cli.within("workers", "--json", "--build", "b2")).rows()
    by_source = (await cli.within("workers", "--json", "--source", "mcp")).rows()
    table = await cli.within("workers")
    none = await cli.within("workers", "--host", "elsewhere")
    queues = {str(row["source"]): row for row in (await cli.within("queues", "--json")).rows()}

    assert [row["worker"] for row in listed] == ["w2", "w1"]
    assert [row["worker"] for row in by_build] == ["w2"]
    assert [row["worker"] for row in by_source] == ["w1"]
    assert "draining" in table.lines[1]
    assert (none.code, none.out) == (0, "")
    assert "No such worker" in none.err
    assert [queues["builtin"][name] for name in ("workers", "draining", "slots", "busy")] == [
        2,
        1,
        10,
        6,
    ]


async def test_hostile_names_cannot_move_the_cursor(cell: Cell, cli: Cli) -> None:
    """A model may name a tool as it likes; the terminal is not its playground."""
    run = await opened(cell, name="job\u202e 7")
    await run.call("demo.echo", "{", id="\x1b[31mred", timeout_s=10)
    await command(cell.bench.redis, "HSET", cell.bench.keys.run(run.id), "tenant", HOSTILE)
    said = [
        await cli.within("run", "show", run.id),
        await cli.within("run", "show", run.id, "--json"),
        await cli.within("runs"),
        await cli.within("runs", "--json"),
    ]
    await run.complete()

    assert all(one.code == 0 for one in said)
    assert all("\x1b" not in one.out and "\u202e" not in one.out for one in said)
    assert "\\u001b[31mred" in said[0].out
    assert "evil\\u001b[2J\\u202etool" in said[2].out


@pytest.mark.one_redis
async def test_a_table_on_a_terminal_folds_and_does_not_act(cell: Cell, tmp_path: Path) -> None:
    """Names are text there too, markup of ours in them included; no cell is cut off."""
    name = HOSTILE + "[red]" + "x" * 60
    run = await opened(cell)
    await command(cell.bench.redis, "HSET", cell.bench.keys.run(run.id), "tenant", name)
    env = own_environment() | cell.settings.to_env()
    with Terminal(["runs", "--status", "open"], env=env, cwd=tmp_path, columns=80) as terminal:
        code = await asyncio.to_thread(terminal.wait)
    await run.complete()

    assert code == 0
    assert "\x1b[2J" not in terminal.screen
    assert "\u202e" not in terminal.screen
    assert all(len(line) <= 80 for line in terminal.screen.splitlines())
    assert terminal.screen.count("x") >= 60


async def test_an_id_can_be_copied_from_a_narrow_terminal(cell: Cell, tmp_path: Path) -> None:
    """It stands on one line; columns at the right go first, and are named."""
    run_id = await queue(cell, calls=1)
    env = own_environment() | cell.settings.to_env()
    fleet = Fleet(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5.0)
    worker = "builtin-of-a-long-name@host.example.org"
    await appear(fleet, worker)
    screens: list[str] = []
    for words in (["runs"], ["workers"], ["drain", "--all"], ["run", "show", run_id]):
        with Terminal(words, env=env, cwd=tmp_path, columns=60) as terminal:
            assert await asyncio.to_thread(terminal.wait) == 0
            screens.append(terminal.screen)

    assert [line for line in screens[0].splitlines() if line.startswith(f"{run_id}  open")]
    assert [line for line in screens[1].splitlines() if line.startswith(worker)]
    assert [line for line in screens[2].splitlines() if line.startswith(worker)]
    assert f" {run_id}\n" in screens[3]
    assert "No room for" in screens[1]
    assert "metrics: widen the terminal, or see --json." in screens[1]


async def test_a_record_of_another_version_is_shown_as_far_as_it_goes(cell: Cell, cli: Cli) -> None:
    """Fields that are missing, or are no numbers, cost nothing but themselves."""
    run_id = await queue(cell, calls=1)
    bench = cell.bench
    [call_key], _ = await bench.reader.open_calls(run_id, limit=1)
    await command(bench.redis, "HDEL", bench.keys.call(run_id, call_key), "args", "tenant")
    await command(bench.redis, "HSET", bench.keys.call(run_id, call_key), "attempt", "many")
    record = await bench.reader.run(run_id)
    assert record is not None
    await command(bench.redis, "HDEL", bench.keys.run(run_id), "spec", "tenant", "opened_ms")
    page = await cli.within("run", "show", run_id)
    listed = await cli.within("runs")
    await command(bench.redis, "HSET", bench.keys.run(run_id), "spec", record["spec"])
    await command(bench.redis, "HSET", bench.keys.call(run_id, call_key), "attempt", 1)
    await (await cell.rail.run(run_id)).cancel()

    assert (page.code, listed.code) == (0, 0)
    assert "(not recorded)" in page.out
    assert run_id in listed.out


@pytest.mark.parametrize("line", [("queues",), ("runs",), ("run", "show", "run_" + "0" * 26)])
@pytest.mark.one_redis
def test_redis_that_is_away_is_one_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    """What is wrong and what to look at; exit code 3, no traceback."""
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", "redis://:hush@127.0.0.1:1/0")
    monkeypatch.setenv("TOOLRAIL_REDIS_TIMEOUT_S", "0.1")
    said = cli(*line)

    assert said.code == 3
    assert said.out == ""
    assert said.err.startswith(
        "error: Nothing listens at the address of Redis: the connection was refused. Check"
    )
    assert "Traceback" not in said.err
    assert "hush" not in said.err


@pytest.mark.one_redis
@pytest.mark.parametrize("line", [("queues",), ("approvals", "list"), ("call", "demo.echo")])
def test_a_folder_without_a_cluster_is_told_first(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: tuple[str, ...]
) -> None:
    """Before a Redis nobody named is looked at; not where one is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TOOLRAIL_SECRET")
    monkeypatch.setenv("TOOLRAIL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", "redis://127.0.0.1:1/0")
    named = cli(*line)
    monkeypatch.delenv("TOOLRAIL_REDIS_URL")
    nowhere = cli(*line)

    assert "No cluster is up" not in named.err
    assert nowhere.err.startswith("error: No cluster is up in this folder")
    assert "fix: run `toolrail up` here" in nowhere.err


def test_another_prefix_is_an_empty_place_with_a_name(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Empty answers say where they looked."""
    monkeypatch.setenv("TOOLRAIL_KEY_PREFIX", "elsewhere:")
    runs, queues = cli("runs"), cli("queues", "--json")

    assert (runs.code, runs.out) == (0, "")
    assert "elsewhere: in redis://" in runs.err
    assert [row["queued"] for row in queues.rows()] == [0, 0, 0]
