"""`toolrail dlq`: what an operator types when a worker took calls with it.

Is: the commands on a real ledger. Is not: the rules of a redrive (`test_redriving.py`).
Above: nothing. Below: `tests/letters.py`, `tests/cli.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from redis import Redis

from tests.cells import Cell, open_cell, opened, serve, write_policy
from tests.cli import Cli
from tests.letters import listed, make_letter, record_of
from toolrail import Settings
from toolrail.keys import Keys
from toolrail.redis_io import command

SECRET = "sk-live-4f9a8b7c6d5e4f3a2b1c"
HOSTILE = "demo.\x1b[2J\u202eevil"


@pytest.fixture
async def cell(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Cell]:
    """Give an open client, and let commands find its policy."""
    folder = write_policy(tmp_path / "policy")
    monkeypatch.setenv("TOOLRAIL_POLICY_DIR", str(folder))
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


async def test_letters_are_listed_with_the_newest_first(cell: Cell, cli: Cli) -> None:
    """By tool and tenant too; nothing of their arguments."""
    first, second = await opened(cell, tenant="acme"), await opened(cell)
    older = await make_letter(cell, first, text="plain words")
    newer = await make_letter(cell, second, tool="demo.once")
    everything = await cli.within("dlq", "list", "--json")
    table = await cli.within("dlq", "list")
    picked = [
        (await cli.within("dlq", "list", "--json", *filters)).rows()
        for filters in (("--tenant", "acme"), ("--tool", "demo.once"), ("--tool", "nosuch"))
    ]
    await command(cell.bench.redis, "ZADD", cell.bench.keys.dead_letters, 1, _member(older))
    aged = (await cli.within("dlq", "list", "--json", "--limit", "1")).row()
    await first.complete()
    await second.complete()

    assert {row["letter_id"] for row in everything.rows()} == {older, newer}
    assert [[row["letter_id"] for row in rows] for rows in picked] == [[older], [newer], []]
    assert aged["letter_id"] == newer
    assert "tool.worker_lost" in table.out
    assert "killed-worker" in table.out
    assert "2 of 2 dead letters" in table.err
    assert "plain words" not in table.out + everything.out


async def test_a_letter_is_shown_with_its_history_and_what_to_do(cell: Cell, cli: Cli) -> None:
    """Which worker had it when, a summary of its arguments, and the command to type."""
    run = await opened(cell)
    letter = await make_letter(cell, run, text="plain words")
    secret = await make_letter(cell, run, "c2", text=SECRET[:20], code="tool.outcome_unknown")
    said = await cli.within("dlq", "show", letter)
    data = (await cli.within("dlq", "show", letter, "--json")).row()
    unknown = await cli.within("dlq", "show", secret)
    await run.complete()

    assert said.code == 0
    assert 'text: "plain words"' in said.out
    assert "tool_call_started" in said.out
    assert "worker=killed-worker" in said.out
    assert f"toolrail dlq redrive {letter} --by NAME" in said.err
    assert cast("dict[str, object]", data["letter"])["letter_id"] == letter
    assert [
        cast("dict[str, object]", event)["type"] for event in cast("list[object]", data["events"])
    ][-1] == "tool_call_failed"
    assert SECRET[:20] not in unknown.out
    assert "--effect-may-repeat" in unknown.err


async def test_a_redrive_is_seen_to_its_end(cell: Cell, cli: Cli) -> None:
    """The state and the code of the new call are told, its result is not."""
    run = await opened(cell)
    letter = await make_letter(cell, run)
    await run.complete()
    async with serve(cell, body=lambda _: "a planted answer"):
        said = await cli.within("dlq", "redrive", letter, "--by", "ann")
    again = await cli.within("dlq", "redrive", letter, "--by", "bob", "--json")
    shown = await cli.within("dlq", "show", letter)
    runs = (await cli.within("runs", "--json", "--limit", "1")).row()

    assert said.code == 0
    assert f"{letter} redriven as c1.redrive.1 in new run run_" in said.out
    assert said.out.rstrip().endswith(": completed")
    assert "planted" not in said.out + said.err
    assert (again.code, again.row()["by"], again.row()["was_before"]) == (0, "ann", True)
    assert "redriven by ann" in shown.out
    assert runs["status"] == "completed"


async def test_a_refused_redrive_is_exit_code_1(cell: Cell, cli: Cli) -> None:
    """The letter stays; an unknown outcome says why it was not touched."""
    run = await opened(cell)
    letter = await make_letter(cell, run, code="tool.outcome_unknown")
    refused = await cli.within("dlq", "redrive", letter, "--by", "ann")
    denied = await cli.within("dlq", "redrive", letter, "--by", "ann", "--effect-may-repeat")
    gone = await cli.within("dlq", "redrive", f"{run.id}.{'0' * 16}", "--by", "ann")
    left = await listed(cell)
    await run.complete()

    assert [said.code for said in (refused, denied, gone)] == [1, 1, 1]
    assert "its effect may have happened already" in refused.err
    assert "was refused, denied approval.denied" in denied.out
    assert "no call" in gone.err
    assert left == [letter]


async def test_an_effect_that_may_repeat_is_redriven_by_who_says_so(cell: Cell, cli: Cli) -> None:
    """One by one and with --all; without the word neither takes it."""
    run = await opened(cell)
    letters = [
        await make_letter(cell, run, f"c{n}", text=f"text {n}", code="tool.outcome_unknown")
        for n in range(2)
    ]
    await run.complete()
    line = ("dlq", "redrive", "--by", "ann", "--wait-s", "0", "--json")
    unsaid = [
        await cli.within(*line, letters[0]),
        await cli.within(*line, "--all", "--yes"),
    ]
    kept = await listed(cell)
    one = await cli.within(*line, letters[0], "--effect-may-repeat")
    rest = await cli.within(*line, "--all", "--yes", "--effect-may-repeat")

    assert unsaid[0].row()["is_redriven"] is False
    assert unsaid[1].out == ""
    assert "0 letters are redriven; 2 are left" in unsaid[1].err
    assert sorted(kept) == sorted(letters)
    assert (one.row()["letter_id"], one.row()["is_redriven"]) == (letters[0], True)
    assert (rest.row()["letter_id"], rest.row()["is_redriven"]) == (letters[1], True)
    assert await listed(cell) == []


async def test_many_letters_are_counted_before_anything_is_done(cell: Cell, cli: Cli) -> None:
    """`--all` without `--yes` changes nothing, and leaves unknown outcomes alone with it."""
    run = await opened(cell)
    letters = [await make_letter(cell, run, f"c{n}", text=f"text {n}") for n in range(3)]
    other = await make_letter(cell, run, "c3", tool="demo.once")
    unsure = await make_letter(cell, run, "c4", text="unsure", code="tool.outcome_unknown")
    await run.complete()
    line = ("dlq", "redrive", "--all", "--tool", "demo.echo", "--by", "ann")
    counted = await cli.within(*line)
    before = await listed(cell)
    async with serve(cell):
        done = await cli.within(*line, "--yes", "--json")

    assert counted.code == 1
    assert "3 letters would be redriven; 1 are left" in counted.err
    assert "add --yes" in counted.err
    assert len(before) == 5
    assert done.code == 0
    assert {row["letter_id"] for row in done.rows()} == set(letters)
    assert {row["state"] for row in done.rows()} == {"completed"}
    assert set(await listed(cell)) == {other, unsure}


async def test_letters_are_discarded_by_name_or_all(cell: Cell, cli: Cli) -> None:
    """With the same counting; the record says by whom."""
    run = await opened(cell)
    letters = [await make_letter(cell, run, f"c{n}", text=f"text {n}") for n in range(3)]
    one = await cli.within("dlq", "discard", letters[0], "--by", "ann")
    counted = await cli.within("dlq", "discard", "--all", "--by", "bob")
    rest = await cli.within("dlq", "discard", "--all", "--by", "bob", "--yes")
    by = [(await record_of(cell, letter)).fields["discarded_by"] for letter in letters]
    await run.complete()

    assert (one.code, counted.code, rest.code) == (0, 1, 0)
    assert "2 letters would be discarded" in counted.err
    assert by == ["ann", "bob", "bob"]
    assert await listed(cell) == []


async def test_a_credential_in_a_name_is_told_nowhere(cell: Cell, cli: Cli) -> None:
    """A model may put what it should not into the id of a call."""
    token = "ghp_" + "a1B2c3D4" * 5
    run = await opened(cell)
    letter = await make_letter(cell, run, f"c-{token}")
    said = [
        await cli.within("dlq", "show", letter),
        await cli.within("dlq", "show", letter, "--json"),
        await cli.within("dlq", "list", "--json"),
        await cli.within("run", "show", run.id),
        await cli.within("run", "show", run.id, "--json"),
        await cli.within("dlq", "redrive", letter, "--by", "ann", "--wait-s", "0"),
    ]
    await run.cancel()

    assert all(one.code == 0 for one in said)
    assert not any(token in one.out + one.err for one in said)


async def test_hostile_names_cannot_move_the_cursor(cell: Cell, cli: Cli) -> None:
    """In the list, on the page, in answers and in errors."""
    run = await opened(cell)
    letter = await make_letter(cell, run, "\x1b[31mred")
    call = cell.bench.keys.call_of(_member(letter))
    await command(cell.bench.redis, "HSET", call, "tenant", HOSTILE, "worker", HOSTILE)
    said = [
        await cli.within("dlq", "list"),
        await cli.within("dlq", "list", "--json"),
        await cli.within("dlq", "show", letter),
        await cli.within("dlq", "show", "\x1b[2J"),
        await cli.within("dlq", "redrive", letter, "--by", "ann", "--wait-s", "0"),
        await cli.within("dlq", "redrive", letter, "--by", "\x1b[2J"),
    ]
    await run.cancel()

    assert all("\x1b" not in one.out + one.err and "\u202e" not in one.out for one in said)
    assert "\\u001b[31mred" in said[2].out


async def test_a_letter_without_a_record_can_be_seen_and_dropped(cell: Cell, cli: Cli) -> None:
    """Its run was forgotten; a redrive says so, and takes the letter off the list as well."""
    bench = cell.bench
    ghosts = [f"run_{'0' * 26}.{n:016d}" for n in range(2)]
    for ghost in ghosts:
        await command(bench.redis, "ZADD", bench.keys.dead_letters, 1, _member(ghost))
    shown = await cli.within("dlq", "list")
    redriven = await cli.within("dlq", "redrive", ghosts[0], "--by", "ann")
    dropped = await cli.within("dlq", "discard", ghosts[1], "--by", "ann")

    assert shown.out.count("(forgotten)") == 2
    assert redriven.code == 1
    assert "forgotten after the retention" in redriven.err
    assert dropped.code == 0


@pytest.mark.one_redis
async def test_ten_thousand_letters_are_read_page_by_page(
    cli: Cli, settings: Settings, redis_client: Redis
) -> None:
    """All are found once, and a limit reads no more than it needs."""
    keys = Keys(settings.key_prefix)
    await asyncio.to_thread(_fill, redis_client, keys)
    everything = (await cli.within("dlq", "list", "--json", "--limit", "100000")).rows()
    few = (await cli.within("dlq", "list", "--json", "--limit", "10")).rows()
    counted = await cli.within("dlq", "discard", "--all", "--tool", "demo.t1", "--by", "ann")
    redis_client.flushdb()

    assert len({row["letter_id"] for row in everything}) == 10_000
    assert few == everything[:10]
    assert "1000 letters would be discarded" in counted.err


@pytest.mark.parametrize(
    "line",
    [("redrive", "--by", "ann"), ("discard", "x", "--all", "--by", "ann"), ("discard", "x")],
)
@pytest.mark.one_redis
def test_what_is_meant_must_be_said(cli: Cli, line: tuple[str, ...]) -> None:
    """Neither letters nor `--all`, both, or nobody who does it."""
    said = cli("dlq", *line)

    assert said.code != 0
    assert "Traceback" not in said.err
    assert "LETTER" in said.err or "--by" in said.err


@pytest.mark.parametrize("line", [("list",), ("show", f"run_{'0' * 26}.{'0' * 16}")])
@pytest.mark.one_redis
def test_looking_needs_no_secret_and_tells_when_redis_is_away(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    """One sentence each."""
    monkeypatch.delenv("TOOLRAIL_SECRET")
    here = cli("dlq", *line)
    monkeypatch.setenv("TOOLRAIL_REDIS_URL", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("TOOLRAIL_REDIS_TIMEOUT_S", "0.1")
    away = cli("dlq", *line)

    assert here.code == (0 if line == ("list",) else 1)
    assert away.code == 3
    assert away.err.startswith(
        "error: Nothing listens at the address of Redis: the connection was refused."
    )


async def test_a_letter_is_found_by_the_beginning_of_its_id(cell: Cell, cli: Cli) -> None:
    """As `toolrail approvals` finds a question; what could mean two is done to neither."""
    run = await opened(cell)
    letters = [await make_letter(cell, run, f"c{n}") for n in range(2)]
    short = letters[0].rpartition(".")[2][:8]
    shown = await cli.within("dlq", "show", short, "--json")
    both = await cli.within("dlq", "discard", short, run.id, "--by", "ann")
    tiny = await cli.within("dlq", "show", "abc")
    none = await cli.within("dlq", "show", "zzzz")
    kept = await listed(cell)
    one = await cli.within("dlq", "discard", short.upper(), letters[0], "--by", "ann", "--json")

    assert cast("dict[str, object]", shown.row()["letter"])["letter_id"] == letters[0]
    assert (both.code, tiny.code, none.code) == (1, 1, 1)
    assert f"{run.id!r} could be " in both.err
    assert all(letter.rpartition(".")[2] in both.err for letter in letters)
    assert "Give at least 4 characters" in tiny.err
    assert "begins with 'zzzz'" in none.err
    assert sorted(kept) == sorted(letters)
    assert one.rows() == [{"letter_id": letters[0], "state": "discarded"}]
    assert await listed(cell) == letters[1:]


def _member(letter_id: str) -> str:
    return letter_id.replace(".", "|")


def _fill(client: Redis, keys: Keys) -> None:
    pipe = client.pipeline(transaction=False)
    for number in range(10_000):
        member = f"run_{number // 10:026d}|{number:016d}"
        pipe.hset(keys.call_of(member), mapping={"tool": f"demo.t{number % 10}", "state": "failed"})
        pipe.zadd(keys.dead_letters, {member: number // 1000})
    pipe.execute()
