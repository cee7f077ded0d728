"""Tell the supervisor that a child is ready: one JSON line on a pipe.

Is: both ends of that line, so that they cannot drift apart. Is not: the pipe's life (`child.py`).
Above: `child.py` reads it, `toolrail worker` writes it. Below: nothing of ours.
"""

import json
import os
from typing import cast

READY_EVENT = "toolrail.ready"


def announce_ready(ready_fd: int, *, address: str = "") -> None:
    """Write the ready line to the pipe that the supervisor gave, and close it. Called once.

    Args:
        ready_fd: The pipe.
        address: `host:port` that the child chose to listen on, for the cluster's state file.
    """
    line = json.dumps({"event": READY_EVENT, "pid": os.getpid(), "address": address})
    with os.fdopen(ready_fd, "w", encoding="utf-8") as pipe:
        pipe.write(line + "\n")


def is_ready_line(line: bytes) -> bool:
    """Say whether a line of the ready pipe announces readiness."""
    return _message(line).get("event") == READY_EVENT


def ready_address(line: bytes) -> str:
    """Return the address in a ready line; empty when the child told none."""
    return str(_message(line).get("address") or "")


def _message(line: bytes) -> dict[str, object]:
    try:
        message: object = json.loads(line)
    except ValueError:
        return {}
    return cast("dict[str, object]", message) if isinstance(message, dict) else {}
