"""Patches through a real cluster: policy, queue, worker, journal, and a second worker.

Is: workspace.apply_patch as an agent calls it. Is not: what it does to files
(`tests/component/test_patch_*.py`).
Above: nothing. Below: `toolrail.testing`.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pydantic import JsonValue

from tests.patching import envelope, update
from toolrail.run import Run
from toolrail.settings import Settings
from toolrail.testing import Cluster
from toolrail_schemas import DiffRefBlock, EventType, JournalEvent, ToolResult

PATH = "output/a.txt"

pytestmark = pytest.mark.one_redis


@pytest_asyncio.fixture
async def run(settings: Settings, tmp_path: Path) -> AsyncIterator[Run]:
    """A run of the writer on two builtin workers."""
    async with (
        Cluster(tmp_path, settings=settings, scale={"builtin": 2}) as cluster,
        cluster.client() as rail,
    ):
        yield await rail.open_run(profile="writer")


async def call(run: Run, number: int, tool: str, **arguments: JsonValue) -> ToolResult:
    return await run.call(f"workspace.{tool}", arguments, id=f"c{number}", turn=number)


async def types_of(run: Run, call_id: str) -> list[EventType]:
    """Return what the journal tells of a call, in order."""
    return [
        event.type
        for event in await run.journal()
        if isinstance(event, JournalEvent) and event.payload.get("call_id") == call_id
    ]


async def test_a_patch_goes_through_policy_queue_and_worker(run: Run) -> None:
    """The answer comes with its stored diff and checkpoint; the journal tells both before it."""
    patch = envelope(f"*** Add File: {PATH}", "+one", "*** Add File: plan/b.txt", "+two")
    added = await call(run, 1, "apply_patch", patch=patch)
    edited = await call(run, 2, "apply_patch", patch=update("-one", "+ONE"))
    read = await call(run, 3, "read_file", path=PATH)

    assert not added.is_error
    assert not edited.is_error
    assert isinstance(edited.structured, dict)
    assert edited.structured["checkpoint_id"] == "cp2"
    assert any(isinstance(block, DiffRefBlock) for block in edited.content)
    assert "ONE" in read.model_dump_json()
    assert await types_of(run, "c2") == [
        EventType.TOOL_CALL_REQUESTED,
        EventType.TOOL_CALL_STARTED,
        EventType.WORKSPACE_PATCH_APPLIED,
        EventType.CHECKPOINT_CREATED,
        EventType.TOOL_RESULT_STORED,
        EventType.TOOL_CALL_COMPLETED,
    ]


async def test_a_deletion_needs_a_person_and_a_failure_is_told(run: Run) -> None:
    """A writer may edit; to take a file away is destructive, and nobody is there to ask."""
    await call(run, 1, "write_file", path=PATH, content="one\n")
    deleted = await call(run, 2, "apply_patch", patch=envelope(f"*** Delete File: {PATH}"))
    wrong = await call(run, 3, "apply_patch", patch=update("-none", "+x"))
    read = await call(run, 4, "read_file", path=PATH)

    assert deleted.is_error
    assert (deleted.error_code or "").startswith(("policy.", "approval."))
    assert wrong.error_code == "patch.context_mismatch"
    assert isinstance(wrong.structured, dict)
    assert len(str(wrong.structured["current_sha256"])) == 64
    assert EventType.WORKSPACE_PATCH_FAILED in await types_of(run, "c3")
    assert not read.is_error


async def test_a_path_to_the_outside_ends_the_run(run: Run) -> None:
    """Before the first section; the run has failed."""
    patch = envelope(f"*** Add File: {PATH}", "+one", "*** Add File: ../b.txt", "+two")
    escaped = await call(run, 1, "apply_patch", patch=patch)

    assert escaped.error_code == "workspace.path_escape"
    assert await run.status() == "failed"
