"""Tell the supervisor that a child is ready: one JSON line on a pipe.

Is: both ends of that line, so that they cannot drift apart. Is not: the pipe's life (`child.py`).
Above: `child.py` reads it, `toolrail worker` writes it. Below: nothing of ours.
"""

import json
import os
from typing import cast

READY_EVENT = "toolrail.ready"


def announce_ready(ready_fd: int) -> None:
    """Write the ready line to the pipe that the supervisor gave, and close it. Called once."""
    line = json.dumps({"event": READY_EVENT, "pid": os.getpid()})
    with os.fdopen(ready_fd, "w", encoding="utf-8") as pipe:
        pipe.write(line + "\n")


def is_ready_line(line: bytes) -> bool:
    """Say whether a line of the ready pipe announces readiness."""
    try:
        message: object = json.loads(line)
    except ValueError:
        return False
    return (
        isinstance(message, dict) and cast("dict[str, object]", message).get("event") == READY_EVENT
    )
