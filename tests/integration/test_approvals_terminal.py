"""`toolrail approvals` with a person at a terminal: prompts, an editor, a watch, Redis gone."""

import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cells import Cell, open_cell, write_policy
from tests.servers import StartRedis
from tests.terminals import Terminal
from toolrail import CallRequest, Run, Settings
from toolrail.embedded import EmbeddedRedis
from toolrail.settings import own_environment
from toolrail_schemas import ApprovalMode, ApprovalState

pytestmark = pytest.mark.one_redis

INTERRUPTED, NO_REDIS = 130, 3
EDITOR = '''"""Take the next text from a folder, and tell what was there before."""
import os, pathlib, sys
file, desk = pathlib.Path(sys.argv[-1]), pathlib.Path(sys.argv[1])
number = len(list(desk.glob("saw-*")))
(desk / f"saw-{number}").write_text(file.read_text())
(desk / "where").write_text(f"{file} {os.stat(file).st_mode & 0o777:o}")
(file.parent / ".swap").write_text("left behind")
file.write_text((desk / f"write-{number}").read_text())
'''


@dataclass
class Room:
    """A cell on a server of the test's own, a run, and a terminal for each command."""

    cell: Cell
    run: Run
    server: EmbeddedRedis
    folder: Path
    env: Mapping[str, str]

    def terminal(self, *words: str) -> Terminal:
        """Run `toolrail approvals …` on a terminal."""
        return Terminal(["approvals", *words], env=self.env, cwd=self.folder)

    async def park(self, call_id: str = "c1", text: str = "a") -> str:
        """Park a call; return its approval id."""
        request = CallRequest(id=call_id, name="demo.ask", arguments={"text": text})
        return (await self.run.dispatch(request)).approval_id

    async def state_of(self, approval_id: str) -> ApprovalState:
        """Return where a question stands."""
        return (await self.cell.rail.approvals.get(approval_id)).state

    def writes(self, *texts: str) -> None:
        """Let the editor write these texts, one each time it is opened."""
        for number, text in enumerate(texts):
            (self.folder / f"write-{number}").write_text(text)

    def edited_file(self) -> tuple[str, bool]:
        """Return the mode of the file that was edited, and whether anything is left of it."""
        where, mode = (self.folder / "where").read_text().split()
        return mode, Path(where).parent.exists()

    def saw(self, number: int) -> str:
        """Return what the editor was given."""
        return (self.folder / f"saw-{number}").read_text()


@pytest.fixture
async def room(start_redis: StartRedis, settings: Settings, tmp_path: Path) -> AsyncIterator[Room]:
    """Give a room; lena is logged in, and her editor writes what the test says."""
    server = start_redis(append_only=True, options={"appendfsync": "always"})
    found = settings.model_copy(
        update={
            "redis_url": server.url,
            "redis_timeout_s": 1.0,
            "policy_dir": write_policy(tmp_path / "policy"),
        }
    )
    (tmp_path / "editor.py").write_text(EDITOR)
    env = {
        **own_environment(),
        **found.to_env(),
        "LOGNAME": "lena",
        "VISUAL": f"{sys.executable} {tmp_path}/editor.py {tmp_path}",
    }
    async with open_cell(found) as cell:
        run = await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)
        yield Room(cell, run, server, tmp_path, env)


async def test_the_only_question_is_shown_and_asked(room: Room) -> None:
    """Everything of it, then yes or no; no and Ctrl-C decide nothing."""
    approval_id = await room.park()
    with room.terminal("approve") as terminal:
        terminal.expect("NO ROLLBACK")
        terminal.expect('│   "text": "a"')
        terminal.expect("Approve as lena? [y/N]: ")
        terminal.type("n")
        refused = terminal.wait()
    with room.terminal("approve") as terminal:
        terminal.expect("[y/N]: ")
        terminal.interrupt()
        terminal.expect("Interrupted. Nothing was decided.")
        interrupted = terminal.wait()
    after_no = await room.state_of(approval_id)
    with room.terminal("approve", "--remember") as terminal:
        terminal.expect("Approve, for the rest of the run, as lena? [y/N]: ")
        terminal.type("y")
        terminal.expect("approved as lena, for the rest of the run; the call is queued")
        approved = terminal.wait()

    assert (refused, interrupted, after_no) == (1, INTERRUPTED, ApprovalState.PENDING)
    assert (approved, await room.state_of(approval_id)) == (0, ApprovalState.APPROVED)


