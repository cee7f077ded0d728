"""`toolrail drain`: who is asked, what is told, and when it is over.

Is: the command on records of workers that are not there. Is not: how a worker drains
(`test_worker_drain.py`), or the command on real workers (`test_cli_cluster.py`).
Above: nothing. Below: `tests/fleets.py`, `tests/cli.py`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.cli import Cli
from tests.fleets import appear
from tests.servers import StartRedis
from tests.waiting import await_until
from toolrail.draining import Choice, Draining, DrainState
from toolrail.errors import RedisUnavailable
from toolrail.fleet import Fleet
from toolrail.keys import Keys
from toolrail.redis_io import command, connect
from toolrail.settings import Settings


@pytest.fixture
async def fleet(settings: Settings) -> AsyncIterator[Fleet]:
    """Give a fleet of four workers."""
    redis = connect(settings.redis_url, timeout_s=5, name="test")
    fleet = Fleet(redis, prefix=settings.key_prefix, deadline_s=5)
    await appear(fleet, "b-1")
    await appear(fleet, "b-2", build="b2", host="there")
    await appear(fleet, "m-1", "mcp")
    await appear(fleet, "m-2", "mcp", build="b2")
    yield fleet
    await redis.aclose()


async def asked(fleet: Fleet) -> set[str]:
    """Return the workers that find an order to drain; saying a record is how they look."""
    names = [(each.worker, *each.sources) for each in await fleet.workers()]
    return {name for name, *sources in names if await appear(fleet, name, *sources)}


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (("b-1", "m-2"), "b-1 m-2"),
        (("--source", "mcp"), "m-1 m-2"),
        (("--build", "b2"), "b-2 m-2"),
        (("--source", "mcp", "--build", "b2"), "m-2"),
        (("--host", "there"), "b-2"),
        (("--all",), "b-1 b-2 m-1 m-2"),
    ],
)
async def test_those_who_are_meant_are_asked(
    fleet: Fleet, cli: Cli, line: tuple[str, ...], names: str
) -> None:
    """By name, or by all that they are said to have in common; it is told who."""
    said = await cli.within("drain", *line, "--json")

    assert said.code == 0
    assert {row["worker"] for row in said.rows()} == set(names.split())
    assert {row["state"] for row in said.rows()} == {"asked"}
    assert await asked(fleet) == set(names.split())


async def test_an_unknown_name_asks_nobody(fleet: Fleet, cli: Cli) -> None:
    """One that is known beside it is not asked either; a name that comes near is offered."""
    said = await cli.within("drain", "b-1", "m-3\x1b[2J")

    assert said.code == 1
    assert "No live worker is called 'm-3\\x1b[2J'" in said.err
    assert "\x1b" not in said.err
    assert "nobody was asked" in said.err
    assert await asked(fleet) == set()


async def test_nothing_that_fits_is_nothing_to_drain(fleet: Fleet, cli: Cli) -> None:
    """Host and build exist, not together: the state that is wanted is there already."""
    said = await cli.within("drain", "--host", "here", "--source", "extension", "--wait")

    assert said.code == 0
    assert "nothing to drain" in said.err
    assert await asked(fleet) == set()


@pytest.mark.parametrize(("what", "there"), [("build", "b1, b2"), ("host", "here, there")])
async def test_a_build_or_host_that_nobody_has_is_a_mistake(
    fleet: Fleet, cli: Cli, what: str, there: str
) -> None:
    """A typo would else pass for a drained fleet; those that exist are named."""
    said = await cli.within("drain", f"--{what}", "tyop", "--wait")

    assert said.code == 1
    assert f"No live worker has the {what} 'tyop'. Those that live have {there};" in said.err
    assert await asked(fleet) == set()


@pytest.mark.parametrize(
    "line",
    [
        (),
        ("b-1", "--all"),
        ("--all", "--source", "mcp"),
        ("b-1", "--source", "mcp"),
        ("--source", "mpc"),
        ("b-1", "--undo", "--wait"),
    ],
)
@pytest.mark.one_redis
async def test_what_is_meant_must_be_said(fleet: Fleet, cli: Cli, line: tuple[str, ...]) -> None:
    """Nobody is asked by a command that can be read in two ways."""
    said = await cli.within("drain", *line)

    assert said.code == 64
    assert "fix:" in said.err
    assert await asked(fleet) == set()


async def test_an_order_is_undone(fleet: Fleet, cli: Cli) -> None:
    """The worker finds none any more; one that was not draining is told apart."""
    await cli.within("drain", "b-1", "b-2")
    await appear(fleet, "b-1", draining=True)
    said = await cli.within("drain", "--undo", "b-1", "b-2")

    assert said.code == 0
    assert [line.split(" ", 1)[1] for line in said.lines] == [
        "claims again",
        "was not draining; an order on its way is undone",
    ]
    assert await asked(fleet) == set()


async def test_the_last_of_a_source_is_told_to_be_the_last(fleet: Fleet, cli: Cli) -> None:
    """Calls of it wait until somebody claims again."""
    said = await cli.within("drain", "--source", "mcp")

    assert "No other worker of mcp claims calls" in said.err
    assert "builtin" not in said.err


async def test_waiting_ends_when_all_are_idle_or_gone(fleet: Fleet, cli: Cli) -> None:
    """One finishes its calls, one ends meanwhile; each step is told once."""
    waiting = asyncio.create_task(cli.within("drain", "b-1", "b-2", "--wait", "--timeout-s", "30"))

    async def is_asked() -> bool:
        return await asked(fleet) == {"b-1", "b-2"}

    await await_until(is_asked, "both to be asked")
    await appear(fleet, "b-1", draining=True, busy=2)
    await fleet.withdraw("b-2")
    await appear(fleet, "b-1", draining=True, busy=0)
    said = await waiting

    assert said.code == 0
    assert "b-1 is drained: stop it, or undo the drain" in said.lines
    assert "b-2 is gone; what it left is taken over" in said.lines
    assert len(said.lines) == len(set(said.lines))


async def test_waiting_ends_when_time_is_over(fleet: Fleet, cli: Cli) -> None:
    """Exit code 1; the order stands, and it is told who is late."""
    await appear(fleet, "b-1", draining=True, busy=2)
    said = await cli.within("drain", "b-1", "b-2", "--wait", "--timeout-s", "0", "--json")

    assert said.code == 1
    assert {row["worker"]: (row["state"], row["busy"]) for row in said.rows()} == {
        "b-1": ("busy", 2),
        "b-2": ("asked", 3),
    }
    assert "2 of 2 are not drained after 0 s. The order stands" in said.err
    assert await asked(fleet) == {"b-1", "b-2"}


@pytest.mark.one_redis
async def test_redis_that_goes_away_meanwhile_costs_only_time(start_redis: StartRedis) -> None:
    """The wait goes on; when time is over before it is back, that is the error."""
    server = start_redis(append_only=True)
    redis = connect(server.url, timeout_s=1, name="test")
    fleet = Fleet(redis, prefix="t:", deadline_s=0.2)
    await appear(fleet, "b-1")
    draining = Draining(fleet)
    order = await draining.ask(await draining.choose(Choice(names=("b-1",))))
    server.stop()
    with pytest.raises(RedisUnavailable):
        [_ async for _ in draining.watch(order, timeout_s=0.3)]
    states: list[DrainState] = []

    async def watch() -> None:
        async for (worker,) in draining.watch(order, timeout_s=30):
            states.append(worker.state)

    watching = asyncio.create_task(watch())
    await asyncio.to_thread(server.start)

    async def is_drained() -> bool:
        with suppress(RedisUnavailable):
            return await appear(fleet, "b-1", draining=True, busy=0)
        return False

    await await_until(is_drained, "the worker to find the order", timeout_s=20)
    await watching
    order_key = await command(redis, "EXISTS", Keys("t:").drain("b-1"))
    await redis.aclose()

    assert states[-1] is DrainState.DRAINED
    assert order_key == 1
