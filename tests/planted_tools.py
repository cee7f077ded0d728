"""Tools that spill every secret they get or hold, by every way there is.

Is: what the workers of `test_planted_secrets.py` run. Is not: a test. Above: that test. Below:
`toolrail.tools`, `tests/planted.py`.
"""

import logging
import os
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from tests import planted
from toolrail.tools import Permission, SystemFailure, ToolError, ToolOutput, tool
from toolrail_schemas import EventType, TextBlock

library = logging.getLogger("some.library")

Pin = Annotated[str, Field(json_schema_extra={"x-secret": True})]


class Account(BaseModel):
    """Where to log in."""

    host: str
    key: Annotated[str, Field(json_schema_extra={"format": "password"})] = ""


@tool("planted.log_in", read_only=True)
def log_in(pin: Pin, account: Account, password: str) -> str:
    """Print all arguments and fail with words of its own, in a process."""
    print(f"logging in with {pin}, {account.key} and {password}")  # noqa: T201  # what it is for
    print(planted.PRINTED.text)  # noqa: T201
    raise ValueError(f"{planted.RAISED.text}: no {password}")


@tool("planted.chat", read_only=True)
async def chat(pin: Pin, note: str) -> str:
    """Log all arguments through somebody else's logger, on the loop of the worker."""
    library.warning("%s %s %s", planted.LOGGED.text, pin, note, extra={"said": {"pin": [pin]}})
    library.warning("the key is %s", os.environ["TOOLRAIL_SECRET"])  # noqa: TID251
    redis_url = os.environ["TOOLRAIL_REDIS_URL"]  # noqa: TID251
    library.warning("the password is %s", urlsplit(redis_url).password)
    try:
        raise OSError(f"{planted.LOGGED_TRACE.text} {pin}")
    except OSError:
        library.exception("it failed", extra={"api_key": planted.LOGGED_EXTRA.text})
    raise ToolError("demo.refused", planted.TOOL_ERROR.text, next_action=planted.TOOL_ERROR.text)


@tool("planted.crash", read_only=True)
async def crash(pin: Pin) -> str:
    """Fail on the loop of the worker."""
    raise KeyError(planted.RAISED_ON_LOOP.text, pin)


@tool("planted.fail_run", read_only=True)
async def fail_run() -> str:
    """End the run."""
    raise SystemFailure("workspace.io_failed", planted.SYSTEM_FAILURE.text)


@tool("planted.tell", read_only=True)
async def tell() -> ToolOutput:
    """Tell the journal a secret, and give out a ref with one."""
    return ToolOutput(
        content=(TextBlock(text="told"),),
        resource_refs=(f"worldinfo:{planted.REFERRED.text}",),
        events=((EventType.CONTEXT_COMPONENT_SKIPPED, {"why": [planted.TOLD.text]}),),
    )


@tool(
    "planted.pay",
    permission=Permission.APPROVAL_REQUIRED,
    title=planted.DESCRIBED.text,
    description=planted.DESCRIBED.text,
)
async def pay(pin: Pin, note: str) -> str:
    """Wait for a person."""
    return f"paid with {pin}, {note}"
