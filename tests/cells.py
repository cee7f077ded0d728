"""Give a cell with tools, an open client, and an honest worker inside the test process.

Is: what tests of the client need: `serve` pops real doorbells and claims and finishes through the
real scripts. Is not: a worker process. Above: tests of the client. Below: `tests/calls.py`.
"""

import asyncio
import json
import uuid
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import orjson
from pydantic import JsonValue

from tests.calls import LedgerBench, ledger_bench
from tests.policies import DESTRUCTIVE, READING, native
from toolrail import CallRequest, Run, Settings, Toolrail
from toolrail.ledger import Claim, unaccounted
from toolrail.redis_io import command
from toolrail.registry import Registry
from toolrail.request import Ticket
from toolrail.results import ending_of, store_result
from toolrail.tasks import end_task
from toolrail_schemas import (
    Annotations,
    ApprovalMode,
    Budget,
    Doorbell,
    SideEffect,
    TextBlock,
    ToolResult,
    ToolSpec,
)

Body = Callable[[dict[str, JsonValue]], str]
SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 20}},
    "required": ["text"],
    "additionalProperties": False,
}
POLICY = {
    "platform.toml": "",
    "source.toml": "",
    "profiles/agent.toml": (
        'on_denied = "return_result"\n'
        'allow = ["demo.*"]\ndeny = ["demo.denied"]\nrequire_approval = ["demo.ask", "demo.rare"]\n'
    ),
    "profiles/strict.toml": 'allow = ["demo.echo"]\ndeny = ["demo.denied"]\n',
}


def spec(
    name: str, *, annotations: Annotations = READING, budget: Budget | None = None
) -> ToolSpec:
    """Return a tool that takes a short text."""
    plain = native(name, annotations=annotations, budget=budget)
    return plain.model_copy(update={"input_schema": SCHEMA})


SPECS = (
    spec("demo.echo"),
    spec("demo.denied"),
    spec("demo.hidden"),
    spec("demo.ask", annotations=DESTRUCTIVE),
    spec("demo.rare", annotations=DESTRUCTIVE, budget=Budget(max_calls_per_run=1)),
    spec("demo.once", budget=Budget(max_calls_per_run=1)),
    spec("demo.turn", budget=Budget(max_calls_per_turn=2)),
    spec(
        "demo.finish",
        annotations=Annotations.for_builtin(side_effect=SideEffect.CONTROL),
    ),
    spec("vault.open"),
)


@dataclass
class Cell:
    """A cell with tools but no worker process."""

    rail: Toolrail
    bench: LedgerBench
    settings: Settings

    async def change_tool(self, name: str) -> None:
        """Announce another definition of one tool, and let the client see it."""
        specs = [
            spec.model_copy(update={"description": "Another one."}) if spec.name == name else spec
            for spec in SPECS
        ]
        registry = Registry(self.bench.redis, prefix=self.settings.key_prefix, deadline_s=5)
        await registry.announce("builtin", "builtin", specs, worker="w", available=True)
        await self.rail.refresh_tools()


def write_policy(folder: Path) -> Path:
    """Write the policy folder of these tests."""
    for name, text in POLICY.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@asynccontextmanager
async def open_cell(settings: Settings) -> AsyncGenerator[Cell]:
    """Give an open client; balance the books afterwards."""
    async with ledger_bench(settings) as bench:
        await bench.ledger.end_run(bench.run_id, status="completed", code="", actor="runtime:t")
        registry = Registry(bench.redis, prefix=settings.key_prefix, deadline_s=5)
        await registry.announce("builtin", "builtin", SPECS, worker="w", available=True)
        async with Toolrail(settings) as rail:
            yield Cell(rail, bench, settings)

        assert unaccounted(await bench.reader.totals()) == 0


@asynccontextmanager
async def serve(
    cell: Cell, body: Body = lambda arguments: str(arguments["text"])
) -> AsyncGenerator[None]:
    """Do to the ledger what a worker does, until the block ends."""
    bench = cell.bench

    async def work() -> None:
        while True:
            popped = await command(bench.redis, "BRPOP", bench.keys.queue("builtin"), "0.2")
            if popped is None:
                continue
            message = json.loads(cast("list[str]", popped)[1])
            ring = Doorbell.model_validate(orjson.loads(_decoded(message["body"]))[1])
            assert ring.verify(cell.settings.require_secret())
            claim = await bench.ledger.claim(
                ring.run_id,
                ring.call_key,
                attempt=ring.attempt,
                nonce=uuid.uuid4().hex,
                worker="w",
                lease_ms=60_000,
            )
            if isinstance(claim, Claim):
                await _finish(bench, claim, body)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        await end_task(task)


def _decoded(body: str) -> bytes:
    return b64decode(body)


async def _finish(bench: LedgerBench, claim: Claim, body: Body) -> None:
    arguments = cast("dict[str, JsonValue]", orjson.loads(claim.fields["args"]))
    result = ToolResult(
        call_id=claim.fields["call_id"],
        name=claim.fields["tool"],
        content=(TextBlock(text=body(arguments)),),
    )
    stored = await store_result(result, bench.blobs, inline_bytes=65_536)
    ends = claim.fields["tool"] == "demo.finish"
    ending = ending_of(claim.call_key, result, stored, run_end="completed" if ends else "")
    await bench.ledger.finish(
        claim.run_id, claim.call_key, ending, fence=claim.fence, actor="worker:w"
    )


async def opened(cell: Cell, profile: str = "agent", **more: object) -> Run:
    """Open a run."""
    return await cell.rail.open_run(profile=profile, **more)  # type: ignore[arg-type]


async def interactive(cell: Cell, *, tenant: str = "default", user: str | None = None) -> Run:
    """Open a run with somebody to ask."""
    return await cell.rail.open_run(
        profile="agent", approval_mode=ApprovalMode.INTERACTIVE, tenant=tenant, user=user
    )


async def asked(run: Run, call_id: str = "c1", name: str = "demo.ask", text: str = "a") -> Ticket:
    """Park a call."""
    ticket = await run.dispatch(CallRequest(id=call_id, name=name, arguments={"text": text}))
    assert ticket.state == "awaiting_approval"
    return ticket
