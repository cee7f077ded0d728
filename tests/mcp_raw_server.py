"""A small MCP server without the SDK, which does exactly what a test tells it, right or wrong.

Is: a program for its own process: newline-delimited JSON-RPC on standard input and output, of the
handshake era. Is not: imported by tests.
Above: `tests/mcp_servers.py`. Below: the standard library.

The one argument is a JSON object:
    tools         raw tool definitions of the listing; a list of lists is a listing of pages,
                  null a server that does not know the method
    answers       raw result by tool name; {"$": ACTION} does something instead
    on_discover   "refuse" (as a legacy server does) or "exit"
    on_initialize "answer" or "hang"
    wire_log      file to which every received line is appended
    child_file    file for the pid of a grandchild that is started at once and outlives us
    stderr_bytes  how much to say there at the start
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

Message = dict[str, Any]

SCRIPT: Message = json.loads(sys.argv[1])
FOREVER = threading.Event()
SLEEPER = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"


def send(message: Message) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def die(_: Message) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave(_: Message) -> None:
    os._exit(3)


def be_silent(_: Message) -> None:
    return


def freeze(_: Message) -> None:
    FOREVER.wait()


def refuse(request: Message) -> None:
    code = arguments_of(request)["code"]
    send({"id": request["id"], "error": {"code": code, "message": "refused so"}})


def tell_pid(_: Message) -> Message:
    return text(str(os.getpid()))


def tell_environment(_: Message) -> Message:
    return text(json.dumps(dict(os.environ)))  # noqa: TID251  # it is what is tested


def print_junk(_: Message) -> Message:
    sys.stdout.write("this line is not JSON\n")
    return text("after junk")


def print_long_line(request: Message) -> Message:
    chars: int = arguments_of(request)["chars"]
    return text("x" * chars)


def replace_tools(request: Message) -> Message:
    SCRIPT["tools"] = arguments_of(request)["tools"]
    send({"method": "notifications/tools/list_changed"})
    return text("replaced")


def ask_model(_: Message) -> Message:
    send({"id": 1, "method": "sampling/createMessage", "params": sampling()})
    return text(sys.stdin.readline())


ACTIONS: dict[str, Callable[[Message], Message | None]] = {
    function.__name__: function
    for function in (
        die,
        leave,
        be_silent,
        freeze,
        refuse,
        tell_pid,
        tell_environment,
        print_junk,
        print_long_line,
        replace_tools,
        ask_model,
    )
}


def arguments_of(request: Message) -> Message:
    return cast(Message, request["params"].get("arguments", {}))


def sampling() -> Message:
    return {
        "messages": [{"role": "user", "content": {"type": "text", "text": "think for me"}}],
        "maxTokens": 10,
    }


def text(said: str) -> Message:
    return {"content": [{"type": "text", "text": said}]}


def listing(request: Message) -> Message:
    tools = SCRIPT["tools"]
    if not tools or not isinstance(tools[0], list):
        return {"tools": tools}
    params: Message = request.get("params", {})
    page = int(params.get("cursor", 0))
    more = {"nextCursor": str(page + 1)} if page + 1 < len(tools) else {}
    return {"tools": tools[page], **more}


def initialize(request: Message) -> Message:
    if SCRIPT.get("on_initialize") == "hang":
        FOREVER.wait()
    return {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "raw", "version": "1"},
    }


def result_of(request: Message) -> Message | None:
    method = request["method"]
    if method == "initialize":
        return initialize(request)
    if method == "ping":
        return {}
    if method == "tools/list" and SCRIPT["tools"] is not None:
        return listing(request)
    if method == "tools/call":
        answer: Message = SCRIPT["answers"][request["params"]["name"]]
        return ACTIONS[answer["$"]](request) if "$" in answer else answer
    if method == "server/discover" and SCRIPT.get("on_discover") == "exit":
        os._exit(4)
    send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
    return None


def start() -> None:
    if "child_file" in SCRIPT:
        child = subprocess.Popen([sys.executable, "-c", SLEEPER])
        Path(SCRIPT["child_file"]).write_text(str(child.pid))
    sys.stderr.write("e" * SCRIPT.get("stderr_bytes", 0))
    sys.stderr.flush()


def main() -> None:
    start()
    for line in sys.stdin:
        if "wire_log" in SCRIPT:
            with Path(SCRIPT["wire_log"]).open("a") as log:
                log.write(line)
        request = json.loads(line)
        if "id" not in request or "method" not in request:
            continue
        result = result_of(request)
        if result is not None:
            send({"id": request["id"], "result": result})


if __name__ == "__main__":
    main()
