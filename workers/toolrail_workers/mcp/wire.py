"""Read one line of a server as a JSON-RPC message, and get an answer out of a damaged one.

Is: a pure function. Is not: framing (`stdio.py`) or the meaning of a result (`sanitize.py`).
Above: `stdio.py`. Below: the SDK's message models.

A line that is dropped may be the answer of a call, which would then wait for its whole time.
"""

import json
from typing import cast

from mcp.types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    jsonrpc_message_adapter,
)


def read_message(line: bytes) -> JSONRPCMessage | None:
    """Return the message of a line; None when the line is none.

    Text that is not valid Unicode is repaired. What has the id of an answer but is no valid one
    becomes an error answer.
    """
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return _second_reading(line)


def _second_reading(line: bytes) -> JSONRPCMessage | None:
    try:
        value = cast(object, json.loads(line.decode("utf-8", errors="replace")))
        if not isinstance(value, dict):
            return None
        # Python writes half surrogate pairs, of file names for example, that no other reader takes.
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", errors="replace")
    except (ValueError, RecursionError):
        return None
    try:
        return jsonrpc_message_adapter.validate_json(text, by_name=False)
    except ValueError:
        return _refused(cast("dict[str, object]", value))


def _refused(value: dict[str, object]) -> JSONRPCMessage | None:
    request_id = value.get("id")
    if "method" in value or isinstance(request_id, bool) or not isinstance(request_id, int | str):
        return None
    problem = ErrorData(code=INTERNAL_ERROR, message="the answer is no valid JSON-RPC response")
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=problem)
