"""What the worker and its child processes say to each other, byte by byte.

Is: length-prefixed JSON for calls and replies, fixed-size messages for the guard. Is not: what
starts, kills or runs anything.
Above: `handle.py` and `process.py` in the worker, `guard.py` and `child.py` on the other side.
Below: struct and enum. Imports nothing of Toolrail: both sides load it, one of them in a hurry.
"""

import struct
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, NotRequired, TypedDict

if TYPE_CHECKING:
    from pydantic import JsonValue

HEADER = struct.Struct(">I")
"""Length in bytes of the JSON that follows."""

ORDER = struct.Struct(">BI")
"""Worker to guard: kind, child number. FORK carries two descriptors, for calls and output."""

REPORT = struct.Struct(">BIi")
"""Guard to worker: kind, child number, value (process id, or exit code)."""

ERROR_CHARS = 2_000
"""Longest error text that crosses; the same limit as for text to a model."""

REPLY_ROOM_BYTES = 65_536
"""What a reply may be longer than the largest result: keys, error text and repair data."""


class Order(IntEnum):
    """What the worker asks of the guard."""

    FORK = 1
    """Fork one child that serves calls on the descriptor that comes along."""
    REAP = 2
    """Forget a dead child. Until then its process id cannot be given to another process."""


class Report(IntEnum):
    """What the guard tells the worker."""

    READY = 1
    """The guard runs and takes orders."""
    STARTED = 2
    """A child was forked; value is its process id, and its process group."""
    EXITED = 3
    """A child is dead, with everything it started; value is its exit code, or minus the signal."""


class Kind(StrEnum):
    """How a call in a child ended."""

    VALUE = "value"
    TOOL_ERROR = "tool_error"
    """The tool raised an error with a code of its own."""
    SYSTEM_FAILURE = "system_failure"
    """The tool declared the system broken."""
    RAISED = "raised"
    """The tool raised anything else."""
    NOT_LOADED = "not_loaded"
    """The function could not be imported."""
    NOT_JSON = "not_json"
    TOO_LARGE = "too_large"


class Request(TypedDict):
    """One call, as the child reads it."""

    target: str
    """`module:attribute` of a function, or of an object with `call_isolated`."""
    arguments: "dict[str, JsonValue]"
    context: "dict[str, JsonValue]"
    max_output_bytes: int


class Reply(TypedDict):
    """How it ended, as the worker reads it."""

    kind: str
    leftovers: bool
    """The call left processes behind, so this child must not serve another."""
    value: "NotRequired[JsonValue]"
    code: NotRequired[str]
    type: NotRequired[str]
    message: NotRequired[str]
    next_action: NotRequired[str | None]
    structured: "NotRequired[JsonValue]"
    size: NotRequired[int]


def frame(payload: bytes) -> bytes:
    """Return the payload with its length in front."""
    return HEADER.pack(len(payload)) + payload
