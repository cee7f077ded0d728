"""What several workers announce, as dispatchers read it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import cast

import pytest
from redis.asyncio import Redis

from tests.functions import make_spec
from toolrail.keys import Keys
from toolrail.ledger import LedgerReader
from toolrail.redis_io import command, connect
from toolrail.registry import GONE_S, LIVE_S, RegisteredTool, Registry, RegistryView
from toolrail.settings import Settings
from toolrail_schemas import ToolSpec

A, B = make_spec("demo.a"), make_spec("demo.b")
A_NEW = A.model_copy(update={"description": "The same tool, newer."})


@dataclass
class Fleet:
    """Workers of one owner that only announce."""

    redis: Redis
    keys: Keys
    registry: Registry

    async def say(
        self, worker: str, *specs: ToolSpec, available: bool = True, reason: str = ""
    ) -> None:
        """Announce as one worker."""
        await self.registry.announce(
            "builtin", "builtin", specs, worker=worker, available=available, reason=reason
        )

    async def leave(self, worker: str) -> None:
        """Withdraw as one worker."""
        await self.registry.withdraw("builtin", "builtin", worker=worker)

    async def silent_since(self, worker: str, seconds: float) -> None:
        """Make a worker look as if it had announced last so long ago."""
        reader = LedgerReader(self.redis, prefix=self.keys.prefix, deadline_s=5.0)
        until = await reader.now_ms() + int((LIVE_S - seconds) * 1000)
        await command(self.redis, "ZADD", self.keys.live("builtin", "builtin"), "XX", until, worker)

    async def tools(self) -> dict[str, RegisteredTool]:
        """Return what is listed."""
        return {tool.spec.name: tool for tool in await self.registry.tools()}


@pytest.fixture
async def fleet(settings: Settings) -> AsyncGenerator[Fleet]:
    """Give a fleet without workers."""
    redis = connect(settings.redis_url, timeout_s=5.0, name="test")
    registry = Registry(redis, prefix=settings.key_prefix, deadline_s=5.0)
    yield Fleet(redis, Keys(settings.key_prefix), registry)
    await redis.aclose()


async def test_workers_of_one_owner_with_different_tools_add_up(fleet: Fleet) -> None:
    """Neither hides the other's tools, and a repeated announcement changes nothing."""
    await fleet.say("w1", A)
    await fleet.say("w2", B)
    version = await fleet.registry.version()
    await fleet.say("w1", A)
    await fleet.say("w2", B)
    tools = await fleet.tools()

    assert sorted(tools) == ["demo.a", "demo.b"]
    assert tools["demo.a"].runners == {A.spec_hash: {"w1"}}
    assert tools["demo.b"].runners == {B.spec_hash: {"w2"}}
    assert await fleet.registry.version() == version


async def test_the_newest_version_of_a_tool_wins_and_stays(fleet: Fleet) -> None:
    """However often the older worker repeats what it has; both can still run their own."""
    await fleet.say("w2", A)
    await fleet.say("w1", A_NEW)
    await fleet.say("w2", A, available=False, reason="Closing.")
    await fleet.say("w2", A)
    tool = (await fleet.tools())["demo.a"]

    assert tool.spec.description == A_NEW.description
    assert tool.runners == {A.spec_hash: {"w2"}, A_NEW.spec_hash: {"w1"}}


async def test_a_tool_is_available_where_one_worker_can_run_it(fleet: Fleet) -> None:
    """And says why not when none can."""
    await fleet.say("w1", A, available=False, reason="It is down.")
    await fleet.say("w2", A)
    one = (await fleet.tools())["demo.a"]
    await fleet.say("w2", A, available=False, reason="It is down.")
    none = (await fleet.tools())["demo.a"]

    assert one.available
    assert one.runners == {A.spec_hash: {"w2"}}
    assert (none.available, none.reason, none.runners) == (False, "It is down.", {})


async def test_the_tools_of_a_worker_that_restarts_stay_known(fleet: Fleet) -> None:
    """Also when it is the only one that has them; nobody runs them meanwhile."""
    await fleet.say("w1", A)
    await fleet.say("w2", B)
    await fleet.leave("w1")
    await fleet.say("w2", B)
    tool = (await fleet.tools())["demo.a"]

    assert tool.available
    assert tool.runners == {}
    assert await fleet.registry.live_workers("builtin", "builtin") == ["w2"]


async def test_a_worker_that_is_gone_for_good_is_dropped_by_one_that_lives(fleet: Fleet) -> None:
    """Its tools go with it, and readers are told."""
    await fleet.say("w1", A)
    await fleet.say("w2", B)
    version = await fleet.registry.version()
    await fleet.silent_since("w1", LIVE_S + GONE_S + 1)
    await fleet.say("w2", B)

    assert sorted(await fleet.tools()) == ["demo.b"]
    assert await fleet.registry.version() > version


async def test_the_tools_stay_listed_while_no_worker_lives(fleet: Fleet) -> None:
    """Calls may wait for a fleet that restarts."""
    await fleet.say("w1", A)
    await fleet.say("w2", B)
    await fleet.silent_since("w1", 3600)
    await fleet.silent_since("w2", 3600)
    tools = await fleet.tools()

    assert sorted(tools) == ["demo.a", "demo.b"]
    assert all(tool.available and not tool.runners for tool in tools.values())


async def test_a_worker_that_was_gone_takes_its_place_again(fleet: Fleet) -> None:
    """Its old entry is its own; it does not drop itself."""
    await fleet.say("w1", A)
    await fleet.silent_since("w1", 3600)
    await fleet.say("w1", A)

    assert (await fleet.tools())["demo.a"].runners == {A.spec_hash: {"w1"}}


async def test_what_redis_lost_is_announced_again(fleet: Fleet) -> None:
    """Entries and specs are two keys, and either may be gone."""
    await fleet.say("w1", A)
    keys = cast("list[str]", await command(fleet.redis, "KEYS", fleet.keys.blob("*")))
    await command(fleet.redis, "DEL", *keys)
    await fleet.say("w1", A)

    assert sorted(await fleet.tools()) == ["demo.a"]


async def test_a_view_reads_again_when_the_version_has_moved(fleet: Fleet) -> None:
    """An unknown name is looked up afresh."""
    view = RegistryView(fleet.registry)
    before = await view.find("demo.a")
    await fleet.say("w1", A)
    after = await view.find("demo.a")

    assert before is None
    assert after is not None
    assert after.queue == "builtin"
