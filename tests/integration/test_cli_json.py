"""What `--json` prints: JSON and nothing else, of every command that has it.

Is: a walk over all of them on one cell. Is not: what stands in the objects (the tests of each).
Above: nothing. Below: `tests/cli.py`, `tests/cells.py`.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, write_policy
from tests.cli import Cli, all_leaves
from tests.fleets import appear
from tests.letters import make_letter
from tests.terminals import TOOLRAIL
from toolrail import CallRequest, Settings
from toolrail.fleet import Fleet
from toolrail.settings import own_environment
from toolrail_schemas import ApprovalMode

pytestmark = pytest.mark.one_redis

WORDS = {
    "approvals approve": "{c1} --by ana",
    "approvals deny": "{c2} --by ana",
    "approvals edit": '{c3} --by ana --yes --set text="b"',
    "approvals list": "",
    "approvals show": "{c4}",
    "call": "no.such_tool",
    "chat import": "--chat c /dev/null",
    "dlq discard": "{l1} --by ana",
    "dlq list": "",
    "dlq redrive": "{l2} --by ana --wait-s 0",
    "dlq show": "{l3}",
    "doctor": "",
    "drain": "--all",
    "journal": "{run}",
    "policy explain": "workspace.read_file",
    "queues": "",
    "run show": "{run}",
    "runs": "",
    "try": "workspace.list_files",
    "workers": "",
}
"""Each finds something to tell of."""
ENDLESS = {"approvals watch"}
WHOLE = {"call", "try"}
"""One object over several lines, for people too."""
MAY_FAIL = {"call", "doctor"}


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client under the policy of these tests."""
    folder = write_policy(tmp_path / "policy")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        yield cell


async def fill(cell: Cell) -> dict[str, str]:
    """Park calls, make dead letters and let a worker appear; return the ids by short names."""
    run = await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)
    ids = {"run": run.id}
    for name in ("c1", "c2", "c3", "c4"):
        request = CallRequest(id=name, name="demo.ask", arguments={"text": "a"})
        ids[name] = (await run.dispatch(request)).approval_id
    for name in ("l1", "l2", "l3"):
        ids[name] = await make_letter(cell, run, name)
    await appear(Fleet(cell.bench.redis, prefix=cell.settings.key_prefix, deadline_s=5.0), "b-1")
    return ids


def test_the_walk_knows_every_command_with_json() -> None:
    """A new one is walked too."""
    having = {command for command, options in all_leaves().items() if "--json" in options}

    assert having == {*WORDS, *ENDLESS}


async def test_every_json_is_json_and_nothing_else(cell: Cell, cli: Cli) -> None:
    """One object, or one a line; what is said beside it goes to standard error."""
    ids = await fill(cell)
    wrong: list[str] = []
    for command, words in WORDS.items():
        said = await cli.within(*command.split(), *words.format(**ids).split(), "--json")
        texts = [said.out] if command in WHOLE else said.lines
        values = [json.loads(text) for text in texts]
        if not values or not all(isinstance(value, dict) for value in values):
            wrong.append(f"{command}: {said}")
        if said.code and command not in MAY_FAIL:
            wrong.append(f"{command}: {said}")

    assert wrong == []


async def test_decisions_are_told_as_data(cell: Cell, cli: Cli) -> None:
    """One object for each ID, in order, whatever became of it; the code is that of the text."""
    ids = await fill(cell)
    await cli.within("approvals", "deny", ids["c1"], "--by", "ana")
    said = await cli.within(
        "approvals", "approve", ids["c1"], "abcdefgh", ids["c2"], "--by", "bob", "--json"
    )
    again = await cli.within("approvals", "deny", ids["c1"], "--by", "bob", "--json")
    conflict, unknown, approved = said.rows()

    assert said.code == 4
    assert (conflict["approval_id"], conflict["error_code"]) == (ids["c1"], "approval.conflict")
    assert "denied already by ana" in str(conflict["why"])
    assert (unknown["given"], unknown["error_code"]) == ("abcdefgh", "approval.not_found")
    assert (approved["state"], approved["decided_by"]) == ("approved", "bob")
    assert (approved["call_state"], approved["error_code"]) == ("queued", "")
    assert (again.row()["repeated"], again.row()["decided_by"]) == (True, "ana")


@pytest.mark.parametrize(
    "words", [("approve",), ("edit", "abcdefgh"), ("edit", "abcdefgh", "--yes")]
)
def test_json_asks_nobody(cli: Cli, words: tuple[str, ...]) -> None:
    """A question to a person would stand among the objects."""
    said = cli("approvals", *words, "--json")

    assert (said.code, said.out) == (64, "")
    assert "--json: asks nobody" in said.err


async def test_a_watch_that_is_interrupted_ends_cleanly(cell: Cell, tmp_path: Path) -> None:
    """Each line is whole JSON; Ctrl-C ends it with 130 and no trace, also when it is piped."""
    ids = await fill(cell)
    process = await asyncio.create_subprocess_exec(
        *(TOOLRAIL, "approvals", "watch", "--json"),
        env=own_environment() | cell.settings.to_env(),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines = [await process.stdout.readline() for _ in range(4)]
    process.send_signal(signal.SIGINT)
    _, err = await process.communicate()
    asked = {json.loads(line)["approval_id"] for line in lines}

    assert asked == {ids[name] for name in ("c1", "c2", "c3", "c4")}
    assert (process.returncode, err) == (130, b"")
