"""An executor whose tools are functions of the test.

Is: a real executor, by the port. Is not: builtin, MCP or extension. Above: tests of the worker.
Below: `toolrail_workers.executor`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import Annotations, JsonObject, SideEffect, Source, SourceRef, ToolSpec
from toolrail_workers.executor import ClaimedCall, OwnerSpecs

Function = Callable[[ClaimedCall, ToolContext], Awaitable[ToolOutput]]
READS = Annotations.for_builtin(read_only=True)
SENDS = Annotations.model_validate({"trusted": True, "side_effect": SideEffect.EXTERNAL})
ENDS = Annotations.for_builtin(side_effect=SideEffect.CONTROL)


def make_spec(
    name: str,
    *,
    annotations: Annotations = READS,
    source: Source = Source.BUILTIN,
    output_schema: JsonObject | None = None,
) -> ToolSpec:
    """Return a spec that takes anything."""
    if source is Source.MCP:
        annotations = Annotations.worst_case()
    return ToolSpec.model_validate(
        {
            "name": name,
            "description": "A tool of the tests.",
            "input_schema": {"type": "object"},
            "output_schema": output_schema,
            "annotations": annotations,
            "source": source,
            "source_ref": SourceRef(server="demo") if source is Source.MCP else None,
        }
    )


class FunctionExecutor:
    """Runs functions, and counts what it was asked."""

    def __init__(self, source: Source = Source.BUILTIN, *, owner: str = "builtin") -> None:
        self.source = source
        self.owner = owner
        self.functions: dict[str, Function] = {}
        self.specs: dict[str, ToolSpec] = {}
        self.started: list[str] = []
        """Call ids, one per execution."""
        self.available = True
        self.stopped = False
        self._on_change: Callable[[], None] = lambda: None

    def add(self, spec: ToolSpec, function: Function) -> ToolSpec:
        """Offer a tool."""
        self.specs[spec.name] = spec
        self.functions[spec.name] = function
        self._on_change()
        return spec

    def remove(self, name: str) -> None:
        """Offer a tool no longer."""
        del self.specs[name]
        self._on_change()

    async def start(self, on_change: Callable[[], None]) -> None:
        """Start."""
        self._on_change = on_change

    async def stop(self) -> None:
        """Stop."""
        self.stopped = True

    def owners(self) -> Sequence[OwnerSpecs]:
        """Return the one owner."""
        return [OwnerSpecs(self.owner, tuple(self.specs.values()), self.available)]

    async def execute(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Run the function."""
        self.started.append(call.call_id)
        return await self.functions[call.tool](call, context)


async def echo(call: ClaimedCall, context: ToolContext) -> ToolOutput:
    """Answer with the text it was given."""
    return ToolOutput.text(str(call.arguments.get("text", "")))


class Gate:
    """A tool that works until it is let go, and notes when it was stopped instead."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.was_cancelled = False

    async def __call__(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Wait for the gate."""
        self.entered.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        return ToolOutput.text("went through")
