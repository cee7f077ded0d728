"""An extension beside a real cluster: from the client through queue, worker and bridge and back."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.sources import ROOT
from tests.waiting import await_until
from toolrail.request import CallRequest
from toolrail.run import Run
from toolrail.settings import Settings
from toolrail.supervisor.spec import ChildSpec, RestartPolicy, Stage
from toolrail.testing import Cluster
from toolrail_schemas import EventType, JournalEvent, JsonBlock

BOUND_S = 60.0
POLICY = {
    "platform.toml": "",
    "source.toml": "",
    "profiles/player.toml": 'on_denied = "return_result"\nallow = ["extension:dice"]\n',
    "users/ann.toml": 'waive = ["extension:dice"]\n',
}

pytestmark = pytest.mark.one_redis


@pytest_asyncio.fixture
async def cluster(settings: Settings, tmp_path: Path) -> AsyncIterator[Cluster]:
    """One extension worker, and dice that count as dead after a second."""
    for name, text in POLICY.items():
        file = tmp_path / "policy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with_policy = settings.model_copy(update={"policy_dir": tmp_path / "policy"})
    async with Cluster(tmp_path, settings=with_policy, scale={"extension": 1}) as cluster:
        await cluster.add(
            ChildSpec(
                name="dice",
                argv=(
                    sys.executable,
                    "-m",
                    "tests.extensions.dice",
                    "--heartbeat-s=0.2",
                    "--dead-after-s=1",
                    "--patience-s=30",
                ),
                env=cluster.environment(),
                cwd=str(ROOT),
                stage=Stage.FRONT,
                restart=RestartPolicy(base_s=0.05),
            )
        )
        yield cluster


@pytest_asyncio.fixture
async def run(cluster: Cluster) -> AsyncIterator[Run]:
    """A run of a user who trusts the extension."""
    async with cluster.client() as rail:
        yield await rail.open_run(profile="player", user="ann")


async def started(run: Run, call_id: str) -> bool:
    """Say whether a call has started."""
    return any(
        isinstance(event, JournalEvent)
        and event.type is EventType.TOOL_CALL_STARTED
        and event.payload["call_id"] == call_id
        for event in await run.journal()
    )


async def test_a_call_goes_to_an_extension_and_back(run: Run) -> None:
    """Governed like any other, and its structured answer arrives."""
    await await_until(lambda: _is_known(run), "the tool", timeout_s=BOUND_S)
    result = await run.call("ext.dice.roll", {"seed": 3}, id="c1", timeout_s=BOUND_S)
    wrong = await run.call("ext.dice.roll", {"count": 0}, id="c2", timeout_s=BOUND_S)
    await run.complete()

    assert not result.is_error
    assert isinstance(result.structured, dict)
    assert result.content == (JsonBlock(value=result.structured),) or result.content == ()
    assert wrong.error_code == "tool.invalid_arguments"


async def test_a_killed_extension_is_told_and_comes_back(cluster: Cluster, run: Run) -> None:
    """Its call's outcome is unknown; its supervisor starts it again, and the next call works."""
    await await_until(lambda: _is_known(run), "the tool", timeout_s=BOUND_S)
    ticket = await run.dispatch(CallRequest(id="c1", name="ext.dice.throw_far"))
    await await_until(lambda: started(run, "c1"), "the call to start", timeout_s=BOUND_S)
    os.kill(cluster.pid("dice"), signal.SIGKILL)
    lost = await run.wait(ticket, timeout_s=BOUND_S)
    await cluster.wait_ready("dice", starts=2)
    result = await run.call("ext.dice.roll", {"seed": 3}, id="c2", timeout_s=BOUND_S)
    await run.complete()

    assert lost.error_code in {"tool.outcome_unknown", "extension.unavailable"}
    assert not result.is_error


async def test_a_cancelled_call_ends_at_once(cluster: Cluster, run: Run) -> None:
    """The cancel goes over ledger, worker and bridge to the function."""
    await await_until(lambda: _is_known(run), "the tool", timeout_s=BOUND_S)
    ticket = await run.dispatch(CallRequest(id="c1", name="ext.dice.throw_far"))
    await await_until(lambda: started(run, "c1"), "the call to start", timeout_s=BOUND_S)
    await run.cancel()
    result = await run.wait(ticket, timeout_s=BOUND_S)

    assert result.error_code == "tool.cancelled"


async def _is_known(run: Run) -> bool:
    return "ext.dice.roll" in {tool.name for tool in await run.tools()}