async def test_nothing_typed_is_lost_while_the_edit_is_refused(room: Room) -> None:
    """Not JSON, then against the schema, then right: each refusal comes back with the text."""
    approval_id = await room.park()
    broken, wrong, right = '{"text": "typed', '{"text": "typed", "x": 1}', '{"text": "typed"}'
    room.writes(broken, f"# a note of mine\n{wrong}", right)
    with room.terminal("edit", approval_id) as terminal:
        terminal.expect("The arguments are not JSON")
        terminal.expect("Edit again? [Y/n]: ")
        terminal.type("")
        terminal.expect('+  "x": 1')
        terminal.expect("Approve with these arguments as lena? [y/N]: ")
        terminal.type("y")
        terminal.expect("do not fit the schema")
        terminal.expect("Edit again? [Y/n]: ")
        terminal.type("y")
        terminal.expect('+  "text": "typed"')
        terminal.type("y")
        terminal.expect("approved as lena, with these arguments")
        code = terminal.wait()

    assert code == 0
    assert room.saw(0).startswith('# The arguments of demo.ask, "Ask", as JSON.\n')
    assert room.saw(0).endswith('\n{\n  "text": "a"\n}\n')
    assert "# It was refused like this:\n# The arguments are not JSON" in room.saw(1)
    assert room.saw(1).endswith(f"\n{broken}\n")
    assert room.saw(2).endswith(f"\n{wrong}\n")
    assert room.edited_file() == ("600", False)


async def test_an_empty_text_decides_nothing(room: Room) -> None:
    """Saving it is how a person gives up."""
    approval_id = await room.park()
    room.writes("# nothing but words\n\n")
    with room.terminal("edit", approval_id) as terminal:
        terminal.expect("The text is empty. Nothing was decided.")
        code = terminal.wait()

    assert code == 1
    assert await room.state_of(approval_id) is ApprovalState.PENDING


async def test_redis_gone_during_a_decision_leaves_nothing_half_done(room: Room) -> None:
    """What is known is said, and saying it again is safe: it is recorded once."""
    approval_id = await room.park()
    edit = ("edit", approval_id, "--set", 'text="b"')
    with room.terminal(*edit) as terminal:
        terminal.expect("Approve with these arguments as lena? [y/N]: ")
        room.server.kill()
        terminal.type("y")
        terminal.expect("Nothing listens at the address of Redis")
        terminal.expect("Whether the decision was recorded is not known. Give the same command")
        first = terminal.wait()
    await room.server.start_async()
    with room.terminal(*edit, "--yes") as terminal:
        terminal.expect("approved")
        second = terminal.wait()

    assert (first, second) == (NO_REDIS, 0)
    assert await room.state_of(approval_id) is ApprovalState.APPROVED


async def test_an_edit_survives_a_redis_that_is_away(room: Room) -> None:
    """The text is offered again, and goes through when Redis is back."""
    approval_id = await room.park()
    room.writes('{"text": "typed"}', '{"text": "typed"}')
    with room.terminal("edit", approval_id) as terminal:
        terminal.expect("[y/N]: ")
        room.server.kill()
        terminal.type("y")
        terminal.expect("Nothing listens at the address of Redis")
        terminal.expect("Edit again? [Y/n]: ")
        await room.server.start_async()
        terminal.type("y")
        terminal.expect("[y/N]: ")
        terminal.type("y")
        terminal.expect("approved as lena")
        code = terminal.wait()

    assert code == 0
    assert '{"text": "typed"}' in room.saw(1)


async def test_a_watch_tells_of_each_question_and_outlasts_redis(room: Room) -> None:
    """Asked, approved, denied, cancelled; one line when Redis goes, one when it is back."""
    ids = [await room.park("c0")]
    approvals = room.cell.rail.approvals
    with room.terminal("watch") as terminal, room.terminal("watch", "--json") as machine:
        terminal.expect('demo.ask  "Ask"')
        machine.expect('"state": "pending"')
        ids += [await room.park(f"c{n}", "\x1b[2J[red]") for n in (1, 2)]
        terminal.expect('text: "\\u001b[2J[red]"')
        terminal.expect('text: "\\u001b[2J[red]"')
        await approvals.approve(ids[0], by="ana")
        terminal.expect("approved")
        terminal.expect("by ana, 0 s ago, for this call")
        room.server.kill()
        terminal.expect("Redis does not answer; waiting until it does. Ctrl-C stops.")
        await room.server.start_async()
        terminal.expect("Redis is back; no end of a question was missed.")
        await approvals.deny(ids[1], by="bob", comment="No \u202e.")
        terminal.expect("denied")
        terminal.expect("│ No \\u202e.")
        await room.run.cancel()
        terminal.expect("cancelled")
        machine.expect('"state": "cancelled"')
        terminal.interrupt()
        machine.interrupt()
        codes = [terminal.wait(), machine.wait()]
        screen = terminal.screen

    assert codes == [INTERRUPTED, INTERRUPTED]
    assert screen.count("Redis does not answer") == 1
    assert "Traceback" not in screen
    assert "Abort" not in screen
