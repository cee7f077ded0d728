"""A cell with parked calls, and `toolrail approvals` as a person types it there.

Is: `Desk`, which parks calls and runs commands in this process, in a thread of their own. Is not:
a terminal (`tests/terminals.py`). Above: tests of `toolrail approvals`. Below: `tests/cells.py`,
`toolrail.cli.main`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from pydantic import JsonValue

from tests.cells import SPECS, Cell, open_cell, write_policy
from tests.policies import DESTRUCTIVE, native
from toolrail import CallRequest, Run, Settings
from toolrail.cli.main import run as run_command
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail_schemas import ApprovalMode, Permission, ToolSpec

RULES = """
[[rules]]
id = "once-needs-a-person"
effect = "require_approval"
tools = ["demo.once"]

[approvals]
approvers = ["ana", "bob"]
"""
MARKED: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "to": {"type": "string", "maxLength": 40},
        "pin": {"type": "string", "x-secret": True},
        "note": {"type": "string"},
        "password": {"type": "string"},
    },
    "required": ["to"],
    "additionalProperties": False,
}


def mail(name: str = "demo.mail", **changes: object) -> ToolSpec:
    """Return a destructive tool whose schema marks a secret."""
    plain = native(name, Permission.APPROVAL_REQUIRED, annotations=DESTRUCTIVE)
    return plain.model_copy(update={"input_schema": MARKED, **changes})


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> list[dict[str, JsonValue]]:
        """Return the lines of JSON."""
        return [cast("dict[str, JsonValue]", json.loads(line)) for line in self.out.splitlines()]


@dataclass
class Desk:
    """A cell, a run with somebody to ask, and the commands of that somebody."""

    cell: Cell
    run: Run
    capsys: pytest.CaptureFixture[str]

    async def __call__(self, *words: str) -> Ran:
        """Run `toolrail approvals …`."""
        code = await asyncio.to_thread(run_command, ["approvals", *words])
        said = self.capsys.readouterr()
        return Ran(code, said.out, said.err)

    async def park(
        self, call_id: str = "c1", name: str = "demo.ask", **arguments: JsonValue
    ) -> str:
        """Park a call; return its approval id."""
        asked: dict[str, JsonValue] = arguments or {"text": "a"}
        request = CallRequest(id=call_id, name=name, arguments=asked)
        ticket = await self.run.dispatch(request)
        assert ticket.state == "awaiting_approval"
        return ticket.approval_id

    async def another_run(self) -> "Desk":
        """Open a second run at the same desk."""
        return Desk(self.cell, await asking(self.cell), self.capsys)

    async def offer(self, *specs: ToolSpec) -> None:
        """Announce these tools beside the cell's own."""
        registry = Registry(self.cell.bench.redis, prefix=self.prefix, deadline_s=5)
        await registry.announce("builtin", "builtin", (*SPECS, *specs), worker="w", available=True)
        await self.cell.rail.refresh_tools()

    async def let_expire(self, approval_id: str) -> None:
        """Move the question's end into the past of Redis; no sweeper has run."""
        record = await self.cell.rail.approvals.get(approval_id)
        end_ms = await self.cell.rail.approvals.now_ms() - 1
        over = record.model_copy(
            update={"expires_at": end_ms, "requested_at": end_ms - 1_000}
        ).model_dump_json()
        key = f"{self.prefix}run:{record.run_id}:call:{record.call_key}"
        redis = self.cell.bench.redis
        await command(redis, "HSET", key, "approval", over, "approval_expires_ms", end_ms)

    @property
    def prefix(self) -> str:
        """The key prefix of the cell."""
        return self.cell.settings.key_prefix


async def asking(cell: Cell) -> Run:
    """Open a run with somebody to ask."""
    return await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)


@contextmanager
def found_by_commands(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Let commands in this process find the cell, and leave logging as it was."""
    for name, value in settings.to_env().items():
        monkeypatch.setenv(name, value)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


@asynccontextmanager
async def open_desk(
    settings: Settings,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    platform: str = "",
    specs: Sequence[ToolSpec] = (),
) -> AsyncGenerator[Desk]:
    """Give a desk under a policy with this platform layer, and these tools more."""
    policy_dir = write_policy(folder / "policy")
    (policy_dir / "platform.toml").write_text(platform, encoding="utf-8")
    found = settings.model_copy(update={"policy_dir": policy_dir})
    with found_by_commands(found, monkeypatch):
        async with open_cell(found) as cell:
            desk = Desk(cell, await asking(cell), capsys)
            if specs:
                await desk.offer(*specs)
            yield desk


def short(approval_id: str) -> str:
    """Return the first 8 characters of the call key."""
    return approval_id.rpartition(".")[2][:8]
