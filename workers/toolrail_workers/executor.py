"""Say what an executor is: the runner of one tool source.

Is: the port between `execute.py` and the executors, and the values that cross it. Is not: an
executor; queue, ledger and Celery are unknown on the far side of this port.
Above: `execute.py`, `announce.py`, `runtime.py`. Below: `toolrail.tools`, the schemas.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolrail.tools import ToolContext, ToolOutput
from toolrail_schemas import Caller, JsonObject, Source, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedCall:
    """One call that this worker has claimed, with everything needed to run it."""

    run_id: str
    call_key: str
    call_id: str
    tool: str
    """Canonical name."""
    source: Source
    spec_hash: str
    """Of the spec that the decision was made on; the executor's own is compared before running."""
    arguments: JsonObject
    attempt: int
    fence: int
    """Grows with every claim of the call; the same value never reaches a tool twice."""
    caller: Caller
    tenant: str
    profile: str
    turn: int
    timeout_s: float
    max_output_bytes: int
    max_output_tokens: int
    policy_hash: str
    client: str
    edited: str = ""
    """The arguments as a summary, when a person approved them instead of the model's."""


@dataclass(frozen=True, slots=True)
class OwnerSpecs:
    """The tools of one owner (`builtin`, an MCP server, an extension) as they are now."""

    owner: str
    specs: tuple[ToolSpec, ...]
    available: bool = True
    """Whether a call could run here at this moment."""
    reason: str | None = None
    """Why not, one sentence for a person."""


class Executor(Protocol):
    """Runs the tools of one source. One object per worker process, used on its event loop only."""

    source: Source

    async def start(self, on_change: Callable[[], None]) -> None:
        """Make the tools runnable; return without waiting for slow servers.

        Args:
            on_change: Called on the loop, never blocks, whenever `owners()` would answer
                differently.
        """
        ...

    async def stop(self) -> None:
        """Close servers and children, in bounded time."""
        ...

    def owners(self) -> Sequence[OwnerSpecs]:
        """Return what can be run now. Cheap: asked on every call and every announcement."""
        ...

    async def execute(self, call: ClaimedCall, context: ToolContext) -> ToolOutput:
        """Run the call and return its output.

        Is cancelled at the deadline and on cancel, and must then really stop the work before it
        lets the cancellation through.

        Raises:
            ToolError: The call failed; the run goes on.
            SystemFailure: The system failed under the call; the run ends.
        """
        ...
