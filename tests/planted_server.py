"""An MCP server that spills its environment and its arguments wherever it can.

Is: a program for its own process, over standard input and output; with the argument `refuse` one
that refuses every request. Is not: imported by tests.
Above: `test_planted_secrets.py`. Below: the SDK's server side.
"""

import json
import os
import sys

from mcp.server import MCPServer
from mcp.types import CallToolResult, TextContent

from tests import planted

OWN = os.environ["PLANTED_OWN"]  # noqa: TID251  # a server reads its own environment
PASSED = os.environ["PLANTED_PASSED"]  # noqa: TID251

server = MCPServer("leaky", version="1.0")


def say(words: str) -> None:
    """Say something where operators read it."""
    sys.stderr.write(f"{words} {OWN} {PASSED} {planted.SERVER_SAID.text}\n")
    sys.stderr.flush()


@server.tool(
    structured_output=False, title=f"Who {OWN}", description=f"Say who we are to {PASSED}."
)
async def whoami(password: str, note: str = OWN) -> CallToolResult:
    """Fail, with everything in the error."""
    say(f"whoami {password} {note}")
    words = f"{OWN} {PASSED} {password} {planted.SERVER_SAID.text}"
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


@server.tool(description="End the server.")
async def leave(password: str) -> str:
    """End, with everything on standard error."""
    say(f"leave {password} {planted.SERVER_ENDED.text}")
    os._exit(3)


def refuse() -> None:
    """Answer every request with an error that holds everything."""
    error = {"code": -32603, "message": f"{OWN} {PASSED} {planted.SERVER_REFUSED.text}"}
    for line in sys.stdin:
        answer = {"jsonrpc": "2.0", "id": json.loads(line).get("id"), "error": error}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    say("hello")
    if sys.argv[1:] == ["refuse"]:
        refuse()
    else:
        server.run("stdio")
