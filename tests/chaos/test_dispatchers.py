"""Dispatchers race and die; connections die all the time."""

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.clients import Caller, open_caller
from tests.chaos.deeds import kill_all_connections
from tests.chaos.effect_tools import UNITS
from tests.chaos.rig import RECOVERY_S, Rig, open_rig
from tests.sources import ROOT
from tests.waiting import await_until
from toolrail import Settings
from toolrail.settings import own_environment
from toolrail_workers.rebell import BLIND_FIRST_MS

RACERS = 50
KILL_EVERY_S = 0.2
KILLING_S = 3.0
KILLING_LONG_S = 20.0
LANES = 8
TOOLS = ("effects.once", "effects.again", "effects.isolated")

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(150)]


async def test_fifty_processes_race_for_the_last_unit_and_one_gets_it(
    rig: Rig, caller: Caller
) -> None:
    """Separate processes and connections; the others are told that the budget is used up."""
    ids = caller.ids(RACERS + UNITS - 1)
    for call_id in ids[RACERS:]:
        await caller.call(call_id, "effects.rare")
    series = ids[0].rpartition("-")[0]
    words = (str(rig.histories.folder), caller.run.id, series, str(RACERS))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.racers", *words),
        env=own_environment() | rig.settings.to_env(),
        cwd=ROOT,
    )
    failed = await process.wait()
    records, _ = rig.judge()
    codes = Counter(each.error_code for each in records.answered if each.call_id in ids[:RACERS])
    effects = [each for each in records.effects if each.call_id in ids]

    assert failed == 0
    assert codes == {"": 1, "tool.budget_exhausted": RACERS - 1}
    assert len(effects) == UNITS


async def test_calls_go_on_while_every_connection_is_killed(
    rig: Rig, caller: Caller, long_version: bool
) -> None:
    """CLIENT KILL of everybody, clients and workers alike, five times a second (E6)."""
    kills = int((KILLING_LONG_S if long_version else KILLING_S) / KILL_EVERY_S)
    over = asyncio.Event()
    numbers = iter(caller.ids(100_000))

    async def lane(tool: str) -> list[str | None]:
        codes: list[str | None] = []
        while not over.is_set():
            result = await caller.call(next(numbers), tool, before_s=0.05)
            codes.append(result.error_code)
        return codes

    lanes = [asyncio.create_task(lane(TOOLS[n % len(TOOLS)])) for n in range(LANES)]
    for _ in range(kills):
        await kill_all_connections(rig)
        await asyncio.sleep(KILL_EVERY_S)
    over.set()
    codes = Counter(code for each in await asyncio.gather(*lanes) for code in each)

    assert codes[None] > kills
    assert set(codes) <= {None, "tool.outcome_unknown"}


async def test_a_dispatcher_killed_before_it_could_ring_loses_nothing(tmp_path: Path) -> None:
    """Committed to Redis, the doorbell still on its way to another broker: SIGKILL there."""

    def elsewhere(settings: Settings) -> Settings:
        # Another database is as foreign to the ledger as another machine.
        return settings.model_copy(update={"broker_url": settings.redis_url[:-1] + "1"})

    async with open_rig(tmp_path, "builtin.1", change=elsewhere) as rig, open_caller(rig) as caller:
        [call_id] = caller.ids(1)
        broker_url = rig.settings.broker_url
        assert broker_url is not None
        through = rig.settings.model_copy(update={"redis_url": broker_url})
        proxied = await rig.proxied("broker", through)
        rig.proxies["broker"].hold("up")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.chaos.dispatch_one", caller.run.id, call_id),
            *(str(rig.histories.effects_file),),
            env=own_environment()
            | rig.settings.model_copy(update={"broker_url": proxied.redis_url}).to_env(),
            cwd=ROOT,
        )
        await await_until(lambda: rig.kinds(call_id), "the call is committed", timeout_s=30)
        assert process.returncode is None
        os.kill(process.pid, 9)
        await process.wait()
        ticket = caller.ticket(call_id, "effects.once")
        rig.histories.accepted(caller.run.id, call_id, repeatable=False)
        result = await caller.answer(call_id, ticket, timeout_s=BLIND_FIRST_MS / 1000 + RECOVERY_S)

    assert result.error_code is None
