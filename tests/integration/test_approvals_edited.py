"""Arguments that a person edits: what then holds for the call, and what its model is told."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.cells import Cell, open_cell, write_policy
from tests.policies import native
from toolrail import CallRequest, Run, Settings
from toolrail.ledger import Claim
from toolrail.registry import Registry
from toolrail.request import Ticket
from toolrail.results import error_text
from toolrail_schemas import ApprovalMode, ToolSpec

PATCHING = """
on_denied = "return_result"
allow = ["workspace.*", "demo.*"]
require_approval = ["workspace.apply_patch", "demo.ask"]

[budgets."effect:destructive"]
timeout_ms = 1234
max_output_tokens = 99
max_output_bytes = 5000
"""
PATCH_SCHEMA: dict[str, JsonValue] = {"type": "object", "properties": {"patch": {"type": "string"}}}
ADDS, DELETES = "*** Add File: a.txt\n+a", "*** Delete File: a.txt"


@pytest.fixture
async def cell(settings: Settings, tmp_path: Path) -> AsyncIterator[Cell]:
    """Give an open client under a policy with smaller caps for what destroys."""
    policy = write_policy(tmp_path / "policy")
    (policy / "profiles" / "agent.toml").write_text(PATCHING, encoding="utf-8")
    async with open_cell(settings.model_copy(update={"policy_dir": policy})) as cell:
        registry = Registry(cell.bench.redis, prefix=settings.key_prefix, deadline_s=5)
        await registry.announce("builtin", "files", [patcher()], worker="w2", available=True)
        await cell.rail.refresh_tools()
        yield cell


@pytest.fixture
async def run(cell: Cell) -> Run:
    """Give a run with somebody to ask."""
    return await cell.rail.open_run(profile="agent", approval_mode=ApprovalMode.INTERACTIVE)


def patcher() -> ToolSpec:
    """Return the tool whose effects depend on its arguments."""
    return native("workspace.apply_patch").model_copy(update={"input_schema": PATCH_SCHEMA})


async def claimed(cell: Cell, ticket: Ticket) -> Claim:
    """Claim the call as a worker does."""
    claim = await cell.bench.ledger.claim(
        ticket.run_id, ticket.call_key, attempt=1, nonce="n", worker="w", lease_ms=60_000
    )
    assert isinstance(claim, Claim)
    return claim


@pytest.mark.parametrize(
    ("asked", "edited", "is_smaller"),
    [(ADDS, DELETES, True), (DELETES, ADDS, False), (DELETES, None, True)],
)
async def test_the_caps_of_a_call_are_those_of_the_arguments_that_run(
    cell: Cell, run: Run, asked: str, edited: str | None, is_smaller: bool
) -> None:
    """Time and output of an edited call come from the policy's answer to the edit.

    Caps of a builtin tool without any of its own: semantics 1.3.
    """
    request = CallRequest(id="c1", name="workspace.apply_patch", arguments={"patch": asked})
    ticket = await run.dispatch(request)
    await run.approve(ticket, by="ann", arguments={"patch": edited} if edited else None)
    fields = (await claimed(cell, ticket)).fields
    caps = [int(fields[name]) for name in ("timeout_ms", "max_output_tokens", "max_output_bytes")]

    assert caps == ([1234, 99, 5000] if is_smaller else [15_000, 8000, 1024 * 1024])


async def test_an_edit_is_told_of_though_no_worker_ever_had_the_call(run: Run) -> None:
    """Cancelled while it is queued; the words beside the record hold no secret."""
    request = CallRequest(id="c1", name="workspace.apply_patch", arguments={"patch": ADDS})
    ticket = await run.dispatch(request)
    edited: dict[str, JsonValue] = {"patch": "", "password": "hunter2"}
    await run.approve(ticket, by="ann", arguments=edited)
    await run.cancel_call(ticket)
    result = await run.wait(ticket, timeout_s=10)

    assert result.error_code == "tool.cancelled"
    assert error_text(result) == (
        "A person changed the arguments of this call before approving it. "
        'The approved arguments are: patch: ""\npassword: «redacted»'
    )
