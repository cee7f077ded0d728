"""What a running tool knows about its call, and what it may use.

Is: `ToolContext` and the small ports behind it. Is not: their implementations (workers), nor
anything of queue, ledger or policy: a tool sees none of these.
Above: `tools.py`, tool functions, executors. Below: `errors.py`, `toolrail_schemas`.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from toolrail.errors import ToolError
from toolrail_schemas import Caller, JsonObject


class BlobStore(Protocol):
    """Keeps bytes of a run beyond the call, such as a diff or an image."""

    async def put_blob(self, data: bytes, mime: str) -> str:
        """Store `data` and return its SHA-256; storing the same bytes again changes nothing."""
        ...


class SessionMemory(Protocol):
    """Remembers, per file, which version this run has last read or written."""

    def version_of(self, path: str) -> str | None:
        """Return the SHA-256 this run knows `path` by, or None."""
        ...


class WorkspaceAccess(Protocol):
    """The files of a run, by logical path; the path rules of semantics 5.1 hold for every call."""

    def read_bytes(self, path: str) -> bytes:
        """Return the content of one file."""
        ...

    def write_bytes(self, path: str, content: bytes, *, expected_sha256: str | None) -> str:
        """Replace one file in one step and return its new SHA-256.

        `expected_sha256` is the version that may be overwritten; None means the file must be new.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext:
    """One call, as its tool sees it. A function gets it by a parameter of this type."""

    run_id: str
    call_key: str
    """Stable over all attempts of the call: the key for a tool's own idempotency."""
    call_id: str = ""
    tool: str = ""
    attempt: int = 1
    """1 for the first start. Above 1 an earlier attempt may have done the work already."""
    fence: int = 0
    """Grows with every claim; lets a resource refuse a worker that lost its lease."""
    caller: Caller = Caller.ASSISTANT
    tenant: str = ""
    deadline: float = math.inf
    """When the call is stopped, on the clock of `time.monotonic()`."""
    max_output_tokens: int = 8_000
    """What of the output a model is shown at most; more is cut and stored."""
    max_output_bytes: int = 1_048_576
    """What is stored of the output at most."""
    workspace: WorkspaceAccess | None = None
    """The run's files, for `thread` tools only: file work would block a loop, and a child process
    must not need the worker's disk."""
    library: object | None = None
    """What the run reads besides files, for our own tools: its chat, skills and world info."""
    store: BlobStore | None = None
    session: SessionMemory | None = None
    keep: Callable[[bytes, str], str] | None = None
    """`store.put_blob` for a function that blocks in a thread: content and MIME type in, SHA-256
    out. Set by the executor for `thread` tools."""
    stopped: Callable[[], bool] | None = None
    """Whether the call was cancelled. A thread cannot be killed, so a blocking function asks."""
    on_progress: Callable[[float, str], None] | None = None

    @property
    def remaining_s(self) -> float:
        """Seconds until the call is stopped; 0 when it is too late."""
        return max(0.0, self.deadline - time.monotonic())

    def check_alive(self) -> None:
        """Return when the call may still have an effect; ask right before each one.

        Raises:
            ToolError: `tool.cancelled` or `tool.timeout`.
        """
        if self.stopped is not None and self.stopped():
            raise ToolError("tool.cancelled", "The call was cancelled before it changed anything.")
        if self.remaining_s == 0:
            raise ToolError("tool.timeout", "The time for the call was over before its effect.")

    def report_progress(self, fraction: float, message: str = "") -> None:
        """Tell whoever waits how far the call is; never blocks and never fails.

        Args:
            fraction: Done share, 0 to 1; clamped.
            message: One short line for a person.
        """
        if self.on_progress is not None:
            self.on_progress(min(max(fraction, 0.0), 1.0), message[:200])

    def to_wire(self) -> JsonObject:
        """Return the part of the context that can cross into another process."""
        return {
            "run_id": self.run_id,
            "call_key": self.call_key,
            "call_id": self.call_id,
            "tool": self.tool,
            "attempt": self.attempt,
            "fence": self.fence,
            "caller": self.caller.value,
            "tenant": self.tenant,
            # The monotonic clock counts from boot, so all processes of a host share it.
            "deadline": None if math.isinf(self.deadline) else self.deadline,
            "max_output_tokens": self.max_output_tokens,
            "max_output_bytes": self.max_output_bytes,
        }

    @classmethod
    def from_wire(cls, wire: JsonObject) -> Self:
        """Return the context inside a child process: the facts, without workspace and stores."""
        values: dict[str, object] = dict(wire)
        values["caller"] = Caller(str(wire["caller"]))
        values["deadline"] = math.inf if wire["deadline"] is None else wire["deadline"]
        return cls(**values)  # type: ignore[arg-type]  # written by to_wire of the same version
