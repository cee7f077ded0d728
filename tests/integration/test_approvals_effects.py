"""Arguments that change what a call does: what a person may make of it, and agree to in advance.

Is: edits that policy refuses, and what an approval for the rest of the run covers. Is not: the caps
of an edited call (`test_approvals_edited.py`). Above: nothing. Below: `tests/cells.py`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.cells import open_cell, write_policy
from tests.policies import native
from tests.promises import promise
from toolrail import CallRequest, Run, Settings
from toolrail.errors import ApprovalRefused
from toolrail.registry import Registry
from toolrail.request import Ticket
from toolrail_schemas import ApprovalMode

ASKING = """
on_denied = "return_result"
allow = ["workspace.*"]
require_approval = ["workspace.apply_patch"]
"""
SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"patch": {"type": "string"}}}
ADDS, DELETES = "*** Add File: a.txt\n+a", "*** Delete File: a.txt"


@asynccontextmanager
async def patching(settings: Settings, folder: Path, profile: str) -> AsyncGenerator[Run]:
    """Give a run with somebody to ask and a tool whose effects depend on its arguments."""
    write_policy(folder)
    (folder / "profiles" / "agent.toml").write_text(profile, encoding="utf-8")
    async with open_cell(settings.model_copy(update={"policy_dir": folder})) as cell:
        tool = native("workspace.apply_patch").model_copy(update={"input_schema": SCHEMA})
        registry = Registry(cell.bench.redis, prefix=settings.key_prefix, deadline_s=5)
        await registry.announce("builtin", "files", [tool], worker="w2", available=True)
        await cell.rail.refresh_tools()
        run = await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)
        yield run
        await run.cancel()


async def patch(run: Run, call_id: str, text: str) -> Ticket:
    """Ask for a patch."""
    arguments: dict[str, JsonValue] = {"patch": text}
    return await run.dispatch(
        CallRequest(id=call_id, name="workspace.apply_patch", arguments=arguments)
    )


@promise("approval.edited-is-checked")
async def test_an_edit_that_policy_denies_is_refused(settings: Settings, tmp_path: Path) -> None:
    """A person cannot make of a call what its model could not; the question stands."""
    denying = f'{ASKING}deny = ["effect:destructive"]\n'
    async with patching(settings, tmp_path, denying) as run:
        ticket = await patch(run, "c1", ADDS)
        with pytest.raises(ApprovalRefused, match="policy does not allow the call with these"):
            await run.approve(ticket, by="ann", arguments={"patch": DELETES})
        decision = await run.approve(ticket, by="ann", arguments={"patch": f"{ADDS}\n+b"})

    assert ticket.state == "awaiting_approval"
    assert decision.call_state == "queued"


@pytest.mark.parametrize(
    ("asked", "edited", "covers_deleting"),
    [(ADDS, None, False), (DELETES, None, True), (DELETES, ADDS, False), (ADDS, DELETES, True)],
)
async def test_an_approval_for_the_run_covers_the_effects_that_were_approved(
    settings: Settings, tmp_path: Path, asked: str, edited: str | None, covers_deleting: bool
) -> None:
    """Whoever agreed to patches that only add is asked about one that deletes."""
    async with patching(settings, tmp_path, ASKING) as run:
        ticket = await patch(run, "c1", asked)
        arguments = None if edited is None else {"patch": edited}
        await run.approve(ticket, by="ann", scope="run", arguments=arguments)
        adding = await patch(run, "c2", f"{ADDS}\n+b")
        deleting = await patch(run, "c3", DELETES.replace("a.txt", "b.txt"))

    assert adding.state == "queued"
    assert deleting.state == ("queued" if covers_deleting else "awaiting_approval")
